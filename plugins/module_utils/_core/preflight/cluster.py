"""Preflight of the node, its peers and the cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..decision.strategy import Choice, Way
from ..model.columns import count
from ..reasons.reason import About, Reason
from .facts import Facts, HostSeen
from .found import LISTED, Found, listed
from .tls import tls_findings

# Seconds, beyond what the reading of a clock may be wrong by: half of the time that it took. Logs
# and certificates begin to suffer there; what a slow connection adds is no skew.
SKEW = 5.0
# QEMU: deprecated in 8.2, removed in 9.1.
_NO_MT_AS_OF = 9001000
_RESUMES = 8005000  # libvirt: VIR_MIGRATE_POSTCOPY_RESUME


def cluster_findings(facts: Facts) -> Iterator[Found]:
    """Find what concerns every node: KubeVirt's state, missing rights, what could not be read, silent hosts."""
    cluster = facts.cluster
    subject = "KubeVirt"
    for check, text in (
        (Reason.KubeVirtUpgrading, cluster.upgrading),
        (Reason.KubeVirtUnhealthy, cluster.unhealthy),
        (Reason.WebhookUnavailable, cluster.webhook),
        (Reason.EvacuationCannotBeCancelled, cluster.no_cancel),
        (Reason.DeschedulerAtWork, cluster.descheduler),
        (Reason.WorkloadUpdaterAtWork, cluster.updater),
    ):
        if text:
            yield Found(check, subject, text)
    for right in facts.missing:
        yield Found(Reason.Forbidden, "account", right)
    for text in facts.unread:
        yield Found(Reason.NotChecked, f"node {facts.node}", text)
    yield from _stuck(facts)
    for node in facts.observation.nodes.values():
        if not node.reachable and node.name != facts.node:
            why = facts.needed.get(node.name, "")
            text = f"{node.message} {why}".strip()
            yield Found(Reason.PeerUnreachable, f"host {node.name}", text, soft=not why)


def _stuck(facts: Facts) -> Iterator[Found]:
    """While a free slot remains, the drain goes on beside it."""
    holding = [work for work in facts.stuck if work.holds]
    here = [work for work in holding if work.source == facts.node]
    full = len(holding) >= facts.cluster.slots or len(here) >= facts.cluster.outbound
    for work in facts.stuck:
        yield Found(Reason.StuckMigration, f"VM {work.vm}", work.why, soft=not full)


def node_findings(facts: Facts, choices: Mapping[str, Choice]) -> Iterator[Found]:
    """The node itself, and whether the others together can take its VMs."""
    own, subject = facts.own, f"node {facts.node}"
    for check, text in (
        (Reason.NodeNotReady, own.not_ready),
        (Reason.VirtHandlerSilent, own.silent),
        (Reason.NodeNotSchedulable, "" if own.silent else own.unschedulable),
        (Reason.DrainTaint, own.drain_taint),
        (Reason.MaintenanceUnderWay, own.record),
        (Reason.RunsTheMaintenance, own.control_node),
    ):
        if text:
            yield Found(check, subject, text)
    yield from _control_node_finding(facts, choices)
    yield from _not_as_before(facts, choices)
    for text in own.other_maintenance:
        yield Found(Reason.OthersMaintenance, subject, text)
    if own.cordoned_by_others:
        yield Found(Reason.CordonedByOthers, subject)
    for name in facts.stale_claims:
        yield Found(Reason.LeftoverClaim, subject, name)
    for claim in facts.observation.inbound:
        if claim.target == facts.node:
            yield Found(Reason.InboundMigration, subject, f"{claim}.")
    for pod in facts.pods:
        about = About.NODE if pod.whole else About.POD
        yield Found(pod.reason, f"pod {pod.name}", pod.message, about=about)
    yield from _twice(facts)
    yield from _servers(facts, choices)
    moving = [u for u, choice in choices.items() if choice.way in (Way.MIGRATE, Way.WAIT)]
    if moving:
        yield from _for_those_that_move(facts, choices, moving)
    if moving or any(_met_only_older(choice) for choice in choices.values()):
        yield from _versions(facts, any(one.way is Way.MIGRATE and one.allows_older for one in choices.values()))
    yield from _capacity(facts)
    yield from _clocks(facts)


def _not_as_before(facts: Facts, choices: Mapping[str, Choice]) -> Iterator[Found]:
    """Find what the host, or a VM that left it, had when its maintenance began and has not now: active pools and
    networks, a connected guest agent."""
    own = facts.own
    gone = [name for name in own.provided if own.provides is not None and name not in own.provides]
    if gone:
        yield Found(Reason.NotAsBefore, f"node {facts.node}", f"Not active: {listed(gone)}.")
    for vm in facts.moved:
        if vm.agent_before and vm.agent is False:
            # While VMs are still here, the drain goes on: an agent may need a moment after the move.
            yield Found(Reason.GuestAgentSilent, f"VM {vm.name}", f"It runs on {vm.host}.", soft=bool(choices))


def _for_those_that_move(facts: Facts, choices: Mapping[str, Choice], moving: list[str]) -> Iterator[Found]:
    if facts.cluster.no_slots:
        yield Found(Reason.MigrationLimitZero, "KubeVirt", facts.cluster.no_slots)
    if not facts.targets:
        yield Found(Reason.LastSchedulableNode, f"node {facts.node}")
        return
    yield from _room(facts, moving)
    yield from _compression(facts, choices)
    yield from _post_copy(facts, choices)
    yield from tls_findings(facts, choices)


def _control_node_finding(facts: Facts, choices: Mapping[str, Choice]) -> Iterator[Found]:
    """A VM that runs us is moved last, which is no more than good to know, and never stopped."""
    for uuid, choice in choices.items():
        text = facts.observation.vms[uuid].control_node
        if text:
            soft = choice.way in (Way.MIGRATE, Way.EXTERNAL)
            text += " It is moved last." if soft else " It is never stopped."
            yield Found(Reason.RunsTheMaintenance, f"node {facts.node}", text, soft)


def _twice(facts: Facts) -> Iterator[Found]:
    """A VM that runs here and on another host, and is not on its way."""
    obs = facts.observation
    for uuid, vm in obs.vms.items():
        if vm.node != facts.node or vm.state.value != "running" or vm.job is not None:
            continue
        there = [s.node for s in obs.sightings.get(uuid, []) if s.state.value == "running"]
        if there:
            text = f"It runs on {facts.node} and on {', '.join(there)}."
            yield Found(Reason.RunningTwice, f"VM {vm.name}", text)


def _servers(facts: Facts, choices: Mapping[str, Choice]) -> Iterator[Found]:
    """A name that leads to another server there would give the guest other data. One finding: all
    disks of a fleet may be on the same servers."""
    moving = (u for u, choice in choices.items() if choice.way in (Way.MIGRATE, Way.COLD_MIGRATE))
    served = {vm.name: vm.served_at for vm in map(facts.observation.vms.__getitem__, moving) if vm.served_at}
    names = sorted({name for servers in served.values() for name in servers})
    if names:
        text = f"Whether {listed(names)} (disks of {listed(sorted(served))}) leads to the same server on every host"
        yield Found(Reason.NotChecked, f"node {facts.node}", f"{text}: compare `getent hosts {names[0]}` there.")


def _room(facts: Facts, moving: list[str]) -> Iterator[Found]:
    """Necessary, not sufficient: that it all fits is for the plan to say."""
    needs = sum(_mib(facts, uuid) for uuid in moving)
    if facts.room_mib is not None and needs > facts.room_mib:
        where = ", ".join((facts.room_on or facts.targets)[:LISTED])
        text = f"To move {count(len(moving), 'VM')} takes {needs} MiB; {where} have"
        yield Found(Reason.FleetTooFull, f"node {facts.node}", f"{text} {max(0, facts.room_mib)} MiB.")


def _mib(facts: Facts, uuid: str) -> int:
    seen = facts.vms.get(uuid)
    if seen is not None and seen.pod_mib is not None:
        return seen.pod_mib
    return facts.observation.vms[uuid].memory_mib


def _versions(facts: Facts, allowed: bool) -> Iterator[Found]:
    """libvirt and QEMU move guests to the same or a newer version only, unless a rule allows it for a VM that moves."""
    if not facts.platform.traits.asks_hosts:
        return
    by_name = {host.name: host for host in facts.hosts}
    own = by_name.get(facts.node, HostSeen(facts.node))
    peers = [by_name[name] for name in facts.targets if name in by_name]
    older = {peer.name: text for peer in peers if (text := _older(own, peer))}
    for name, text in older.items():
        yield Found(Reason.NewerToOlder, f"host {name}", text, soft=allowed or len(older) < len(peers))


def _met_only_older(choice: Choice) -> bool:
    """Placement refused all targets for their version, so the VM is not among those that move."""
    return any(finding.reason is Reason.NewerToOlder for finding in choice.findings)


def _compression(facts: Facts, choices: Mapping[str, Choice]) -> Iterator[Found]:
    """Both ends need it. Nothing tells of this capability but QEMU's version, unless a guest's
    monitor is asked. Placement does not know of it, so one target that lacks it fails VMs."""
    migrated = (choice for choice in choices.values() if choice.way is Way.MIGRATE)
    if not any("mt" in choice.migration.compression for choice in migrated):
        return
    for host in facts.hosts:
        version = host.hypervisor_version
        if host.name in (facts.node, *facts.targets) and version >= _NO_MT_AS_OF:
            yield Found(Reason.CompressionNotSupported, f"host {host.name}", f"QEMU is {_version(version)}.")


def _older(own: HostSeen, peer: HostSeen) -> str:
    for what, mine, its in (
        ("QEMU", own.hypervisor_version, peer.hypervisor_version),
        ("libvirt", own.libvirt_version, peer.libvirt_version),
    ):
        if mine and its and its < mine:
            return f"{what} is {_version(its)} there and {_version(mine)} on {own.name}."
    return ""


def _version(number: int) -> str:
    return f"{number // 10**6}.{number // 1000 % 1000}.{number % 1000}"


def _post_copy(facts: Facts, choices: Mapping[str, Choice]) -> Iterator[Found]:
    """The target's QEMU needs userfaultfd for the pages that arrive late, and the source's when its VMs come back; both
    need what resumes a broken one."""
    if not facts.platform.traits.asks_hosts:
        return
    if not any(c.way is Way.MIGRATE and c.migration.post_copy for c in choices.values()):
        return
    known = {h.name: h.userfaultfd for h in facts.hosts if h.name in facts.targets}
    bad = {name: "Its kernel does not permit it." for name, may in known.items() if may is False}
    for host in facts.hosts:
        if host.name in (facts.node, *facts.targets) and 0 < host.libvirt_version < _RESUMES:
            text = f"libvirt is {_version(host.libvirt_version)}:"
            text += " only 8.5 and later can resume a post-copy whose link broke."
            bad.setdefault(host.name, text)
    soft = facts.node not in bad and not set(facts.targets) <= set(bad)
    for host in facts.hosts:
        if host.name == facts.node and host.userfaultfd is False:
            text = "Its kernel does not permit it: with this policy, no VM could be migrated back."
            yield Found(Reason.PostCopyNotPermitted, f"host {host.name}", text, soft=True)
    for name, text in bad.items():
        yield Found(Reason.PostCopyNotPermitted, f"host {name}", text, soft=soft)
    dark = sorted(name for name in facts.targets if known.get(name) is None)
    if dark:
        text = f"Whether the kernel permits post-copy on {', '.join(dark)}."
        yield Found(Reason.NotChecked, f"node {facts.node}", text)


def _capacity(facts: Facts) -> Iterator[Found]:
    """Find targets whose memory for VMs is not declared. The host to be drained takes no VMs: it is left out."""
    bare = sorted(h.name for h in facts.hosts if h.name in facts.targets and not h.declared)
    if bare:
        yield Found(Reason.CapacityNotDeclared, f"node {facts.node}", f"Not declared for {listed(bare)}.")


def _clocks(facts: Facts) -> Iterator[Found]:
    """Hosts whose clock was not measured are only listed as unchecked."""
    known = {h.name: (h.clock, h.clock_within) for h in facts.hosts if h.clock is not None}
    dark = sorted(h.name for h in facts.hosts if h.clock is None)
    if facts.platform.traits.asks_hosts and len(facts.hosts) > 1 and dark:
        text = f"The clocks of {listed(dark)}."
        yield Found(Reason.NotChecked, f"node {facts.node}", text)
    if len(known) < 2:
        return
    # Whoever measured has a clock too: of two hosts that differ it tells which one is wrong.
    clocks = sorted([*known.values(), (0.0, 0.0)])
    middle, its_within = clocks[len(clocks) // 2]
    for name, (clock, within) in known.items():
        if abs(clock - middle) > SKEW + within + its_within:
            way = "ahead of" if clock > middle else "behind"
            text = f"Its clock is {abs(clock - middle):.0f} s {way} the others'."
            yield Found(Reason.ClockSkew, f"host {name}", text)
