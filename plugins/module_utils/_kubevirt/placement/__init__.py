"""Which nodes take a VM."""
