"""The plain form of a fleet, for the plan: what the modules hand over, and what golden files have.

hosts:  name, memory_mib, reserve_mib, committed_mib and group_counts (of VMs that are not listed),
        cpu_milli (none: CPU is not counted), committed_cpu_milli, link_mib_s, version, labels,
        taints, cordoned, reachable, message, runs_vms (false: not one of which a share is meant), spare (what
        is free of huge pages, devices: {"hugepages of 2048 KiB": MiB}; none: not counted)
vms:    name, uuid, host, memory_mib, cpu_milli, sent_mib, dirty_rate, working_set_mib, group,
        strategy, state, migratable, reasons, cold, refused_by, cold_refused_by, compared, needs,
        persistent, autostart, document, known, control_node (why it is taken for the machine that
        runs the maintenance), takes (of what hosts have as spare)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model import constraints_text
from ..model.observation import VM, Node, State
from ..model.policy import Policy, PolicyError
from ..reasons.reason import Finding, Platform, Reason
from . import fields
from .fields import number
from .model import Budget, Quota, RollRequest
from .observed import measured
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
    max_unavailable_per: Mapping[str, int] | None = None,
    groups: Mapping[str, Mapping[str, str]] | None = None,
    move_back: bool = False,
) -> RollRequest:
    """Build a request from its plain form. `groups`: host -> label -> value, for `max_unavailable_per`, beside
    the labels of hosts. `speeds`: those that the hosts do not report themselves. `known`: the option `speeds` of the
    modules, of which `speeds` is a part.

    Raises PolicyError naming what is wrong.
    """
    speeds = speeds or Speeds()
    nodes: dict[str, Node] = {}
    links: dict[str, float] = {}
    for raw in hosts:
        given = fields.checked("a host", raw, fields.HOST)
        node = _node(given)
        if node.name in nodes:
            raise PolicyError(f"hosts names {node.name} twice")
        nodes[node.name] = node
        if given.get("link_mib_s"):
            links[node.name] = given["link_mib_s"]
    found: dict[str, VM] = {}
    dirty: dict[str, float] = {}
    sizes: dict[str, float] = {}
    hot: dict[str, float] = {}
    for raw in vms:
        given = fields.checked("a VM", raw, fields.VM)
        vm = _vm(given, nodes)
        if vm.uuid in found:
            raise PolicyError(_twice(found[vm.uuid], vm))
        found[vm.uuid] = vm
        rate = measured(given, "dirty_rates", "dirty_rate", known)
        if rate:
            dirty[vm.uuid] = rate
        if given.get("sent_mib"):
            sizes[vm.uuid] = given["sent_mib"]
        again = measured(given, "working_sets", "working_set_mib", known)
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
        max_unavailable_per=max_unavailable_per or {},
        groups={host: _groups(nodes[host], max_unavailable_per or {}, (groups or {}).get(host, {})) for host in todo},
        speeds=replace(speeds, links={**speeds.links, **links}),
        dirty=dirty,
        sizes=sizes,
        hot=hot,
        budgets=tuple(_budget(raw, found) for raw in budgets),
        quotas=tuple(_quota(raw, found) for raw in quotas),
        platform=platform,
        move_back=move_back,
    )


def strange_names(request: RollRequest, known: Mapping[str, Any]) -> list[str]:
    """Warnings: what the option `speeds` says of hosts and VMs that are not there."""
    names = {vm.name for vm in request.vms.values()}
    asked = (("links", "host", set(request.nodes)), ("dirty_rates", "VM", names), ("working_sets", "VM", names))
    return [
        f"speeds.{key} names {name}, which is not a {what} of the fleet."
        for key, what, there in asked
        for name in sorted(set(known.get(key) or ()) - there)
    ]


def _roll(roll: Sequence[str], nodes: Mapping[str, Node]) -> tuple[str, ...]:
    if not roll:
        raise PolicyError("roll is empty: expected the hosts to drain")
    unknown = sorted(set(roll) - set(nodes))
    if unknown:
        raise PolicyError(
            f"roll names {', '.join(unknown)}, not in the fleet, which has {', '.join(sorted(nodes)) or 'none'}"
        )
    if len(set(roll)) < len(roll):
        raise PolicyError("roll names a host twice")
    return tuple(roll)


def _node(given: Mapping[str, Any]) -> Node:
    name = given["name"]
    version = _version(name, given.get("version"))
    if "memory_mib" not in given:
        raise PolicyError(f"the host {name} has no memory_mib: expected the MiB that its VMs may use")
    return Node(
        name=name,
        reachable=given.get("reachable", True),
        cordoned=given.get("cordoned", False),
        capacity_mib=given["memory_mib"],
        reserve_mib=given.get("reserve_mib", 0),
        committed_mib=given.get("committed_mib", 0),
        group_counts=dict(given.get("group_counts", {})),
        message=given.get("message", ""),
        labels=constraints_text.labels(f"labels of {name}", given.get("labels")),
        taints=constraints_text.taints(f"taints of {name}", given.get("taints")),
        version=version,
        cpu_milli=given.get("cpu_milli"),
        committed_cpu_milli=given.get("committed_cpu_milli", 0),
        spare=given.get("spare"),
    )


def _groups(node: Node, keys: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """Raises PolicyError for a host of the roll of which one is not known."""
    found = {key: given.get(key) or node.labels.get(key, "") for key in keys}
    unknown = [key for key, value in found.items() if not value]
    if unknown:
        raise PolicyError(
            f"max_unavailable_per: no value for {unknown[0]} of {node.name}: expected a label of the host, or a"
            " variable of that name in the inventory"
        )
    return found


def _version(name: str, raw: Any) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in str(raw or "").split(".") if part)
    except ValueError as exc:
        raise PolicyError(f"version of {name} is {raw!r}: expected for example 9.1.0") from exc


def _vm(given: Mapping[str, Any], nodes: Mapping[str, Node]) -> VM:
    name, host = given["name"], given.get("host", "")
    if host not in nodes:
        raise PolicyError(f"the VM {name} is on {host or 'no host'}, which hosts does not name")
    found = _from_rows(f"reasons of {name}", given.get("reasons", ()))
    uuid = given.get("uuid") or name
    vm = VM(
        uuid=uuid,
        name=name,
        node=host,
        state=_state(name, given.get("state")),
        memory_mib=given.get("memory_mib", 0),
        cpu_milli=given.get("cpu_milli", 0),
        declared_strategy=given.get("strategy") or None,
        group=given.get("group") or None,
        persistent=given.get("persistent", True),
        autostart=given.get("autostart", False),
        migratable=given.get("migratable", not found),
        findings=found,
        cold_findings=_from_rows(f"cold of {name}", given.get("cold", ())),
        refused_by=_refusals(name, "refused_by", given),
        cold_refused_by=_refusals(name, "cold_refused_by", given) if "cold_refused_by" in given else None,
        compared={
            str(host): fields.text(f"compared of {name}", why) for host, why in given.get("compared", {}).items()
        },
        document=given.get("document") or {"name": name, "uuid": uuid},
        constraints=constraints_text.parse_constraints(
            f"needs of {name}", fields.checked(f"needs of {name}", given.get("needs", {}), fields.NEEDS)
        ),
        known=given.get("known", True),
        control_node=given.get("control_node", ""),
        takes=given.get("takes", {}),
    )
    if vm.known and vm.active and not vm.memory_mib:
        raise PolicyError(f"the VM {name} has no memory_mib: expected the MiB that it uses, more than 0")
    if vm.migratable is False and not vm.findings:
        raise PolicyError(f"migratable of {name} is false, but reasons is empty: expected there why it is not")
    return vm


def _twice(one: VM, other: VM) -> str:
    """It is on two hosts. One that is off there does not go away by reading again."""
    said = f"the VM {one.name} ({one.uuid}) is on {one.node} and on {other.node}: "
    off = [vm for vm in (one, other) if not vm.active]
    if not off:
        return said + "it is being migrated, or the two were not read at the same time. Read them again."
    runs = [f"It runs on {vm.node}. " for vm in (one, other) if vm.active]
    return (
        f"{said}{' and '.join(f'on {vm.node} it is off' for vm in off)}. {''.join(runs)}If it is not being migrated, a "
        f"definition was left behind: remove it (virsh undefine {one.name}) where it does not belong."
    )


def _refusals(name: str, key: str, given: Mapping[str, Any]) -> dict[str, tuple[Finding, ...]]:
    found = {}
    for host, why in given.get(key, {}).items():
        where = f"{key} of {name}, {host},"
        if why:
            found[str(host)] = _from_rows(where, fields.rows(where, why))
    return found


def _state(name: str, raw: Any) -> State:
    try:
        return State(raw or State.RUNNING.value)
    except ValueError as exc:
        known = ", ".join(state.value for state in State)
        raise PolicyError(f"state of {name} is {raw!r}: one of {known} is expected") from exc


def _from_rows(where: str, raw: Iterable[Any]) -> tuple[Finding, ...]:
    """Build findings from reasons by their code, or with a message."""
    found = []
    for row in raw:
        code = row.get("reason") if isinstance(row, Mapping) else row
        try:
            reason = Reason(code)
        except ValueError as exc:
            raise PolicyError(f"{where} has {code!r}, which is not a reason (docs/reasons.md)") from exc
        found.append(Finding(reason, str(row.get("message") or "") if isinstance(row, Mapping) else ""))
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
    at_once = int(number(f"at_once of {name}", raw.get("at_once", 1)))
    if not at_once:
        raise PolicyError(f"at_once of {name} is 0: expected 1 or more; never says why no VM may ever be stopped")
    return Budget(
        name,
        _members(f"the budget {name}", raw, vms),
        at_once,
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
