"""The map of the code: every package with its files, its lines, and the packages that it imports.

    map_rooms.py [ROOT]

It fails on a circle of packages, on an import that runs up the layers of pyproject.toml, on a
package of more than 16 files and on a file of more than 400 lines. The documentation of modules
(DOCUMENTATION, EXAMPLES, RETURN, fragments) and the docstring of a file are not counted.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "ansible_collections.virtops.maintenance."
WHERE = ("plugins", "tests/fleetsim")
MOST_FILES = 16
MOST_LINES = 400
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}


@dataclass
class Module:
    """One file. `imports`: the modules of ours that it imports, and the line of each."""

    name: str
    package: str
    lines: int
    imports: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Layers:
    """A contract of import-linter, from the top down. `True`: a layer whose rooms are strangers."""

    container: str
    layers: tuple[tuple[frozenset[str], bool], ...]

    def place(self, module: str) -> tuple[int, str] | None:
        """(which layer, which name in it), if the contract is about the module."""
        for number, (names, _apart) in enumerate(self.layers):
            for name in names:
                full = f"{self.container}.{name}" if self.container else name
                if module == full or module.startswith(f"{full}."):
                    return number, full
        return None

    def up(self, importer: str, imported: str) -> bool:
        low, high = self.place(importer), self.place(imported)
        if low is None or high is None or low[1] == high[1]:
            return False
        apart = low[0] == high[0] and self.layers[low[0]][1]
        return low[0] > high[0] or apart


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines of a file without its documentation."""
    left = len(text.splitlines())
    for number, node in enumerate(tree.body):
        if isinstance(node, ast.ClassDef) and node.name == "ModuleDocFragment":
            left -= (node.end_lineno or node.lineno) - node.lineno + 1
            continue
        value = getattr(node, "value", None)
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else []
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if (names and names <= DOCUMENTATION) or (isinstance(node, ast.Expr) and number == 0):
            left -= (node.end_lineno or node.lineno) - node.lineno + 1
    return left


def dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, package: str, known: Iterable[str]) -> Iterator[tuple[str, int]]:
    """(module of ours, line) of each import, wherever it stands. `package`: of the file."""
    names = set(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            found = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for one in found:
            short = one.removeprefix(COLLECTION)
            short = f"tests.{short}" if short.startswith("fleetsim") else short
            for candidate in (short, short.rpartition(".")[0]):
                if candidate in names:
                    yield candidate, node.lineno
                    break


def read(root: Path) -> dict[str, Module]:
    files = [path for place in WHERE for path in sorted((root / place).rglob("*.py"))]
    names = {dotted(path.relative_to(root)): path for path in files}
    modules: dict[str, Module] = {}
    for name, path in names.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, str(path))
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        module = modules[name] = Module(name, package, code_lines(text, tree))
        for target, line in imported(tree, package, names):
            module.imports.setdefault(target, line)
    return modules


def names_of(layer: str) -> frozenset[str]:
    """`a | b` or `a : b`"""
    names = layer.replace(":", "|").split("|")
    return frozenset(name.strip().removeprefix(COLLECTION) for name in names)


def contracts(root: Path) -> list[Layers]:
    with open(root / "pyproject.toml", "rb") as stream:
        config = tomllib.load(stream)
    found = []
    for contract in config["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        layers = tuple((names_of(layer), ":" not in layer) for layer in contract["layers"])
        for container in contract.get("containers", [""]):
            found.append(Layers(container.removeprefix(COLLECTION), layers))
    return found


def package_imports(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Package -> the other packages that its files import."""
    graph: dict[str, set[str]] = {module.package: set() for module in modules.values()}
    for module in modules.values():
        graph[module.package] |= {modules[target].package for target in module.imports}
    return {package: targets - {package} for package, targets in graph.items()}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Packages that import each other, straight or around, each circle once."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            for target in graph[left.pop()]:
                if target not in seen:
                    seen.add(target)
                    left.append(target)
        return seen

    reach = {package: reached(package) for package in graph}
    found = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    return sorted(sorted(circle) for circle in found)


def faults(modules: Mapping[str, Module], layers: Iterable[Layers]) -> Iterator[str]:
    layers = list(layers)
    for circle in circles(package_imports(modules)):
        yield f"a circle: {' <-> '.join(circle)}"
    for module in modules.values():
        for target, line in module.imports.items():
            if any(contract.up(module.name, target) for contract in layers):
                yield f"{module.name}:{line} imports {target}, which stands above it"
        if module.lines > MOST_LINES:
            yield f"{module.name} has {module.lines} lines: split it ({MOST_LINES} at most)"
    for package in package_imports(modules):
        files = sum(m.package == package and m.name != package for m in modules.values())
        if files > MOST_FILES and package.startswith(("plugins.module_utils", "tests.")):
            yield f"{package} has {files} files: make rooms of it ({MOST_FILES} at most)"


def table(modules: Mapping[str, Module]) -> Iterator[str]:
    """A row a package: files without __init__, their lines, what it imports."""
    graph = package_imports(modules)
    yield f"{'package':<42} files lines  imports"
    for package in sorted(graph):
        inside = [m for m in modules.values() if m.package == package and m.name != package]
        if not inside:
            continue
        parent = package.rpartition(".")[0]
        targets = sorted(_short(target, package, parent) for target in graph[package])
        lines = sum(module.lines for module in inside)
        name = package.removeprefix("plugins.module_utils.").replace(".", "/")
        yield f"{name:<42} {len(inside):>5} {lines:>5}  {' '.join(targets)}".rstrip()


def _short(target: str, package: str, parent: str) -> str:
    """As one says it in `package`: a neighbour by its own name alone."""
    for base in (package, parent):
        if base.startswith("plugins.module_utils.") and target.startswith(f"{base}."):
            return target.removeprefix(f"{base}.")
    return target.removeprefix("plugins.module_utils.").replace(".", "/")


def main() -> int:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    modules = read(root)
    print("\n".join(table(modules)))
    found = list(faults(modules, contracts(root)))
    for fault in found:
        print(f"map: {fault}")
    if not found:
        print(f"map: {len(modules)} files, no circle, no import upwards, none too large")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
