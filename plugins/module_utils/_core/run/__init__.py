"""A run: how it begins or is carried on, its loop, check mode, and what a module returns of it.

`start` makes the record of a run and refuses one that another has taken over. `engine` is the
loop. `check` is check mode: the same decision on one observation, and nothing done. `report` is the
result, with a row for each VM from `rows` and the difference from `diff`. What a run is on a
platform (locks, what is read, what is done) is the platform's.
"""
