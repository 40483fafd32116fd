"""Hosts that die, for real: `make recover-demo` and `make test-fencing`."""
