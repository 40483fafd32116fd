# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make lint-layers: no identifier of the code has a word that only we would understand.

docs/architecture.md (Words) has the words of the field for them. And no variable is named `_`,
which ansible-test's pylint refuses: that takes minutes and is not in the quick tier.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREES = ("plugins", "tests/fleetsim")
# The private word -> the word of the field. A word is a whole name, or a part between underscores.
WORDS = {
    "askers": "requesters",
    "bringback": "restore",
    "bring_back": "restore",
    "carry": "cursor",
    "foresee": "predict",
    "foreseen": "predicted",
    "give_back": "release",
    "hand_over": "pass, switch_over",
    "look": "check, read",
    "mend": "fix",
    "picture": "diff",
    "runs_us": "control_node",
    "sight": "sighting, view",
    "sights": "sightings, views",
    "take_back": "remove, withdraw",
    "told": "reported",
    "tryout": "dry_run",
    "unheard": "unreadable",
    "unmet": "unsatisfied, unsupported",
}
KEPT = {"UNMET_SETTINGS"}  # a code that users know


def found(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, identifier, private word) of Python source."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string not in KEPT:
            padded = f"_{token.string.strip('_').lower()}_"
            for word in WORDS:
                if f"_{word}_" in padded:
                    yield token.start[0], token.string, word


def unnamed(text: str) -> Iterator[int]:
    """Lines that give a value to a variable named `_`."""
    for node in ast.walk(ast.parse(text)):
        if (isinstance(node, ast.Name) and node.id == "_" and isinstance(node.ctx, ast.Store)) or (
            isinstance(node, ast.arg) and node.arg == "_"
        ):
            yield node.lineno


def main() -> int:
    wrong = 0
    for path in sorted(p for tree in ("plugins", "tests") for p in (ROOT / tree).rglob("*.py")):
        for line in unnamed(path.read_text("utf-8")):
            wrong += 1
            print(f"{path.relative_to(ROOT)}:{line}: a variable named _: call it unused_...")
    for path in sorted(p for tree in TREES for p in (ROOT / tree).rglob("*.py")):
        for line, name, word in found(path.read_text("utf-8")):
            wrong += 1
            print(f"{path.relative_to(ROOT)}:{line}: {name}: instead of {word}: {WORDS[word]}")
    print(f"words: {wrong or 'no'} identifiers with a private word")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
