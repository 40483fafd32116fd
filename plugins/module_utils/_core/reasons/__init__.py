"""Why something cannot go on: every reason by its code, and the sentences that users read.

`codes` names the reasons. `table` has a row for each: what it means on both platforms, what to do,
and how the preflight reports it; the rows are in `migratable`, `placement`, `policy`, `course`,
`cluster` and `node`. `reason` has one of them in a result. A change of words is made here, and a new reason is a
name and a row. It knows nothing else of the core.
"""
