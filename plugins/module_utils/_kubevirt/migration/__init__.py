"""The migration of one VM: read, decide, ask, until it is final or the slice is over.

`decide` is pure: from a view to one step. Its memory is an annotation on the VMI, not the record of
a node, so that no right on nodes is needed.
"""
