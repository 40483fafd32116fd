# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plain form of a fleet, for the plan: what the modules hand over, and what golden files have.

hosts:  name, memory_mib, reserve_mib, committed_mib (of VMs that are not listed), cpu_milli (none:
        CPU is not counted), committed_cpu_milli, link_mib_s, version, labels, taints, cordoned,
        reachable, message
vms:    name, uuid, host, memory_mib, cpu_milli, sent_mib, dirty_rate, working_set_mib, group,
        strategy, state, migratable, reasons, cold, refused_by, cold_refused_by, needs,
        persistent, autostart, document, known
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model import constraints_text
from ..model.observation import VM, Node, State
from ..model.policy import Policy, PolicyError
from ..reasons.reason import Finding, Platform, Reason
from .model import Budget, Quota, RollRequest
from .observed import measured
from .speeds import number
from .transfers import Speeds


def request_of(
    hosts: Sequence[Mapping[str, Any]],
    vms: Sequence[Mapping[str, Any]],
    roll: Sequence[str],
    policy: Policy,
    max_unavailable: int = 1,
    speeds: Speeds | None = None,
    budgets: Sequence[Mapping[str, Any]] = (),
    known: Mapping[str, Any] | None = None,
    quotas: Sequence[Mapping[str, Any]] = (),
    platform: Platform = Platform.LIBVIRT,
) -> RollRequest:
    """From the plain form. `speeds`: of what the hosts do not tell themselves. `known`: the
    option `speeds` of the modules, of which `speeds` is a part.

    Raises PolicyError naming what is wrong.
    """
    speeds = speeds or Speeds()
    nodes: dict[str, Node] = {}
    links: dict[str, float] = {}
    for raw in hosts:
        node = _node(raw)
        if node.name in nodes:
            raise PolicyError(f"hosts names {node.name} twice")
        nodes[node.name] = node
        if raw.get("link_mib_s"):
            links[node.name] = number(f"link_mib_s of {node.name}", raw["link_mib_s"])
    found: dict[str, VM] = {}
    dirty: dict[str, float] = {}
    sizes: dict[str, float] = {}
    hot: dict[str, float] = {}
    for raw in vms:
        vm = _vm(raw, nodes)
        if vm.uuid in found:
            raise PolicyError(
                f"the VM {vm.name} ({vm.uuid}) is on {found[vm.uuid].node} and on {vm.node}: it is "
                "being migrated, or the two were not read at the same time. Read them again."
            )
        found[vm.uuid] = vm
        rate = measured(raw, "dirty_rates", "dirty_rate", known)
        if rate:
            dirty[vm.uuid] = rate
        if raw.get("sent_mib"):
            sizes[vm.uuid] = number(f"sent_mib of {vm.name}", raw["sent_mib"])
        again = measured(raw, "working_sets", "working_set_mib", known)
        if again:
            hot[vm.uuid] = again
        _count(nodes[vm.node], vm)
    todo = _roll(roll, nodes)
    if max_unavailable < 1:
        raise PolicyError(f"max_unavailable must be 1 or more, not {max_unavailable}")
    return RollRequest(
        nodes=nodes,
        vms=found,
        todo=todo,
        policy=policy,
        max_unavailable=max_unavailable,
        speeds=replace(speeds, links={**speeds.links, **links}),
        dirty=dirty,
        sizes=sizes,
        hot=hot,
        budgets=tuple(_budget(raw, found) for raw in budgets),
        quotas=tuple(_quota(raw, found) for raw in quotas),
        platform=platform,
    )


def _roll(roll: Sequence[str], nodes: Mapping[str, Node]) -> tuple[str, ...]:
    unknown = sorted(set(roll) - set(nodes))
    if unknown:
        raise PolicyError(
            f"roll names {', '.join(unknown)}, of which nothing is known: hosts has "
            f"{', '.join(sorted(nodes)) or 'none'}"
        )
    if len(set(roll)) < len(roll):
        raise PolicyError("roll names a host twice")
    return tuple(roll)


def _node(raw: Mapping[str, Any]) -> Node:
    name = raw.get("name")
    if not name:
        raise PolicyError("a host without a name: every entry of hosts needs one")
    return Node(
        name=str(name),
        reachable=bool(raw.get("reachable", True)),
        cordoned=bool(raw.get("cordoned", False)),
        capacity_mib=int(number(f"memory_mib of {name}", raw.get("memory_mib", 0))),
        reserve_mib=int(number(f"reserve_mib of {name}", raw.get("reserve_mib", 0))),
        committed_mib=int(number(f"committed_mib of {name}", raw.get("committed_mib", 0))),
        message=str(raw.get("message") or ""),
        labels=constraints_text.labels(f"labels of {name}", raw.get("labels")),
        taints=constraints_text.taints(f"taints of {name}", raw.get("taints")),
        version=_version(str(name), raw.get("version")),
        cpu_milli=None if raw.get("cpu_milli") is None else int(number(f"cpu_milli of {name}", raw["cpu_milli"])),
        committed_cpu_milli=int(number(f"committed_cpu_milli of {name}", raw.get("committed_cpu_milli", 0))),
    )


def _version(name: str, raw: Any) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in str(raw or "").split(".") if part)
    except ValueError as exc:
        raise PolicyError(f"version of {name} is {raw!r}: for example 9.1.0 is expected") from exc


def _vm(raw: Mapping[str, Any], nodes: Mapping[str, Node]) -> VM:
    name, host = str(raw.get("name") or ""), str(raw.get("host") or "")
    if not name:
        raise PolicyError("a VM without a name: every entry of vms needs one")
    if host not in nodes:
        raise PolicyError(f"the VM {name} is on {host or 'no host'}, which hosts does not name")
    found = _from_rows(f"reasons of {name}", raw.get("reasons"))
    migratable: bool | None = raw.get("migratable", not found)
    return VM(
        uuid=str(raw.get("uuid") or name),
        name=name,
        node=host,
        state=_state(name, raw.get("state")),
        memory_mib=int(number(f"memory_mib of {name}", raw.get("memory_mib", 0))),
        cpu_milli=int(number(f"cpu_milli of {name}", raw.get("cpu_milli", 0))),
        declared_strategy=raw.get("strategy") or None,
        group=raw.get("group") or None,
        persistent=bool(raw.get("persistent", True)),
        autostart=bool(raw.get("autostart", False)),
        migratable=migratable,
        findings=found,
        cold_findings=_from_rows(f"cold of {name}", raw.get("cold")),
        refused_by=_refusals(name, "refused_by", raw),
        cold_refused_by=None if raw.get("cold_refused_by") is None else _refusals(name, "cold_refused_by", raw),
        document=raw.get("document") or {"name": name, "uuid": str(raw.get("uuid") or name)},
        constraints=constraints_text.parse_constraints(f"needs of {name}", raw.get("needs") or {}),
        known=bool(raw.get("known", True)),
    )


def _refusals(name: str, key: str, raw: Mapping[str, Any]) -> dict[str, tuple[Finding, ...]]:
    rows = raw.get(key) or {}
    return {str(host): _from_rows(f"{key} of {name}", why) for host, why in rows.items() if why}


def _state(name: str, raw: Any) -> State:
    try:
        return State(raw or State.RUNNING.value)
    except ValueError as exc:
        known = ", ".join(state.value for state in State)
        raise PolicyError(f"state of {name} is {raw!r}: one of {known} is expected") from exc


def _from_rows(where: str, raw: Any) -> tuple[Finding, ...]:
    """From reasons by their code, or with a message."""
    found = []
    for row in raw or ():
        code = row.get("reason") if isinstance(row, Mapping) else row
        try:
            reason = Reason(code)
        except ValueError as exc:
            raise PolicyError(f"{where} has {code!r}, which is no reason (docs/reasons.md)") from exc
        found.append(Finding(reason, row.get("message", "") if isinstance(row, Mapping) else ""))
    return tuple(found)


def _count(node: Node, vm: VM) -> None:
    if not vm.active:
        return
    node.committed_mib += vm.memory_mib
    node.committed_cpu_milli += vm.cpu_milli
    node.vm_count += 1
    if vm.group:
        node.group_counts[vm.group] = node.group_counts.get(vm.group, 0) + 1


def _budget(raw: Mapping[str, Any], vms: Mapping[str, VM]) -> Budget:
    name = str(raw.get("name") or "")
    left = raw.get("left")
    return Budget(
        name,
        _members(f"the budget {name}", raw, vms),
        int(number(f"at_once of {name}", raw.get("at_once", 1))),
        stops_only=bool(raw.get("stops_only", False)),
        never=str(raw.get("never") or ""),
        left=None if left is None else int(number(f"left of {name}", left)),
    )


def _quota(raw: Mapping[str, Any], vms: Mapping[str, VM]) -> Quota:
    name = str(raw.get("name") or "")
    return Quota(name, _members(f"the quota {name}", raw, vms), str(raw.get("why") or ""))


def _members(what: str, raw: Mapping[str, Any], vms: Mapping[str, VM]) -> frozenset[str]:
    """UUIDs of the VMs that it names, by UUID or name."""
    wanted = set(raw.get("vms") or ())
    found = frozenset(u for u, vm in vms.items() if vm.name in wanted or u in wanted)
    known = {vms[u].name for u in found} | found
    missing = sorted(wanted - known)
    if missing:
        raise PolicyError(f"{what} names VMs that are not there: {', '.join(missing)}")
    return found
