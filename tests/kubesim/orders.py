"""The order in which a VMI and a migration change, in a form that two clusters can be compared by.

Of a VMI: where it is, its mark, the condition EvictionRequested, and the policy that its last
migration got, with the bandwidth of it. Of a migration: its phase and
its conditions. One text for each state, none twice in a row. Nodes are letters, in the order in
which the VM came to them: which of several free nodes a scheduler picks is no matter of order.
"""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
Lists = dict[str, list[list[str]]]  # name of the VM -> one list of states for each object of it
GONE = "gone"


class Orders:
    """Fed with every change of VMIs and migrations, one namespace's."""

    def __init__(self) -> None:
        self._nodes: dict[str, list[str]] = {}
        self._vmis: dict[str, dict[str, list[str]]] = {}
        self._migrations: dict[str, dict[str, list[str]]] = {}

    def vmi(self, obj: Obj, gone: bool = False) -> None:
        status, name = obj.get("status") or {}, obj["metadata"]["name"]
        text = self._letter(name, status.get("nodeName") or "")
        mark = status.get("evacuationNodeName")
        if mark:
            text += f" mark={self._letter(name, mark)}"
        for kind, value in _conditions(status):
            if kind == "EvictionRequested":
                text += f" {kind}={value}"
        moving = status.get("migrationState") or {}
        if moving.get("migrationPolicyName"):
            bandwidth = (moving.get("migrationConfiguration") or {}).get("bandwidthPerMigration")
            text += f" policy={moving['migrationPolicyName']}:{bandwidth}"
        _add(self._vmis, name, obj, GONE if gone else text)

    def migration(self, obj: Obj, gone: bool = False) -> None:
        status = obj.get("status") or {}
        found = [f"{kind}={value}" for kind, value in _conditions(status)]
        text = " ".join([status.get("phase") or "-", *found])
        _add(self._migrations, obj["spec"]["vmiName"], obj, GONE if gone else text)

    def vmis(self) -> Lists:
        return {name: list(found.values()) for name, found in self._vmis.items()}

    def migrations(self) -> Lists:
        return {name: list(found.values()) for name, found in self._migrations.items()}

    def _letter(self, vm: str, node: str) -> str:
        """`-`: it is on no node yet."""
        if not node:
            return "-"
        seen = self._nodes.setdefault(vm, [])
        if node not in seen:
            seen.append(node)
        return chr(ord("a") + seen.index(node))


def _conditions(status: Obj) -> list[tuple[str, str]]:
    return sorted((c["type"], c["status"]) for c in status.get("conditions") or [])


def _add(where: dict[str, dict[str, list[str]]], vm: str, obj: Obj, text: str) -> None:
    seen = where.setdefault(vm, {}).setdefault(obj["metadata"]["uid"], [])
    if seen[-1:] != [text]:
        seen.append(text)
