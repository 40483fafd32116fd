"""The facts that stand in the way of draining a node, from lists, access reviews and dry runs.

`check` puts the core's facts together, and the core judges them. Nothing is marked or evicted.
"""
