"""The causes for which a migration waits, in the order in which an operator should look.

`causes` judges objects (pure), `read` gets what of them a run needs, with few requests. The drain,
the migration of one VM and kubevirt_migration_info give the same answer by it.
"""
