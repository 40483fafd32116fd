"""Faults of order, enumerated: a run is recorded, then played once for each of its points and each fault.

`scenarios` says what is run, `play` runs it as an action plugin does, `points` makes the list of cases of a run that
nothing disturbed, `others` is somebody else's hand, `judge` says what is wrong at the end. `run` is `make perturb`.
"""
