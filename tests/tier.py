"""How much of a search a test does: `make test` looks at a share, everything else at the whole.

The share is the same in each run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

QUICK = os.environ.get("TIER") == "quick"


def points() -> Iterator[int]:
    """1, 2, 3 and so on; in the quick tier each fifth, from the first."""
    return count(1, 5 if QUICK else 1)


def share(whole: int, quick: int) -> int:
    return quick if QUICK else whole
