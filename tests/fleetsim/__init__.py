"""A fleet of hosts in memory, with a virtual clock and faults, on which the core's loop runs.

`simulate` drains it, `platform` is what the loop asks, `fleet` is what happens to VMs and links as
time goes by. It stands to the core as kubesim stands to KubeVirt. It may know the core alone.
"""
