"""What stands in the way of draining a node: lists, access reviews and dry runs, as facts.

`check` puts the core's facts together, and the core judges them. Nothing is marked or evicted.
"""
