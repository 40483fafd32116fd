"""virt_preflight on a host of a lab, several times in one play, each time with other options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import Lab

from . import plays


@dataclass(frozen=True)
class Seen:
    """What one of them told."""

    findings: list[dict[str, Any]]

    @property
    def codes(self) -> set[str]:
        return {row["code"] for row in self.findings}

    def of(self, code: str) -> list[tuple[str, str, str]]:
        """(subject, severity, message) of each finding with this code."""
        return [(row["subject"], row["severity"], row["message"]) for row in self.findings if row["code"] == code]


def look(
    lab: Lab,
    node: str,
    asked: Mapping[str, Mapping[str, Any]],
    state: str = "",
    then: str = "",
    environment: Mapping[str, str] | None = None,
) -> dict[str, Seen]:
    """A name -> options, for each. `state`: virt_drain brings the host there before, and back
    to active afterwards. `then`: a command on the host in that state. `environment`: of the module."""
    folder = lab.paths.logs / "preflights"
    folder.mkdir(parents=True, exist_ok=True)
    where = hosts(lab, node)
    tasks: list[dict[str, Any]] = []
    if state:
        tasks.append({"virtops.maintenance.virt_drain": {**where, "state": state}})
    if then:
        tasks.append({"ansible.builtin.command": then})
    for name, options in asked.items():
        found = folder / f"{name}.json"
        found.unlink(missing_ok=True)
        told = "{{ found.findings | to_json }}"
        tasks += [
            {
                "virtops.maintenance.virt_preflight": {**where, **options},
                "environment": dict(environment or {}),
                "register": "found",
            },
            {"ansible.builtin.copy": {"content": told, "dest": str(found), "mode": "0600"}, "delegate_to": "localhost"},
        ]
    if state:
        tasks.append({"virtops.maintenance.virt_drain": {**where, "state": "active"}})
    play = {"hosts": node, "gather_facts": False, "tasks": tasks}
    book = folder / "preflights.yml"
    book.write_text(json.dumps([play]), encoding="utf-8")
    ended = plays.run(lab, str(book), {})
    assert ended.code == 0, ended.text
    return {name: _seen(folder / f"{name}.json") for name in asked}


def hosts(lab: Lab, node: str) -> dict[str, Any]:
    """Which hosts the module is given."""
    others = peers(lab, node)
    return {"node": node, "memory": lab.host(node).memory_mib, "peers": others}


def peers(lab: Lab, node: str, memory: int = 0) -> list[dict[str, Any]]:
    """The option of that name. `memory`: MiB, of each; 0: what it has."""
    return [
        {"name": host.name, "uri": host.peer_uri, "memory": memory or host.memory_mib}
        for host in lab.hosts.values()
        if host.name != node
    ]


def _seen(path: Path) -> Seen:
    return Seen(json.loads(path.read_text(encoding="utf-8")))
