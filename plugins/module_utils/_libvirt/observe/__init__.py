"""Observe: read all hosts once, and put them together as the core's Observation.

`host` is one host as it is now, `vm` what does not change about a VM, `observe` the whole. It only
reads; what is made of it is for the core to decide.
"""
