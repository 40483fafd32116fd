"""Preflight of a libvirt host: one pass of reads, put into the core's facts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._core.claims.admission import are_majority
from ..._core.decision.unread_hosts import may_have, unread_hosts
from ..._core.model.observation import VM, Observation, State
from ..._core.model.policy import PolicyError
from ..._core.model.record import Ending, NodeRecord
from ..._core.plan.observed import fleet_of
from ..._core.preflight.check import check, record_text, result
from ..._core.preflight.facts import ClusterSeen, Facts, HostSeen, MovedSeen, NodeSeen, StuckWork, TLSSeen, VMSeen
from ..._core.reasons.reason import Platform, Reason, Severity
from ..blockers.disk_moves import MediumMissing
from ..domain.xml import agent_connected
from ..host.connection import HostUnreachable, libvirt
from ..observe.guest_memory import with_touched
from ..observe.host import Host, HostNow
from ..run.platform import LibvirtPlatform
from ..run.service import Request, platform_of
from ..store.cordon import by_others
from ..store.names import Slot, format_name
from .userfaultfd import own_userfaultfd, permits_userfaultfd, qemu_is_root


@dataclass(frozen=True)
class Measured:
    """Values that were read on a host by other means than libvirt. clock: less the asker's, seconds.

    clock_within: what that may be wrong by.
    userfaultfd: the kernel's setting; -1: this kernel has none. tls_dir: where QEMU has its
    certificates for migrations, None: not known; tls_missing: of them; tls_verify: of a caller's.
    """

    name: str
    clock: float | None = None
    userfaultfd: int | None = None
    tls_dir: str | None = None
    tls_missing: Sequence[str] = ()
    tls_verify: bool = True
    clock_within: float = 0.0

    @property
    def tls(self) -> TLSSeen | None:
        if self.tls_dir is None:
            return None
        return TLSSeen(self.tls_dir, tuple(self.tls_missing), self.tls_verify)


def preflight(
    request: Request, severity: Mapping[Reason, Severity], measured: Sequence[Measured] = ()
) -> dict[str, Any]:
    """Blockers and warnings. Only reads. Raises HostUnreachable, RecordError, StoreError,
    PolicyError when `measured` names a host that is none of the fleet."""
    known = {request.own.name, *(peer.name for peer in request.peers)}
    for one in measured:
        if one.name not in known:
            raise PolicyError(f"measured names {one.name}, which is neither node nor one of the peers")
    platform = platform_of(request, acts=False)
    try:
        facts = gather(platform, request, measured)
        fleet = fleet_of(with_touched(facts.observation, request.own.name), request.own.name)
        return {**result(facts, check(facts, request.policy), severity), "fleet": fleet}
    finally:
        platform.close()


def gather(platform: LibvirtPlatform, request: Request, measured: Sequence[Measured] = ()) -> Facts:
    """Everything that one pass reads."""
    record = platform.load()
    obs = platform.observe(record)
    node = request.own.name
    others = (n for n in obs.nodes.values() if n.name != node)
    targets = tuple(sorted(n.name for n in others if n.reachable and not n.cordoned))
    here = [vm for vm in obs.vms.values() if vm.node == node]
    copied = {vm.uuid: platform.observer.copied(vm.uuid) for vm in here}
    return Facts(
        platform=Platform.LIBVIRT,
        node=node,
        observation=obs,
        own=NodeSeen(
            cordoned_by_others=by_others(obs.nodes[node], record),
            record=record_text(record),
            provides=platform.source.facts.provides(),
            provided=() if record is None else tuple(record.provides),
        ),
        vms={vm.uuid: vm_seen(vm, record, copied[vm.uuid]) for vm in here},
        hosts=tuple(_hosts(platform.hosts.values(), node, obs, measured)),
        cluster=ClusterSeen(slots=request.policy.limits.cluster, outbound=request.policy.limits.outbound),
        moved=tuple(_moved(platform, obs, record)),
        targets=targets,
        room_mib=sum(max(0, obs.nodes[name].room_mib + obs.nodes[name].reserved_mib) for name in targets),
        stuck=_stuck(platform, obs),
        needed=_needed(platform.quorum_hosts, obs, node, record, targets),
        stale_claims=(*(_stale_claims(obs) if record is None else ()), *platform.stale_claims.elsewhere),
    )


def _moved(platform: LibvirtPlatform, obs: Observation, record: NodeRecord | None) -> Iterable[MovedSeen]:
    """The VMs that were moved away and whose guest agent was connected, each with how that is now; None: it cannot be
    read."""
    for uuid, entry in (record.vms if record is not None else {}).items():
        there = [seen.node for seen in obs.sightings.get(uuid, ()) if seen.state is State.RUNNING]
        if not (entry.agent and entry.ending == Ending.MOVED.value and there):
            continue
        try:
            agent: bool | None = agent_connected(platform.hosts[there[0]].domain(uuid).XMLDesc(0))
        except (HostUnreachable, libvirt.libvirtError, ValueError):
            agent = None  # it went away between two reads
        yield MovedSeen(entry.name, there[0], entry.agent, agent)


def _needed(
    quorum_hosts: Sequence[str], obs: Observation, node: str, record: NodeRecord | None, targets: Sequence[str]
) -> dict[str, str]:
    """Hosts that do not answer and that something depends on: what."""
    silent = unread_hosts(obs, node)
    needed: dict[str, list[str]] = {name: [] for name in silent}
    if not are_majority([name for name in quorum_hosts if name not in needed], quorum_hosts):
        for name in needed.keys() & set(quorum_hosts):
            needed[name].append("It is a quorum host.")
    for uuid, entry in (record.vms if record is not None else {}).items():
        for name in may_have(obs, node, entry, obs.vms.get(uuid)):
            needed[name].append(f"{entry.name} may be there.")
    for name in silent if not targets else ():
        needed[name].append("No other host takes a VM.")
    return {name: " ".join(whys) for name, whys in needed.items() if whys}


def vm_seen(vm: VM, record: NodeRecord | None, copied: Sequence[str] = ()) -> VMSeen:
    """The facts of a VM that only the preflight reports. `copied`: disks that would be copied."""
    volumes = vm.document.get("volumes") or []
    paths = {volume["target"]: volume["source"] for volume in volumes}
    entry = record.vms.get(vm.uuid) if record is not None else None
    adopted = entry is not None and entry.last is not None and not entry.last.ended
    foreign = vm.job is not None and vm.job.outgoing and not adopted
    return VMSeen(
        stays_off="It will be stopped, and stays off until the restore"
        + (": its autostart is off." if not vm.autostart else ", which turns its autostart on again."),
        local_disks=tuple(f"{dev} ({_path(paths.get(dev))})" for dev in copied),
        local_media=tuple(f"{volume['target']} ({volume['source']})" for volume in volumes if _missed(vm, volume)),
        stale_mark="Marked in its metadata." if vm.marked and record is None else "",
        foreign="Its job has been running since " + _seconds(vm) if foreign else "",
    )


def _path(path: str | None) -> str:
    """The path of a disk that would be copied, in words. For a symbolic link: its copy is a file in its place, on the
    target and when it comes back."""
    if not path or not os.path.islink(path):
        return path or "?"
    return f"{path}, a link: its copy will be a file there, and {os.path.realpath(path)} stays here"


def _seconds(vm: VM) -> str:
    return f"{vm.job.elapsed:.0f} s." if vm.job is not None else "?"


def _missed(vm: VM, volume: Mapping[str, Any]) -> bool:
    """A medium that a target says it does not have."""
    return any(
        isinstance(finding, MediumMissing) and finding.dev == volume["target"]
        for refused in vm.refused_by.values()
        for finding in refused
    )


def _hosts(hosts: Iterable[Host], node: str, obs: Observation, measured: Sequence[Measured]) -> Iterable[HostSeen]:
    by_name = {one.name: one for one in measured}
    for host in hosts:
        if not obs.nodes[host.name].reachable:
            continue
        reported = by_name.get(host.name, Measured(host.name))
        setting = reported.userfaultfd
        if host.name == node and setting is None:
            setting = own_userfaultfd()
        try:
            root = qemu_is_root(host.conn.getCapabilities())
            facts = host.facts
        except (HostUnreachable, libvirt.libvirtError):
            continue  # it went away between two reads; the next run says so
        yield HostSeen(
            host.name,
            facts.hypervisor_version,
            facts.libvirt_version,
            permits_userfaultfd(setting, root),
            reported.clock,
            declared=bool(host.config.memory_mib or host.config.reserve_mib),
            tls=reported.tls,
            clock_within=reported.clock_within,
        )


def _stuck(platform: LibvirtPlatform, obs: Observation) -> tuple[StuckWork, ...]:
    """Slots of an older version whose VM is not being migrated: the others a drain removes by
    itself, with their claims. What is so in one read only may just be starting.

    Not those of this host whose claim stands: a run of ours was killed, and the next one, for
    which this is the preflight, carries on with them or gives them back.
    """
    reads, ours = platform.observer.reads, obs.held.union(obs.claims)
    first = stale_slots(reads, platform.quorum_hosts, ours)
    if not first:
        return ()
    again = stale_slots(platform.observer.read_hosts(), platform.quorum_hosts, ours)
    return tuple(work for work in first if work in again)


def stale_slots(reads: Mapping[str, HostNow], quorum_hosts: Sequence[str], held: frozenset[str]) -> list[StuckWork]:
    """`held`: VMs that the holder of this host works on."""
    stands: dict[Slot, list[str]] = {}
    for quorum_host in quorum_hosts:
        for slot in reads[quorum_host].slots if quorum_host in reads else ():
            stands.setdefault(slot, []).append(quorum_host)
    found = []
    for slot, where in stands.items():
        source = reads.get(slot.source)
        if slot.id or source is None or source.error or slot.vm in held:
            continue
        domain = source.domains.get(slot.vm)
        if domain is not None and domain.job is not None:
            continue
        name = domain.name if domain is not None else slot.vm
        text = f"{format_name(slot)} on {', '.join(where)} is taken, but no migration of it runs on {slot.source}."
        found.append(StuckWork(name, slot.source, text))
    return found


def _stale_claims(obs: Observation) -> Iterable[str]:
    for claim in obs.claims.values():
        vm = obs.vms.get(claim.vm)
        if (vm is None or vm.job is None) and claim.vm not in obs.held:
            yield f"resv.{claim.vm}.{claim.memory_mib}.{claim.owner} on {claim.target}"
