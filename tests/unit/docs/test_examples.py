"""Every example of the documentation is YAML, with options that modules have and variables that the roles take."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.plugin_utils import _variable_checks

ROOT = Path(__file__).resolve().parents[3]
OURS = "ansible_collections.virtops.maintenance.plugins"
PREFIX = "virtops.maintenance."
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("[!_]*.py"))
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "roles").glob("*/README.md"))
    if "```yaml" in path.read_text(encoding="utf-8")
)


class Loader(yaml.SafeLoader):
    """Reads Ansible's tags as what they are on."""


for _tag in ("!unsafe", "!vault"):
    Loader.add_constructor(_tag, Loader.construct_yaml_str)


def options(module: str) -> set[str]:
    """Those of its documentation and of the fragments that it names, with aliases."""
    found = yaml.safe_load(importlib.import_module(f"{OURS}.modules.{module}").DOCUMENTATION)
    told = dict(found.get("options") or {})
    for name in found.get("extends_documentation_fragment") or ():
        file, _dot, part = name.removeprefix(PREFIX).partition(".")
        fragment = importlib.import_module(f"{OURS}.doc_fragments.{file}").ModuleDocFragment
        told |= yaml.safe_load(getattr(fragment, part.upper() or "DOCUMENTATION")).get("options") or {}
    return set(told) | {alias for spec in told.values() for alias in spec.get("aliases", ())}


def faults(node: Any) -> Iterator[str]:
    """What is wrong in a piece of an example, and in all that is in it."""
    if isinstance(node, list):
        for one in node:
            yield from faults(one)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        name = str(key).removeprefix(PREFIX)
        if str(key).startswith(PREFIX) and name in MODULES:
            yield from (f"{name} has no option {one}" for one in set(value or {}) - options(name))
            continue
        if _variable_checks.OURS.match(str(key)):
            yield from _variable_checks.faults([key], {key: value}.__getitem__ if _is_plain(value) else _unknown)
        yield from faults(value)


def _is_plain(value: Any) -> bool:
    return "{{" not in str(value)


def _unknown(name: str) -> Any:
    raise LookupError(name)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_are_right(page: str) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    assert [fault for block in blocks for fault in faults(yaml.load(block, Loader))] == []


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_are_right(module: str) -> None:
    text = importlib.import_module(f"{OURS}.modules.{module}").EXAMPLES
    assert list(faults(yaml.load(text, Loader))) == []


def test_what_is_wrong_is_found() -> None:
    task = {"virtops.maintenance.virt_drain": {"node": "a", "no_such": 1}, "vars": {"drain_allow_stop": "perhaps"}}
    assert len(list(faults([{"tasks": [task], "vars": {"maintenance_rulez": []}}]))) == 3
