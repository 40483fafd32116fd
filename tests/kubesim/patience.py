"""How long to wait for what must come.

A hang is all that it is for: what comes is waited for no longer than it takes, and a shorter time
would only fail on a busy machine. With a fault planted a hang is what is expected, and is short.
"""

from __future__ import annotations

import os

NAME = "VIRTOPS_PATIENCE"
MINUTES = 600.0


def patience() -> float:
    """Real seconds."""
    return float(os.environ.get(NAME, MINUTES))
