"""A run on one node: its slices, its check mode, and the acts that the core decides."""
