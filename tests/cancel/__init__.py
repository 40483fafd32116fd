"""A roll is cancelled in every way there is; the same command again carries on, or abort.yml."""
