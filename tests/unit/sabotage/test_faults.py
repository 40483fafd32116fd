"""The planted faults fit the code: known in a second, not at the end of `make sabotage`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sabotage.run import in_form

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "tests" / "sabotage" / "faults").glob("*.json"))
FAULTS: list[dict[str, Any]] = [f for path in FILES for f in json.loads(path.read_text("utf-8"))]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["name"])
def test_its_text_is_there_once_and_its_tests_exist(fault: dict[str, Any]) -> None:
    assert (ROOT / fault["file"]).read_text("utf-8").count(fault["find"]) == 1, fault["file"]
    assert fault["tests"]
    for test in fault["tests"]:
        path, _sep, name = test.partition("::")
        assert not path.startswith("tests/integration"), "faults are planted without a lab"
        text = (ROOT / path).read_text("utf-8")
        assert f"def {name.partition('[')[0]}(" in text or not name, test


def test_no_name_stands_twice() -> None:
    assert FAULTS
    assert [n for n, count in Counter(f["name"] for f in FAULTS).items() if count > 1] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_four_lines_are_enough_for_a_fault(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text == in_form(json.loads(text)), "tests/sabotage/run.py --format writes it so"
