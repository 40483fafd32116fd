"""A link that breaks in post-copy, for real: `make postcopy-demo`."""
