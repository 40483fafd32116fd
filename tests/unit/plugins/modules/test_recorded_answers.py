"""Of guests that ran on real hosts the preflight tells today what it told there.

Nothing but libvirt's answers is left of these hosts. What was read in a file of one is not found here.
"""

from __future__ import annotations

from typing import Any

import pytest
from recorded import HERE, Recording, play

RECORDINGS = sorted(path.stem for path in HERE.glob("*.json"))
# The header of an image: qemu-img keeps its snapshots there, and libvirt does not know of them.
IN_A_FILE = {("VM snapped", "DisksNotLiveMigratable")}


def _rows(findings: list[dict[str, Any]]) -> set[tuple[str, str, str, str]]:
    rows = {(row["subject"], row["code"], row["severity"], row["message"]) for row in findings}
    return {row for row in rows if row[:2] not in IN_A_FILE}


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_same_answers_have_the_same_reasons(name: str) -> None:
    path = HERE / f"{name}.json"
    assert _rows(play(path)) == _rows(Recording.read(path).told)


def test_the_recordings_are_of_guests_that_stay_for_many_reasons() -> None:
    told = [row for name in RECORDINGS for row in Recording.read(HERE / f"{name}.json").told]
    assert len({row["code"] for row in told if row["subject"].startswith("VM ")}) >= 18
