# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventories and the commands of README.md, as a reader copies them."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
# What differs from run to run: a roll's id, times, and which host of several it is.
_VARIES = re.compile(r"\b[0-9a-f]{6}\b|\d+(\.\d+)?")


def inventory(name: str) -> str:
    """The block of YAML that begins with the name of its file."""
    return _blocks("yaml", f"# {name}\n")


def commands(of: str) -> list[str]:
    """The playbooks that are run with that inventory, a line each."""
    lines = _blocks("shell", "ansible-playbook").splitlines()
    return [line for line in lines if f"-i {of} " in line]


def sessions() -> list[tuple[str, list[str]]]:
    """Commands, each with what is printed."""
    found = []
    for part in _blocks("console", "$ ").split("$ ")[1:]:
        command, *printed = part.splitlines()
        found.append((command, printed))
    return found


def shape(line: str) -> str:
    """The line without what varies."""
    return _VARIES.sub("#", line.rstrip())


def _blocks(language: str, begins: str) -> str:
    """The first block of that language that begins so. Raises ValueError where there is none."""
    text = README.read_text(encoding="utf-8")
    for block in re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if block.startswith(begins):
            return str(block)
    raise ValueError(f"README.md has no block of {language} that begins with {begins!r}")
