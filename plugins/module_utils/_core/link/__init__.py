"""Decide which migrations get the link, and when one has taken too long. Pure; the clock is passed in.

In go the jobs as last read, out come bandwidths and the end of what does not converge. The holder
and the plan of a roll go by the same rules. It knows nothing of hosts or decisions.
"""
