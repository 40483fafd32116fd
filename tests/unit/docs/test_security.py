"""docs/security.md: each place in the product that makes a file stands there with its mode, and a test of that.

So does each kind of secret, with where it is searched for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
import readme

PLUGINS = readme.ROOT / "plugins"
MAKES = frozenset({"mkdir", "makedirs", "write_text", "write_bytes", "touch", "mkstemp", "mkdtemp"})


def makes_a_file(node: ast.AST) -> bool:
    """A call that makes one, by Python or as a volume of a pool of libvirt."""
    if not isinstance(node, ast.Call):
        return False
    said = ast.unparse(node)
    if isinstance(node.func, ast.Attribute) and node.func.attr in MAKES:
        return "/proc" not in said and "PROC" not in said
    if said == "listener.bind(path)":
        return True
    if isinstance(node.func, ast.Attribute) and node.func.attr == "createXML":
        return "pool" in ast.unparse(node.func)
    if said.startswith("os.open("):
        return "O_CREAT" in said
    mode = node.args[1] if len(node.args) > 1 else None
    writes = isinstance(mode, ast.Constant) and bool(set(str(mode.value)) & set("wax"))
    return said.startswith("open(") and writes


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def in_the_code() -> set[str]:
    found = set()
    for path in PLUGINS.rglob("*.py"):
        for function in functions(ast.parse(path.read_text("utf-8"))):
            if any(makes_a_file(node) for node in ast.walk(function)):
                found.add(f"{path.relative_to(PLUGINS)}: {function.name}")
    return found


def rows(section: str) -> list[list[str]]:
    text = (readme.ROOT / "docs" / "security.md").read_text("utf-8")
    table = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]


def test_each_place_that_makes_a_file_stands_in_the_table() -> None:
    assert in_the_code() == {
        place for row in rows("Files that are written") for place in re.findall(r"`([\w/]+\.py: \w+)`", row[2])
    }


@pytest.mark.parametrize("row", [*rows("Secrets"), *rows("Files that are written")], ids=lambda row: row[0][:40])
def test_the_tests_of_the_tables_are_there(row: list[str]) -> None:
    (named,) = re.findall(r"`(\S+\.py): (test_\w+)`", row[-1])
    tree = ast.parse((readme.ROOT / "tests" / named[0]).read_text("utf-8"))
    assert named[1] in {function.name for function in functions(tree)}


@pytest.mark.parametrize(
    ("text", "makes"),
    [
        ("open(path, 'w')", True),
        ("open(path, 'rb')", False),
        ("open(path, encoding='utf-8')", False),
        ("os.open(path, os.O_CREAT)", True),
        ("folder.mkdir()", True),
        ("self._pool.made().createXML(xml, 0)", True),
        ("conn.createXML(xml, 0)", False),
    ],
)
def test_the_search_sees_what_it_looks_for(text: str, makes: bool) -> None:
    assert makes_a_file(ast.parse(text, mode="eval").body) is makes
