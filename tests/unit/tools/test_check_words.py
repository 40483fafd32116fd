# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A private word in an identifier is found, and only there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_spec = importlib.util.spec_from_file_location(
    "check_words", ROOT / "tests" / "tools" / "check_words.py"
)
assert _spec is not None
assert _spec.loader is not None
tool = importlib.util.module_from_spec(_spec)
sys.modules["check_words"] = tool
_spec.loader.exec_module(tool)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("def told(self): pass", "told"),
        ("class Look: pass", "look"),
        ("self._look_at(node)", "look"),
        ("vm.runs_us = True", "runs_us"),
        ("lock.give_back_quietly()", "give_back"),
        ("f(disk_sight=1)", "sight"),
    ],
)
def test_a_private_word_is_found_with_its_line(text: str, word: str) -> None:
    assert [(line, private) for line, _name, private in tool.found(f"\n{text}\n")] == [(2, word)]


@pytest.mark.parametrize(
    "text",
    ["sightings = 1", "name = 'told'", "# told, look", "lookup(outlook)", "Check.UNMET_SETTINGS"],
)
def test_other_names_texts_and_comments_are_not(text: str) -> None:
    assert list(tool.found(f"{text}\n")) == []


def test_the_code_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main() == 0, capsys.readouterr().out
