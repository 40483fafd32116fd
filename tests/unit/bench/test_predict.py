"""What `make test-predict` makes of a plan and a drain."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.bench.predict import entry, mixes, verdict

MIX = mixes()[0]


def plan(seconds: float) -> dict[str, Any]:
    return {"fits": True, "steps": [{"hosts": ["host-a"], "duration": seconds, "moves": []}]}


def drained(seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "processed": 0.0, "attempts": 1, "vms": []}


@pytest.mark.parametrize(
    ("predicted", "real", "off_by", "code"),
    [(10.0, 10.0, 0.0, 0), (12.0, 10.0, 0.2, 0), (13.0, 10.0, 0.3, 1), (7.0, 10.0, -0.3, 1)],
)
def test_too_short_is_as_wrong_as_too_long(predicted: float, real: float, off_by: float, code: int) -> None:
    row = entry(MIX, plan(predicted), drained(real))
    assert row["off_by"] == pytest.approx(off_by)
    other = entry(MIX, plan(10.0), drained(10.0))
    line = f"test-predict: drains=2 worst_error={abs(off_by):.2f}"
    assert verdict([other, row]) == (line, code)


def test_a_plan_that_does_not_fit_is_no_prediction() -> None:
    with pytest.raises(SystemExit, match="not one step that fits"):
        entry(MIX, {**plan(1.0), "fits": False}, drained(1.0))


def test_the_mixes_are_five_and_differ() -> None:
    made = {(m.mbit, tuple((g.memory_mib, g.fill_mib, g.dirty_mib_s) for g in m.guests)) for m in mixes()}
    assert len(made) == 5
