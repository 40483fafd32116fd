"""The plan of a roll: the order of the hosts, where each VM goes, when, and for how long. Pure.

In goes a fleet as plain data, out come steps with times, or the sentence that says why none fits.
Where a VM goes is asked of `decide`, step by step; nothing is decided here a second time.
"""
