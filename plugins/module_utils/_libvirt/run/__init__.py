"""A run on one host: its slices, its check mode, and the acts that the core decides."""
