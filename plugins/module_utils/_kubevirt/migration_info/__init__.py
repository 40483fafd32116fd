"""The report of kubevirt_migration_info: what each migration waits for. Only reads.

The answer is that of `waiting`, which a drain goes by as well.
"""
