"""How a host is reached, and what it offers to a VM that comes to it.

`connection` gives connections that answer or fail; `facts` reads capabilities, networks and pools
once. It does not know what a drain is.
"""
