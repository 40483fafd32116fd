"""docs/reliability.md names every place in the product that takes something away on libvirt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIBVIRT = ROOT / "plugins" / "module_utils" / "_libvirt"
# Calls of libvirt's objects that remove a definition, a volume, a snapshot or a running domain.
TAKES = re.compile(r"undefine|destroy|wipe|managedSaveRemove|snapshotDelete|checkpointDelete", re.I)


def takes_away(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "VIR_MIGRATE_UNDEFINE_SOURCE":
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    # A storage volume's delete takes flags; ours take a name, or nothing.
    flags = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    volume = node.func.attr == "delete" and flags == [0]
    return volume or bool(TAKES.search(node.func.attr) and not node.func.attr.startswith("_"))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def in_the_code() -> set[str]:
    found = set()
    for path in LIBVIRT.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        inside = [node for one in functions(tree) for node in ast.walk(one)]
        for function in functions(tree):
            if any(takes_away(node) for node in ast.walk(function)):
                found.add(f"{path.relative_to(LIBVIRT)}: {function.name}")
        outside = [n for n in ast.walk(tree) if takes_away(n) and n not in inside]
        found |= {f"{path.relative_to(LIBVIRT)}: module" for _one in outside}
    return found


def in_the_page() -> set[str]:
    text = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    table = text.partition("## What takes something away")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))


def test_every_place_that_takes_something_away_stands_there_with_its_proof() -> None:
    assert in_the_code() == in_the_page()


def test_the_search_sees_what_it_looks_for() -> None:
    assert "run/act.py: _clean_source" in in_the_code()
    for text in ("dom.undefine()", "volume.delete(0)", "dom.destroyFlags(1)", "dom.snapshotDelete"):
        calls = list(ast.walk(ast.parse(f"{text.removesuffix('()')}()")))
        calls += list(ast.walk(ast.parse(text)))
        assert any(takes_away(node) for node in calls), text
