"""Six real hosts, one off, one that dies amid its own drain and another's: the small fleet.

The large one is `make test-fleet`. What counts is counted from the raw log (tests/fleet/count.py).
"""

from __future__ import annotations

import pytest
from fleet import deeds, scene
from fleet.count import count

from lab import own_lab

pytestmark = [pytest.mark.lab, pytest.mark.full]


def test_drains_go_on_with_a_host_that_is_off_and_one_that_dies() -> None:
    which = scene.SMALL
    with own_lab("six", which.hosts) as lab:
        wrong = deeds.roll(lab, which, print)
        found = count(lab.paths.raw)
        wrong += found.wrong(which.hosts, scene.DEAD, which.drained, which.doomed)
        assert wrong == []
