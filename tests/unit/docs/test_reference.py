"""Documentation that repeats what the code says, and must say the same."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import make_docs

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import OPTIONS_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan import model
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import (
    CHECKED,
    TABLE,
    Platform,
    Reason,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import View
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.report import RecordRow
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import Row
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import migration_policy
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.schema import (
    FIELDS,
    HOST_DEVICE,
    VOLUME,
    Field,
)

ROOT = Path(__file__).resolve().parents[3]
_spec = importlib.util.spec_from_file_location("make_reference", ROOT / "tests" / "tools" / "make_reference.py")
assert _spec is not None
assert _spec.loader is not None
tool = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tool)
CURE = "run: make reference"


def test_the_catalogue_of_reasons_is_current() -> None:
    assert (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8") == tool.reasons(), CURE


@pytest.mark.parametrize("platform", Platform)
def test_a_remedy_that_names_an_option_names_the_variable_of_a_playbook_too(platform: Platform) -> None:
    specs = yaml.safe_load((ROOT / "roles" / "drain" / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = [name.removeprefix("drain_") for name in specs["argument_specs"]["main"]["options"]]
    for row in TABLE.values():
        for words in (row.words(platform), row.words_beforehand(platform)):
            named = [one for one in options if "_" in one and re.search(rf"(?<![\w.]){one}\b", words.remedy)]
            assert all(f"drain_{one}" in words.remedy for one in named), words.remedy


@pytest.mark.parametrize("option", OPTIONS_SPEC)
def test_an_option_of_both_drains_is_a_variable_of_the_role_with_the_same_default(option: str) -> None:
    """Its default is Policy's. In the role people read it, and so it stands there too."""
    role = ROOT / "roles" / "drain"
    given, defaults, specs = (
        yaml.safe_load((role / name).read_text(encoding="utf-8"))
        for name in ("vars/main.yml", "defaults/main.yml", "meta/argument_specs.yml")
    )
    variable = f"drain_{option.removeprefix('drain_')}"
    for platform in Platform:
        assert given[f"__drain_on_{platform.value}"][option] == f"{{{{ {variable} }}}}"
    told = specs["argument_specs"]["main"]["options"][variable]
    assert told["default"] == defaults[variable] == OPTIONS_SPEC[option]["default"]
    assert told["type"] == OPTIONS_SPEC[option]["type"]
    assert f"`{variable}`" in (role / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", tool.WITH_VM_ROW)
def test_the_row_of_a_vm_is_current(module: str) -> None:
    text = (ROOT / "plugins" / "modules" / f"{module}.py").read_text(encoding="utf-8")
    assert text == tool.with_vm_row(module, text), CURE


def test_every_reason_is_in_it() -> None:
    assert set(TABLE) == set(Reason)
    reasons, rest = tool.reasons().split("## Errors")
    reasons, on_kubevirt = reasons.split("## On KubeVirt")
    assert set(_names(on_kubevirt)) <= set(_names(reasons))
    rest, preflight_on_kubevirt = rest.split("## Preflight on KubeVirt")
    assert set(_names(preflight_on_kubevirt)) <= set(_names(rest))
    assert set(_names(reasons)) | set(_names(rest.split("## Preflight")[1])) == set(Reason)
    assert set(_names(rest.split("## Preflight")[1])) == set(CHECKED)


def _names(table: str) -> list[str]:
    return [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]


def test_every_error_that_a_module_documents_or_an_operator_meets_is_in_it() -> None:
    told = _names(tool.run_errors())
    assert told == sorted(set(told))
    met = {"Superseded", "LockHeld", "RunsTheMaintenance", "AccessDenied", "HostUnreachable"}
    assert met <= set(told)
    for path in (ROOT / "plugins" / "modules").glob("[!_]*.py"):
        name = f"ansible_collections.virtops.maintenance.plugins.modules.{path.stem}"
        documented = yaml.safe_load(importlib.import_module(name).RETURN)
        if documented is None or path.stem in ("maintenance_host_reboot", "maintenance_reboot_info"):  # they print
            continue
        assert documented["error"]["sample"] in told, path.stem
    assert "| `Superseded` | kubevirt, libvirt | Another run took over. " in tool.run_errors()


def test_the_fields_of_the_document_are_current() -> None:
    text = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert text == tool.policy(text), CURE


def returned(module: str, *path: str) -> dict[str, Any]:
    """What its RETURN says that a key contains."""
    name = f"ansible_collections.virtops.maintenance.plugins.modules.{module}"
    found: dict[str, Any] = yaml.safe_load(importlib.import_module(name).RETURN)
    for key in path:
        found = found[key]["contains"]
    return found


def _same(documented: dict[str, Any], fields: dict[str, Field]) -> None:
    types = {"string": "str", "number": "int", "boolean": "bool", "array": "list"}
    assert list(documented) == list(fields)
    for name, field in fields.items():
        text = documented[name]["description"]
        said = " ".join([text] if isinstance(text, str) else text)
        assert said.startswith(field.text), name
        kind = "float" if name == "dirty_rate" else types.get(field.kind.name, "dict")
        assert documented[name]["type"] == kind, name
        # What null means is said where it can be null.
        assert ("None" in said) is bool(field.null), name


def test_the_info_module_documents_the_same_fields() -> None:
    documented = returned("virt_host_info", "documents")
    _same(documented, FIELDS)
    _same(documented["volumes"]["contains"], VOLUME)
    _same(documented["host_devices"]["contains"], HOST_DEVICE)


def _keys(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


@pytest.mark.parametrize(
    ("module", "path", "keys"),
    [
        ("maintenance_plan", ("refusal",), _keys(model.Refusal)),
        ("maintenance_plan", ("steps",), _keys(model.PlanStep)),
        ("maintenance_plan", ("steps", "moves"), _keys(model.PlannedMove)),
        ("maintenance_plan", ("steps", "fits_if"), _keys(model.OwnersMove)),
        ("virt_host_info", ("record",), RecordRow.__annotations__),
        ("kubevirt_node_info", ("record",), RecordRow.__annotations__),
        ("virt_recovery", ("view",), _keys(View)),
        (
            "kubevirt_drain",
            ("vms", "settings"),
            migration_policy.result_form(migration_policy.settings({}, None, (1, 6)), ""),
        ),
    ],
)
def test_each_key_that_is_returned_is_documented_and_no_other(
    module: str, path: tuple[str, ...], keys: Collection[str]
) -> None:
    assert set(returned(module, *path)) == set(keys)


def test_each_key_of_a_vms_row_is_documented() -> None:
    assert set(_keys(Row)) <= set(returned("virt_drain", "vms"))


def test_the_guides_can_be_cut_into_the_pages_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section of operating.md that is on no page, or a link that leads to none."""
    monkeypatch.setattr(make_docs, "SOURCE", tmp_path)
    make_docs.Guides().write()
    assert {path.name for path in tmp_path.iterdir()} > set(make_docs.PAGES)


def test_what_was_tested_stands_in_readme_and_on_the_page_of_what_is_public_alike() -> None:
    readme, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/stability.md"))
    (table,) = re.findall(r"^\| Tested with \|(?:.+\n)+", readme, re.MULTILINE)
    assert table in page
    assert len(readme.splitlines()) < 120
