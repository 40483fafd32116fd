"""The volumes in a host's pool `virtops`: exclusive to create, listed with one call.

A volume is a record, a lock and a reservation at once; its name carries the facts. Here are names,
volumes, the cordon, and notes on copied disks. What the texts mean is for others to know.
"""
