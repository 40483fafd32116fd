"""Collect the outcome for the hosts of a play from the variables that its roles left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight import report
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import notifications, status

Doc = dict[str, Any]
HostVars = Mapping[str, Mapping[str, Any]]


def _drains(_request: Doc, hosts: Sequence[str], hostvars: HostVars) -> Doc:
    results = {name: hostvars[name].get("drain_result") or {} for name in hosts}
    return {"stats": notifications.of_drains(hosts, results)}


def _preflight(request: Doc, hosts: Sequence[str], hostvars: HostVars) -> Doc:
    """`request`: `fail_on`, as the role preflight has it. Hosts that were not checked are left out."""
    results = {name: hostvars[name].get("preflight_result") for name in hosts}
    return report.report({name: found for name, found in results.items() if found}, request["fail_on"])


def _status(request: Doc, _hosts: Sequence[str], hostvars: HostVars) -> Doc:
    """`request`: what was read of the roll. Of hosts that are out the role drain has left more."""
    names = [row["name"] for row in request["hosts"] if row["name"] in hostvars]
    infos = {name: hostvars[name].get("drain_info") for name in names}
    return status.report(request, {name: info for name, info in infos.items() if info})


def _abort(request: Doc, hosts: Sequence[str], hostvars: HostVars) -> Doc:
    """`request`: `out`, the names of the hosts that were out, and `roll`, the record as the abort found it, or None."""

    def restore(name: str) -> Mapping[str, Any]:
        if name not in hostvars:
            return {"msg": "it is not in the inventory, so nothing was done with it"}
        if name not in hosts:
            return {
                "msg": "it is not among the hosts of this command, so nothing was done with it: abort without a limit"
            }
        return hostvars[name].get("restore_result") or {}

    return status.aborted(request["roll"], request["out"], {name: restore(name) for name in request["out"]})


_OF: dict[str, Callable[[Doc, Sequence[str], HostVars], Doc]] = {
    "drains": _drains,
    "preflight": _preflight,
    "status": _status,
    "abort": _abort,
}
# Under which name an AWX workflow finds the statistics.
_STATS = {"drains": "maintenance_drain_stats", "status": "maintenance_roll_stats", "abort": "maintenance_roll_stats"}
KINDS = tuple(_OF)


def outcome(kind: str, request: Doc, variables: Mapping[str, Any]) -> Doc:
    """The result of a task that shows it. `variables`: of the task."""
    found = _OF[kind](request, variables["ansible_play_hosts_all"], variables["hostvars"])
    return {**found, "ansible_stats": for_later(_STATS[kind], found["stats"])} if kind in _STATS else found


def for_later(name: str, figures: Doc) -> Doc:
    """`figures` as `ansible_stats` of a result: as set_stats does it, without a task of its own that prints three
    lines. Of the run and of no host, which AWX does not read: before ansible-core 2.21 that has to be said."""
    return {"data": {name: figures}, "per_host": False}


__all__ = ["KINDS", "for_later", "outcome"]
