"""Every public name, from the code: docs/stability.md says what may happen to one.

tests/public_names.txt has those of the last release (of 0.1.0, until that is out). A unit test compares: a name that
came or went since stands in a changelog fragment, in ``code``.

    public_names.py          write the file: `make release` does
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.executor.task_queue_manager import TaskQueueManager
from tools import make_reference

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.nodes import Guest, NodeRecovery
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import Proof
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.record import Recovery, Taken
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.told import event, stats
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import notifications
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import Terms
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.names import LEASE, ROLL_LEASE
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.protected import Kept
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.schema import FIELDS, HOST_DEVICE, VOLUME
from ansible_collections.virtops.maintenance.plugins.plugin_utils import _metrics, _variable_checks
from ansible_collections.virtops.maintenance.tests.unit.plugins.plugin_utils.roll_reports import failed_roll
from kubesim import __main__ as simulator
from kubesim import ctl
from lab import cli

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "public_names.txt"
OURS = "ansible_collections.virtops.maintenance.plugins"
INTERNAL = "It is internal to them, and may change in any release."
RECORDS = (NodeRecord, VMRecord, Attempt, Roll, HostEntry, Recovery, Taken, NodeRecovery, Guest, Proof, Kept)
BLOCK = re.compile(r"^```shell\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Annotations and labels, wherever the code names one, and the kinds of volumes in a host's pool.
NOTE = re.compile(r'"(virtops\.maintenance/[\w-]+)"')
VOLUMES = re.compile(r"^    ([a-z]+)[ .]", re.MULTILINE)


def plugins(kind: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / "plugins" / kind).glob("[!_]*.py"))


def documented(kind: str, name: str) -> dict[str, Any]:
    return dict(yaml.safe_load(importlib.import_module(f"{OURS}.{kind}.{name}").DOCUMENTATION))


def is_internal(about: Mapping[str, Any]) -> bool:
    return INTERNAL in " ".join(" ".join(about["description"]).split())


def nested(options: Mapping[str, Any], key: str, before: str = "") -> Iterator[str]:
    """Names with those of what is in them: migration, migration.tls."""
    for name, about in options.items():
        for one in (name, *about.get("aliases", ())):
            yield before + one
        yield from nested(about.get(key) or {}, key, f"{before}{name}.")


def keys(doc: Any, before: str = "") -> Iterator[str]:
    for one in doc if isinstance(doc, list) else ():
        yield from keys(one, before)
    for key, value in doc.items() if isinstance(doc, dict) else ():
        yield before + key
        yield from keys(value, f"{before}{key}.")


def facts() -> list[str]:
    """Of what our playbooks and roles set the part that a page for users names."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name not in ("architecture.md", "stability.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*pages, *ROOT.glob("roles/*/README.md")])
    return sorted((_variable_checks.INTERNAL & set(re.findall(r"\w+", text))) - set(plugins("modules")))


def stored(record: Any) -> Iterator[str]:
    """The keys of what is stored. Those of a roll's terms are beside its own."""
    for field in dataclasses.fields(record):
        yield from stored(Terms) if (record, field.name) == (Roll, "terms") else (field.name,)


def command_line(parser: argparse.ArgumentParser, shown: set[str], before: str = "") -> Iterator[str]:
    """Options, and the commands that the page shows with their own."""
    for action in parser._actions:
        yield from (before + one for one in action.option_strings if one.startswith("--") and one != "--help")
        if isinstance(action, argparse._SubParsersAction):
            for name in shown & set(action.choices):
                yield before + name
                yield from command_line(action.choices[name], shown, f"{before}{name}.")


def simulator_and_lab() -> Iterator[tuple[str, list[str]]]:
    """Of their commands those that docs/pipelines.md shows."""
    page = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"[\w-]+", "".join(BLOCK.findall(page))))
    yield "commands of the simulator", [*(shown & set(ctl.COMMANDS)), *command_line(simulator._parser(), shown)]
    yield "options of a simulated VM", list(ctl.OPTIONS)
    yield "commands of the lab", list(command_line(cli._parser(), shown))
    for file, name in (("simulator.yml", "sim_vms"), ("lab.yml", "lab_guests")):
        given = yaml.safe_load((ROOT / "extensions" / "molecule" / file).read_text(encoding="utf-8"))
        yield f"variable {name}", list(keys(given[name]))


def figures() -> Iterator[tuple[str, list[str]]]:
    """What is left to node exporter, to later jobs of a workflow, and to the user's notifications."""
    yield "figures for Prometheus", re.findall(r"# TYPE (\w+)", _metrics.text(failed_roll()))
    plan = {"fits": True, "steps": [], "hosts_left": [], "moves": 0, "stops": 0, "duration": 0}
    yield "maintenance_plan_stats", list(notifications.of_plan(plan))
    yield "maintenance_roll_stats", list(notifications.of_roll(None))
    yield "maintenance_drain_stats", list(notifications.of_drains((), {}))
    yield "maintenance_recovery_stats", list(stats({}))
    yield "maintenance_event of recover", list(event({"host": ""}, "failed"))


def groups() -> Iterator[tuple[str, list[str]]]:
    """(what they are, names)"""
    for kind in ("modules", "filter", "lookup"):
        public = {name: documented(kind, name) for name in plugins(kind)}
        public = {name: about for name, about in public.items() if not is_internal(about)}
        yield kind, list(public)
        for name, about in public.items():
            fragments = [f"+{one.split('.', 2)[2]}" for one in about.get("extends_documentation_fragment") or ()]
            yield f"options of {name}", [*nested(about.get("options") or {}, "suboptions"), *fragments]
            if kind == "modules":
                returned = yaml.safe_load(importlib.import_module(f"{OURS}.modules.{name}").RETURN) or {}
                yield f"returned by {name}", list(nested(returned, "contains"))
    for name in sorted(path.stem for path in (ROOT / "plugins" / "doc_fragments").glob("_*.py")):
        fragment = importlib.import_module(f"{OURS}.doc_fragments.{name}").ModuleDocFragment
        for part in sorted(part for part in vars(fragment) if part.isupper()):
            options = yaml.safe_load(getattr(fragment, part)).get("options") or {}
            yield f"options of {name}.{part.lower()}", list(nested(options, "suboptions"))
    yield "playbooks", [path.stem for path in (ROOT / "playbooks").glob("*.yml")]
    yield "roles", [path.name for path in (ROOT / "roles").iterdir() if path.is_dir()]
    yield "variables", list(_variable_checks.known())
    yield "facts", facts()
    yield "reasons", [reason.value for reason in Reason]
    yield "errors", [error.__name__ for _platform, error in make_reference._errors()]
    yield "fields of the document", list(FIELDS)
    yield "fields of its volumes", list(VOLUME)
    yield "fields of its host devices", list(HOST_DEVICE)
    yield "report.json", [name for name in keys(failed_roll()) if name != "hosts.vms.judged"]  # docs/report.md
    yield from figures()
    for record in RECORDS:
        yield f"record {record.__name__}", list(stored(record))
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "plugins" / "module_utils").rglob("*.py"))
    yield "annotations and labels", NOTE.findall(code)
    yield "Leases", [LEASE, ROLL_LEASE]
    store = importlib.import_module(f"{OURS}.module_utils._libvirt.store.names")
    yield "volumes", VOLUMES.findall(str(store.__doc__))
    # Ansible's own; ours ends well or fails a host.
    yield "exit codes", [str(TaskQueueManager.RUN_OK), str(TaskQueueManager.RUN_FAILED_HOSTS)]
    yield from simulator_and_lab()


def text() -> str:
    return "".join(f"{what}: {' '.join(sorted(set(names)))}\n" for what, names in groups() if names)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    print(f"public names: {len(text().split())} words in {FILE.relative_to(ROOT)}")
