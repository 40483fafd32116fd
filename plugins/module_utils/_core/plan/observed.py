"""Convert an observed host to the plain form of a fleet that the plan reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..model import constraints_text
from ..model.observation import VM, Node, Observation
from ..model.record import NodeRecord
from ..reasons.reason import Finding, Reason
from .fields import number

MIB = 1 << 20


def with_learnt(obs: Observation, record: NodeRecord | None) -> Observation:
    """Add the dirty rates that the running maintenance has learnt, for better predicted times."""
    vms = dict(obs.vms)
    for uuid, vm in obs.vms.items():
        rate = record.learnt(uuid) / MIB if record is not None else 0.0
        if rate > float(vm.document.get("dirty_rate") or 0.0):
            vms[uuid] = replace(vm, document={**vm.document, "dirty_rate": round(rate, 1)})
    return replace(obs, vms=vms)


def fleet_of(obs: Observation, name: str) -> dict[str, Any]:
    """One observed host with its VMs, in the plain form, and its peers, of which it knows the sums alone."""
    peers = [node for node in obs.nodes.values() if node.name != name]
    return {
        "host": _host_row(obs.nodes[name]),
        "vms": [_vm_row(vm) for vm in obs.vms.values() if vm.node == name],
        "peers": [
            {
                **_host_row(node),
                "committed_mib": node.committed_mib,
                "group_counts": dict(node.group_counts),
                **({} if node.spare is None else {"spare": dict(node.spare)}),
            }
            for node in peers
        ],
    }


def of_fleet(found: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Hosts and VMs, from what each host that was read says of itself and its peers.

    `found`: results of `fleet_of`. What a host says of itself stands above what others say of it, and
    of those the first that reached it is believed.
    """
    own = {one["host"]["name"]: dict(one["host"]) for one in found}
    seen: dict[str, dict[str, Any]] = {}
    for peer in (peer for one in found for peer in one.get("peers", ()) if peer["name"] not in own):
        if not seen.get(peer["name"], {}).get("reachable"):
            seen[peer["name"]] = dict(peer)
    rows = {**own, **seen}
    for peer in (peer for one in found for peer in one.get("peers", ()) if "spare" in peer):
        rows[peer["name"]].setdefault("spare", peer["spare"])  # only a host whose VMs take of it asks for it
    return [*rows.values()], [dict(vm) for one in found for vm in one["vms"]]


def _host_row(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "memory_mib": node.capacity_mib,
        "reserve_mib": node.reserve_mib,
        "version": ".".join(str(part) for part in node.version),
        "labels": dict(node.labels),
        "taints": [str(taint) for taint in node.taints],
        "cordoned": node.cordoned and not node.our_cordon,
        "reachable": node.reachable,
        "message": node.message,
    }


def _vm_row(vm: VM) -> dict[str, Any]:
    return {
        "name": vm.name,
        "uuid": vm.uuid,
        "host": vm.node,
        "memory_mib": vm.memory_mib,
        "sent_mib": sent_mib(vm),
        "group": vm.group or "",
        "strategy": vm.declared_strategy or "",
        "state": vm.state.value,
        "migratable": vm.migratable,
        "reasons": _findings(vm.findings),
        "cold": _findings(vm.cold_findings),
        "refused_by": _refusals(vm.refused_by, vm),
        "cold_refused_by": None if vm.cold_refused_by is None else _refusals(vm.cold_refused_by, vm),
        "compared": dict(vm.compared),
        "needs": constraints_text.constraints_to_dict(vm.constraints),
        "persistent": vm.persistent,
        "autostart": vm.autostart,
        "document": dict(vm.document),
        "known": vm.known,
        "control_node": vm.control_node,
        "takes": dict(vm.takes),
    }


def _refusals(by_host: Mapping[str, Iterable[Finding]], vm: VM) -> dict[str, list[dict[str, str]]]:
    """Without huge pages that the plan counts: those that are used now are free once others have left."""
    counted = {Reason.HugepagesMissing} if vm.takes else set()
    kept = {host: [f for f in found if f.reason not in counted] for host, found in by_host.items()}
    return {host: _findings(found) for host, found in kept.items() if found}


def measured(raw: Mapping[str, Any], option: str, key: str, known: Mapping[str, Any] | None) -> float:
    """The number `key` of a VM: from the option (`known[option]`, by the VM's name), else from its row, else from its
    document. 0: not known."""
    document = raw.get("document") or {}
    given = ((known or {}).get(option) or {}).get(raw["name"])
    return number(f"{key} of {raw['name']}", given or raw.get(key) or document.get(key) or 0)


def sent_mib(vm: VM) -> int:
    """MiB that a migration sends: memory that the guest never touched is not sent. 0: not known."""
    return min(vm.memory_mib, vm.resident_mib)


def _findings(found: Iterable[Finding]) -> list[dict[str, str]]:
    return [{"reason": f.reason.value, "message": f.message} for f in found]
