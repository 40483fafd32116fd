"""make chaos: drains, restores and rolls, and what happens to a cluster or a fleet at seeded moments meanwhile."""
