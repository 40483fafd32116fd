"""Small inputs that went wrong once, each with its right answer: on the lab and on the simulator.

`run` is the driver (`make cases`). A platform's file has the cases, functions named as `l1_nwfilter`, and may
have a `bed`: a context manager, whose value each case is given. A case returns None, or what is wrong.
"""
