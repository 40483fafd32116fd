"""The platform libvirt: one host that is drained, and its peers, through their libvirtd.

What modules call lies at the top: service (a slice of a drain), migration (of one VM), check_mode,
declare, options, errors. platform and act are what the core's loop needs. No other platform's
client is known here, and nothing exits.
"""
