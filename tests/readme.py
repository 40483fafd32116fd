"""The inventories and the commands of README.md and of the start pages, as a reader copies them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = "README.md"
# What differs from run to run: a roll's id, times, and which host of several it is.
_VARIES = re.compile(r"\b[0-9a-f]{6}\b|\d+(\.\d+)?")


def inventory(name: str, page: str = README) -> str:
    """The block of YAML that begins with the name of its file."""
    return _blocks("yaml", f"# {name}\n", page)[0]


def commands(of: str, page: str = README) -> list[str]:
    """The playbooks that are run with that inventory, a line each."""
    lines = "".join(_blocks("shell", "ansible-playbook", page)).splitlines()
    return [line for line in lines if f"-i {of} " in line]


def sessions(page: str = README) -> list[tuple[str, list[str]]]:
    """Commands, each with what is printed."""
    found = []
    for part in "".join(_blocks("console", "$ ", page)).replace(" \\\n   ", "").split("$ ")[1:]:
        command, *printed = part.splitlines()
        found.append((command, printed))
    return found


def typed(page: str) -> list[str]:
    """All commands of a page, in lists too."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```console\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [line.strip()[2:] for block in blocks for line in block.splitlines() if line.strip().startswith("$ ")]


def shape(line: str) -> str:
    """The line without what varies."""
    return _VARIES.sub("#", line.rstrip())


def _blocks(language: str, begins: str, page: str) -> list[str]:
    """The blocks of that language that begin so. Raises ValueError where there is none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    found = [str(block) for block in blocks if block.startswith(begins)]
    if not found:
        raise ValueError(f"{page} has no block of {language} that begins with {begins!r}")
    return found
