"""The small process on the source host that makes the calls that block.

Orders go in over a socket (client), events and outcomes come out: migrations with their link and
deadlines, saves, requests to stop. It outlives the module that started it. It knows no module, no
decision and no record of a drain.
"""
