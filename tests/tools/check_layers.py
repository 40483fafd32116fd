"""Who may import whom, and who may exit.

import-linter holds the contracts in pyproject.toml. It looks at packages, and a collection has
no __init__.py in most directories, so it is shown a copy that has them. What it cannot say is
checked here: pure packages know themselves, the core and what of the standard library touches
nothing outside the process; the fleet for tests knows the core alone; one file knows jmespath;
only modules and action plugins know AnsibleModule and end it. The layers that hold are printed.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "ansible_collections.virtops.maintenance"
# Present even before anybody has written them, so that a contract cannot name nothing.
ROOMS = (
    "plugins/modules",
    "plugins/action",
    "plugins/filter",
    "plugins/lookup",
    "plugins/doc_fragments",
    "plugins/plugin_utils",
    "plugins/module_utils/_core",
    "plugins/module_utils/_policy",
    "plugins/module_utils/_playbook",
    "plugins/module_utils/_libvirt",
    "plugins/module_utils/_kubevirt",
)
MAY_EXIT = ("plugins/modules/", "plugins/action/")
CORE = f"{PACKAGE}.plugins.module_utils._core"
# No call of theirs waits, reads or writes: everything comes in as an argument.
PURE = (
    "plugins/module_utils/_core/",
    "plugins/module_utils/_libvirt/domain/",
    "plugins/module_utils/_kubevirt/objects/",
)
PURE_KNOWS = frozenset(
    ("__future__", "collections", "copy", "dataclasses", "datetime", "difflib", "enum", "functools")
) | {"hashlib", "itertools", "json", "math", "re", "typing", "urllib.parse", "xml"}
FLEETSIM = "tests/fleetsim"
KNOWS_JMESPATH = "plugins/module_utils/_policy/expression.py"
EXITS = {"AnsibleModule", "exit_json", "fail_json"}


def sources() -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / "plugins").rglob("*.py"))


def imports(tree: ast.AST, name: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything that the module `name` imports, guarded or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = name.split(".")
                keep = len(parents) - node.level + (1 if is_package else 0)
                base = ".".join([*parents[:keep], *([base] if base else [])])
            yield node.lineno, base
        elif isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else None
            called = function.id if isinstance(function, ast.Name) else called
            if called in {"import_module", "__import__"}:
                yield node.lineno, f"<{called}>"


def name_of(path: Path) -> tuple[str, bool]:
    """(absolute dotted name, is it a package?)"""
    is_package = path.name == "__init__.py"
    parts = path.parts[:-1] if is_package else path.with_suffix("").parts
    return ".".join((PACKAGE, *parts)), is_package


def within(target: str, package: str) -> bool:
    return target == package or target.startswith(f"{package}.")


def pure_faults(path: Path, tree: ast.AST, room: str) -> Iterator[str]:
    own = ".".join((PACKAGE, *Path(room).parts))
    for line, target in imports(tree, *name_of(path)):
        ours = within(target, own) or within(target, CORE)
        if not ours and not {target, target.split(".")[0]} & PURE_KNOWS:
            yield f"{path}:{line}: {room} is pure and may not import {target}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield f"{path}:{node.lineno}: {room} is pure and may not open a file"


def fleetsim_faults(path: Path, tree: ast.AST) -> Iterator[str]:
    own = f"{PACKAGE}.tests.fleetsim"
    for line, target in imports(tree, *name_of(path)):
        inside = within(target, own) or within(target, CORE)
        if not inside and target.split(".")[0] not in sys.stdlib_module_names:
            yield f"{path}:{line}: {FLEETSIM} knows the core alone, not {target}"


def jmespath_faults(path: Path, tree: ast.AST) -> Iterator[str]:
    for line, target in imports(tree, "", False):
        if target.split(".")[0] == "jmespath" and path.as_posix() != KNOWS_JMESPATH:
            yield f"{path}:{line}: only {KNOWS_JMESPATH} imports jmespath"


def exit_faults(path: Path, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names: set[str] = set()
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            names = {node.attr}
        elif isinstance(node, ast.Name):
            names = {node.id}
        for name in sorted(names & EXITS):
            yield f"{path}:{node.lineno}: {name} belongs to plugins/modules and plugins/action"


def faults() -> Iterator[str]:
    for path in sources():
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))
        for room in PURE:
            if path.as_posix().startswith(room):
                yield from pure_faults(path, tree, room.rstrip("/"))
        yield from jmespath_faults(path, tree)
        if not path.as_posix().startswith(MAY_EXIT):
            yield from exit_faults(path, tree)
    for path in sorted((ROOT / FLEETSIM).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        yield from fleetsim_faults(path.relative_to(ROOT), tree)


def layers() -> Iterator[str]:
    """The layers of pyproject.toml, from the top down, as one line each."""
    with open(ROOT / "pyproject.toml", "rb") as stream:
        contracts = tomllib.load(stream)["tool"]["importlinter"]["contracts"]
    for contract in contracts:
        if contract["type"] == "layers":
            yield f"{contract['name']}:"
            for layer in contract["layers"]:
                yield f"    {layer.replace(f'{PACKAGE}.plugins.', '')}"


def package_tree(parent: Path) -> None:
    shutil.rmtree(parent, ignore_errors=True)
    collection = parent.joinpath(*PACKAGE.split("."))
    for room in ROOMS:
        (collection / room).mkdir(parents=True, exist_ok=True)
    for path in sources():
        (collection / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, collection / path)
    for directory in [parent / "ansible_collections", *parent.glob("ansible_collections/**/")]:
        (directory / "__init__.py").touch()


def main() -> int:
    found = list(dict.fromkeys(faults()))
    for fault in found:
        print(fault)

    parent = ROOT / "build" / "layers"
    package_tree(parent)
    linter = subprocess.run(
        [
            str(Path(sys.executable).with_name("lint-imports")),
            *("--config", str(ROOT / "pyproject.toml"), "--no-cache"),
        ],
        cwd=parent,
        env={**os.environ, "PYTHONPATH": str(parent)},
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if linter.returncode:
        print(linter.stdout)
    if found or linter.returncode:
        return 1
    print("\n".join(layers()))
    print(f"pure: {' '.join(PURE)}")
    print(f"layers: {len(sources())} files, contracts kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
