"""Find what would block a drain before it begins: from facts to blockers and warnings. Pure.

A platform puts what it read into `facts`; `check` judges; what can be
found is the table in `reasons`. It asks `decision` which way each VM would go, and reads nothing.
"""
