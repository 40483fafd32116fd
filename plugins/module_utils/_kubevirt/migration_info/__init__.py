"""What kubevirt_migration_info reports: what each migration waits for. Only reads.

The answer is that of `waiting`, which a drain goes by as well.
"""
