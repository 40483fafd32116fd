"""The pages for contributors name no file that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# In backquotes, with a slash in it: `run/engine`, `_core/claims/owners.py`, `plan/order.plan_roll`.
_NAME = re.compile(r"`([A-Za-z_.][\w.-]*(?:/[\w.-]+)+/?)`")
_NO_FILES = ("lab/", "virtops.maintenance/", "build/", "cluster.x-k8s.io/")  # annotations, labels, what is made


def named(page: str) -> list[str]:
    return [name for name in _NAME.findall(page) if not name.startswith(_NO_FILES)]


def is_there(name: str, files: list[str]) -> bool:
    """As a folder, a file, or something in a file: the end of its path is enough."""
    folder, _slash, last = name.rstrip("/").rpartition("/")
    stem, _dot, within = last.partition(".")
    if within in ("", "py", "yml", "yaml", "json", "toml", "txt", "md") or not stem:
        ends = [f"{folder}/{last}", *([] if within else [f"{folder}/{last}.py"])]
        return any(f"/{end}/" in f"/{file}/" for file in files for end in ends)
    sources = [file for file in files if f"/{file}".endswith(f"/{folder}/{stem}.py")]
    return any(re.search(rf"\b{within}\b", (ROOT / file).read_text("utf-8")) for file in sources)


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_each_file_that_is_named_is_there(page: str) -> None:
    tops = ("plugins", "playbooks", "roles", "tests", "docs", "extensions", "changelogs", "meta", ".github")
    files = [path.relative_to(ROOT).as_posix() for top in tops for path in (ROOT / top).rglob("*")]
    names = named((ROOT / page).read_text("utf-8"))
    assert len(names) > 10
    assert not [name for name in names if not is_there(name, files)]


def test_one_that_is_not_there_is_found() -> None:
    files = ["plugins/module_utils/_core/plan/order.py"]
    assert named("see `plan/order`, `_core/plan`, `serial` and `lab/...`") == ["plan/order", "_core/plan"]
    assert is_there("plan/order.plan_roll", files) and is_there("_core/plan/order.py", files)
    assert not is_there("core/plan", files) and not is_there("plan/order.plan_rolls", files)
    assert not is_there("plan/orders", files)
