"""What the documentation says of reasons, of the VM's document and of a VM's row in results.

docs/reasons.md is made whole; in docs/policy.md the text between the two marks, from the code. In the
RETURN of modules, the fields of a VM, from vm_row.yml. A unit test finds out when they are not current.

    make_reference.py          write them
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.virtops.maintenance.plugins import module_utils
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import (
    BOTH,
    CHECKED,
    TABLE,
    Platform,
    Reason,
    Row,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import errors
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.schema import (
    FIELDS,
    HOST_DEVICE,
    NONE_IF_NULL,
    UNKNOWN_IF_NULL,
    VOLUME,
    Field,
    Kind,
)

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOOLS = ROOT / "tests" / "tools"
WITH_VM_ROW = (
    "virt_drain",
    "virt_host_info",
    "virt_migration",
    "virt_migration_info",
    "kubevirt_drain",
    "kubevirt_node_info",
)
ROW = re.compile(r"(^(?:vms|migrations):\n(?:  [^\n]+\n)*?  contains:\n)(?:    [^\n]*\n)+", re.M)
MODULES = "ansible_collections.virtops.maintenance.plugins.modules."
# By the first part of a module's name.
PLATFORMS = {"virt": "libvirt", "kubevirt": "kubevirt", "maintenance": "plan"}
BEGIN, END = "<!-- begin: fields -->\n", "<!-- end: fields -->\n"
LICENCE = """<!--
Copyright: (c) 2026, virtops.maintenance contributors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->
"""
NULL_MEANS = {UNKNOWN_IF_NULL: "not known", NONE_IF_NULL: "there is none", "": ""}


def reasons() -> str:
    lines = [
        LICENCE + "# Reasons\n",
        "Every VM that stays, every migration that failed and every host that is not drained has",
        "one of these. `control`: it was decided or refused before bytes moved. `data`: something",
        "failed while they moved. The message in a result names the particulars.\n",
        "Made from `plugins/module_utils/_core/reasons` by `make reference`.\n",
        "| reason | plane | it means | what to do |",
        "|---|---|---|---|",
    ]
    told = [reason for reason in Reason if not _only_beforehand(TABLE[reason])]
    for reason in told:
        row = TABLE[reason]
        lines.append(
            f"| `{reason.value}` | {row.plane.value} | {row.sentence} | {row.words(Platform.LIBVIRT).remedy} |"
        )
    lines += [
        "\n## On KubeVirt\n",
        "The same reasons, where KubeVirt has other words for them.\n",
        "| reason | it means | what to do |",
        "|---|---|---|",
    ]
    for reason in told:
        words = TABLE[reason].on.get(Platform.KUBEVIRT)
        if words is not None:
            lines.append(f"| `{reason.value}` | {words.sentence} | {words.advice} |")
    return "\n".join(lines) + "\n\n" + run_errors() + "\n" + preflight()


def _only_beforehand(row: Row) -> bool:
    return row.preflight is not None and row.preflight.only


def run_errors() -> str:
    """Errors of a run: the class of what ended a module, its docstring, and where it is told."""
    lines = [
        "## Errors\n",
        "What ends a run before it can say how the VMs are: not a reason of a VM. The module",
        "fails; `error` in its result is one of these or a class of Python's own (`OSError`), and",
        "`msg` says in words what is wrong and what to do.\n",
        "Made from the `except` clauses of `plugins/modules` by `make reference`.\n",
        "| error | on | it means |",
        "|---|---|---|",
    ]
    told: dict[str, dict[str, dict[str, None]]] = {}
    for platform, error in _errors():
        text = (error.__doc__ or "").split("\n\n")[0].strip()
        found = told.setdefault(error.__name__, {"on": {}, "means": {}})
        found["on"][platform] = None
        found["means"][text] = None
    for name, found in sorted(told.items()):
        where = ", ".join(sorted(found["on"]))
        lines.append(f"| `{name}` | {where} | {' '.join(found['means'])} |")
    return "\n".join(lines) + "\n"


def _errors() -> Iterator[tuple[str, type]]:
    """(platform, class) of all that a module tells as `error`, with their subclasses."""
    for found in pkgutil.walk_packages(module_utils.__path__, module_utils.__name__ + "."):
        importlib.import_module(found.name)  # or its subclasses are not known
    for path in sorted((ROOT / "plugins" / "modules").glob("[!_]*.py")):
        module = importlib.import_module(MODULES + path.stem)
        platform = PLATFORMS[path.stem.partition("_")[0]]
        for handler in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(handler, ast.ExceptHandler) and _tells(handler):
                for error in _caught(handler, vars(module)):
                    yield from ((platform, one) for one in _with_subclasses(error))


def _tells(handler: ast.ExceptHandler) -> bool:
    """Does it call fail_json with the argument `error`?"""
    calls = [node for node in ast.walk(handler) if isinstance(node, ast.Call)]
    return any(keyword.arg == "error" for call in calls for keyword in call.keywords)


def _caught(handler: ast.ExceptHandler, names: Mapping[str, Any]) -> tuple[type, ...]:
    assert handler.type is not None
    caught = eval(compile(ast.Expression(handler.type), "except", "eval"), dict(names))
    if caught is errors.Failed:
        return errors.REPORTED
    return caught if isinstance(caught, tuple) else (caught,)


def _with_subclasses(error: type) -> Iterator[type]:
    """Of ours; what is only the base of others is never raised itself."""
    if not error.__module__.startswith(module_utils.__name__):
        return
    if not (error.__doc__ or "").startswith("Base "):
        yield error
    for one in error.__subclasses__():
        yield from _with_subclasses(one)


def preflight() -> str:
    lines = [
        "## Preflight\n",
        "What `virt_preflight`, `kubevirt_preflight` and the role `preflight` find before anything",
        "moves. Codes that are also above mean the same. `severity` is the default; the option of",
        "that name changes it code by code (`blocker`, `warning`, `ignore`). What the drain gets",
        "over by itself, for example because policy says what to do with a VM that cannot migrate,",
        "is a warning at most.\n",
        "Made from `plugins/module_utils/_core/reasons` by `make reference`.\n",
        "| code | on | about | severity | plane | it means | what to do | what decides it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for reason, one in CHECKED.items():
        row = TABLE[reason]
        where = ", ".join(platform.value for platform in one.platforms)
        about = ", ".join(what.value for what in (one.about, *one.also))
        words = (about, one.severity.value, row.plane.value, *_beforehand(row, one.platforms[0]))
        lines.append(f"| `{reason.value}` | {where} | {' | '.join(words)} |")
    lines += [
        "\n## Preflight on KubeVirt\n",
        "The same codes, where KubeVirt has other words for them.\n",
        "| code | it means | what to do | what decides it |",
        "|---|---|---|---|",
    ]
    for reason, one in CHECKED.items():
        row = TABLE[reason]
        there = _beforehand(row, Platform.KUBEVIRT)
        if one.platforms == BOTH and there != _beforehand(row, Platform.LIBVIRT):
            lines.append(f"| `{reason.value}` | {' | '.join(there)} |")
    return "\n".join(lines) + "\n"


def _beforehand(row: Row, platform: Platform) -> tuple[str, str, str]:
    words = row.words_beforehand(platform)
    return words.sentence, words.remedy, row.decides(platform)


def fields() -> str:
    """The tables of the document's fields."""
    parts = [_table(FIELDS), "Each of `volumes`:\n", _table(VOLUME), "Each of `host_devices`:\n", _table(HOST_DEVICE)]
    return "\n".join(parts)


def _table(rows: Mapping[str, Field]) -> str:
    lines = ["| field | type | what it is | null means |", "|---|---|---|---|"]
    for name, field in rows.items():
        text = plain(field.text)
        lines.append(f"| `{name}` | {_type(field.kind)} | {text} | {NULL_MEANS[field.null]} |")
    return "\n".join(lines) + "\n"


def _type(kind: Kind) -> str:
    if kind.name == "array" and kind.items is not None:
        return f"list of {_type(kind.items)}s"
    return {"mapping": "name to text", "string": "text"}.get(kind.name, kind.name)


def plain(text: str) -> str:
    """Ansible's markup as Markdown's."""
    return re.sub(r"[CV]\(([^)]*)\)", r"`\1`", text)


def policy(text: str) -> str:
    """docs/policy.md with its tables as they should be."""
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    return f"{head}{BEGIN}\n{fields()}\n{END}{tail}"


class _Indented(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def vm_row(module: str) -> str:
    """The fields of a VM in the RETURN of `module`, a text of YAML."""
    table = yaml.safe_load((TOOLS / "vm_row.yml").read_text(encoding="utf-8"))
    fields = {}
    for name, field in table.items():
        words = field["description"]
        only = field.pop("only", "")
        if not only or only in module.split("_"):
            text = words if isinstance(words, str) else words[module.partition("_")[0]]
            fields[name] = {**field, "description": text}
    return textwrap.indent(yaml.dump(fields, Dumper=_Indented, sort_keys=False, width=100), " " * 4)


def with_vm_row(module: str, text: str) -> str:
    """`text`, the source of `module`, with the row in its RETURN as it should be."""
    head, documented = text.split('RETURN = r"""')
    made = ROW.sub(lambda found: found[1] + vm_row(module), documented, count=1)
    return f'{head}RETURN = r"""{made}'


def main() -> int:
    (DOCS / "reasons.md").write_text(reasons(), encoding="utf-8")
    page = DOCS / "policy.md"
    page.write_text(policy(page.read_text(encoding="utf-8")), encoding="utf-8")
    for module in WITH_VM_ROW:
        page = ROOT / "plugins" / "modules" / f"{module}.py"
        page.write_text(with_vm_row(module, page.read_text(encoding="utf-8")), encoding="utf-8")
    print("reference: docs/reasons.md, docs/policy.md, the VM's row in modules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
