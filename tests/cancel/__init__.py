"""Drains and rolls that are ended in their middle, in every way; rolls that begin at once."""
