"""`make map` fails on what it is there for, and the code as it stands passes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_spec = importlib.util.spec_from_file_location("map_rooms", ROOT / "tests" / "tools" / "map_rooms.py")
assert _spec is not None
assert _spec.loader is not None
tool = importlib.util.module_from_spec(_spec)
sys.modules["map_rooms"] = tool
_spec.loader.exec_module(tool)

UTILS = "plugins/module_utils"
LAYERS = """
[[tool.importlinter.contracts]]
name = "floors"
type = "layers"
containers = ["ansible_collections.virtops.maintenance.plugins.module_utils.house"]
layers = ["attic", "left | right", "door : hall", "cellar"]
"""


def faults(tmp_path: Path, **files: str) -> list[str]:
    """What the map says of a house of these files: `attic__a` is attic/a.py."""
    (tmp_path / "pyproject.toml").write_text(LAYERS)
    for name, text in files.items():
        path = tmp_path / UTILS / "house" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(tool.faults(tool.read(tmp_path), tool.contracts(tmp_path)))


def test_this_house_stands() -> None:
    modules = tool.read(ROOT)
    assert len(modules) > 150
    assert list(tool.faults(modules, tool.contracts(ROOT))) == []
    rows = "\n".join(tool.table(modules))
    assert "_core/decision " in rows and "_libvirt/holder " in rows


def test_an_import_down_the_house_is_fine(tmp_path: Path) -> None:
    assert faults(tmp_path, attic__a="from ..left import b\n", left__b="", cellar__c="") == []
    assert faults(tmp_path, door__d="from ..hall import h\n", hall__h="") == []


@pytest.mark.parametrize(
    "text",
    [
        "from ..attic import a\n",
        "from ..attic.a import x\n",
        "def later():\n    from ..attic import a\n",
        "import ansible_collections.virtops.maintenance.plugins.module_utils.house.attic.a\n",
        "from ansible_collections.virtops.maintenance.plugins.module_utils.house.attic import a\n",
    ],
)
def test_an_import_upwards_is_found(tmp_path: Path, text: str) -> None:
    found = faults(tmp_path, attic__a="x = 1\n", cellar__c=text)
    assert len(found) == 1
    assert "house.cellar.c:" in found[0] and "house.attic.a, which stands above it" in found[0]


def test_neighbours_that_may_not_know_each_other(tmp_path: Path) -> None:
    found = faults(tmp_path, left__a="from ..right import b\n", right__b="")
    assert len(found) == 1 and "house.left.a:1" in found[0]


def test_a_circle_of_packages_is_found_without_a_layer(tmp_path: Path) -> None:
    """No file imports itself around, yet the two packages do."""
    found = faults(tmp_path, shed__a="from ..barn import b\n", shed__c="", barn__b="", barn__d="from ..shed import c\n")
    assert len(found) == 1
    assert found[0].startswith("a circle: ") and "house.barn <-> " in found[0]


def test_a_package_of_too_many_files(tmp_path: Path) -> None:
    files = {f"shed__m{number}": "" for number in range(tool.MOST_FILES)}
    assert faults(tmp_path, **files, shed____init__="") == []
    found = faults(tmp_path, **files, shed__more="")
    assert len(found) == 1 and "house.shed has 17 files" in found[0]


def test_a_file_of_too_many_lines(tmp_path: Path) -> None:
    assert faults(tmp_path, shed__m="x = 1\n" * tool.MOST_LINES) == []
    found = faults(tmp_path, shed__m="x = 1\n" * (tool.MOST_LINES + 1))
    assert len(found) == 1 and "house.shed.m has 401 lines" in found[0]


def test_documentation_is_not_counted(tmp_path: Path) -> None:
    """That of a module of Ansible, and the docstring of a file; but no other text."""
    long = '"""\n' + "word\n" * tool.MOST_LINES + '"""\n'
    assert faults(tmp_path, shed__m=f"{long}DOCUMENTATION = r{long}x = 1\n") == []
    assert len(faults(tmp_path, shed__m=f"x = 1\nTEXT = {long}")) == 1
