"""The demo, and what it shares with the other proofs: running playbooks against a lab."""
