"""Observe: read all hosts and put together what the core decides on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from ..._core.model.observation import ARRIVING, VM, Node, Observation, Outcome, Reservation, Sighting, State
from ..._core.model.record import NodeRecord
from ..._core.reasons.reason import Finding, Reason
from ..blockers.running import spare_pages
from ..host.connection import HostUnreachable, libvirt
from ..host.dirty_rate import measure
from ..store.cordon import is_ours
from .control_node import ControlNode
from .host import DomainNow, Host, HostNow
from .patience import READ_FOR, Patience
from .peers import Peers, check_machines
from .vm import VMFacts, read_vm_facts, unreadable

_T = TypeVar("_T")


class Observer:
    """Reads one source host and its peers. Keeps static facts for the length of a slice."""

    def __init__(
        self,
        source: Host,
        peers: Sequence[Host],
        boot_id: str,
        quorum_hosts: Sequence[str],
        controller_uuid: str = "",
        noted: str = "",
    ) -> None:
        """`noted`: where the next slice finds which peers were silent."""
        self._source = source
        self._control_node = ControlNode(controller_uuid)
        self._peers = list(peers)
        self._boot_id = boot_id
        self._quorum_hosts = quorum_hosts
        # By (uuid, active): what goes off or is started is another read. A save's image appears
        # only as the VM goes off, and the live definition is not the one it starts with.
        self._vm_facts: dict[tuple[str, bool], VMFacts] = {}
        self._dirty_rates: dict[str, float | None] = {}  # None: it could not be measured
        self._asked = Peers(self._peers, noted)
        self._patience = Patience()
        self._only: frozenset[str] | None = None
        self.clean: set[tuple[str, str]] = set()  # (uuid, host): arrival finished, seen so
        self.reads: dict[str, HostNow] = {}  # of the last observation

    def close(self) -> None:
        """End the threads that read the peers, without waiting for one that does not answer."""
        self._asked.close()
        for patience in (self._patience, *(peer.patience for peer in self._peers)):
            patience.close()

    def forget(self, uuid: str) -> None:
        """Read this VM's facts again at the next observation."""
        for active in (True, False):
            self._vm_facts.pop((uuid, active), None)

    def copied(self, uuid: str) -> tuple[str, ...]:
        """Target devices of the disks that a migration of this VM copies."""
        facts = self._vm_facts.get((uuid, True))
        return facts.copied if facts else ()

    def leave_out_all_but(self, names: frozenset[str] | None) -> None:
        """Which peers are read from now on; None: all. One that was silent is always asked, so
        that nobody else waits for it."""
        self._only = None if names is None else names | self._asked.known_silent

    def read_hosts(self) -> dict[str, HostNow]:
        """One read of every host that is not left out, the peers at the same time. Raises PolicyError for two names of
        one machine."""
        self._asked.ask(self._only)
        mine = self._within("its VMs", lambda: self._source.read(True))
        reads = [mine, *self._asked.answers().values()]
        check_machines({read.name: read.identity for read in reads if not read.error})
        return {read.name: read for read in reads}

    def _within(self, what: str, read: Callable[[], _T]) -> _T:
        """Raises what the read raises, and HostUnreachable where it does not come to its end."""
        try:
            return self._patience.within(READ_FOR, read, what)
        except TimeoutError as exc:
            raise HostUnreachable(self._source.config.uri, f"{exc}. Repair that, then run the same again") from exc

    def observe(
        self, record: NodeRecord | None, now: float, held: frozenset[str], outcomes: Mapping[tuple[str, int], Outcome]
    ) -> Observation:
        reads = self.reads = self.read_hosts()
        mine = reads[self._source.name]
        wanted = set(mine.domains) | set(record.vms if record else ())
        obs = Observation(
            nodes={},
            vms={},
            outcomes=dict(outcomes),
            held=held,
            full=not mine.error and not any(_lacks(read, mine, wanted) for read in reads.values()),
            now=now,
            not_asked=frozenset(name for name, read in reads.items() if read.not_asked),
        )
        for host in [self._source, *self._peers]:
            obs.nodes[host.name] = node_of(host, reads[host.name], groups=host is not self._source)
        obs.nodes[self._source.name].boot_id = self._boot_id
        if mine.cordoned and not mine.error and record is not None:
            self._whose_cordon(record, obs)
        taken = {
            (slot.vm, slot.source)
            for name in self._quorum_hosts
            for slot in (reads[name].slots if name in reads else ())
        }
        obs.cluster_in_flight = len({vm for vm, _source in taken})
        obs.slots_of = Counter(source for _vm, source in taken)
        for peer in self._peers:
            self._sighting(peer, reads[peer.name], wanted, record, obs)
        obs.inbound = [Reservation(r.vm, self._source.name, r.source, r.memory_mib) for r in mine.reservations]
        self._measure(mine)
        for uuid, domain in mine.domains.items():
            vm, answered = self._vm(domain, reads)
            obs.full = obs.full and answered
            if vm is not None:
                obs.vms[uuid] = vm
        self._count_pages(obs, reads)
        outgoing = {u for u, v in obs.vms.items() if v.job is not None and v.job.outgoing}
        obs.nodes[self._source.name].outbound = len(outgoing | held)
        return obs

    def _count_pages(self, obs: Observation, reads: Mapping[str, HostNow]) -> None:
        """Where a VM takes huge pages: what peers have of these. Each that answers was asked for its facts."""
        if not any(vm.takes for vm in obs.vms.values()):
            return
        for peer in self._peers:
            if not reads[peer.name].error:
                with suppress(HostUnreachable, libvirt.libvirtError):
                    obs.nodes[peer.name].spare = spare_pages(peer.facts)

    def _measure(self, mine: HostNow) -> None:
        """Dirty rates of the source's running VMs, once a slice each, where it was asked for."""
        seconds = self._source.config.measure_seconds
        if not seconds or mine.error:
            return
        new = [
            d.uuid
            for d in mine.domains.values()
            if d.state is State.RUNNING and d.job is None and d.uuid not in self._dirty_rates
        ]
        if new:
            try:
                found = measure(self._source.conn, new, seconds)
            except (HostUnreachable, libvirt.libvirtError):
                found = {}  # the connection broke, which the next read of the host tells
            self._dirty_rates.update({uuid: found.get(uuid) for uuid in new})
        for uuid, domain in mine.domains.items():
            domain.dirty_rate = self._dirty_rates.get(uuid)

    def _whose_cordon(self, record: NodeRecord, obs: Observation) -> None:
        """Where it cannot be read the record is believed; it is read again before it is removed."""
        try:
            obs.nodes[self._source.name].our_cordon = is_ours(self._source.store, record)
        except libvirt.libvirtError:
            return

    def _sighting(
        self, peer: Host, read: HostNow, wanted: set[str], record: NodeRecord | None, obs: Observation
    ) -> None:
        """Where else the VMs of this node are. Of a peer that was not read nothing is said."""
        if read.error:
            return
        for uuid in wanted & set(read.domains):
            domain = read.domains[uuid]
            autostart, persistent, marked = False, True, False
            key = (uuid, peer.name)
            entry = record.vms.get(uuid) if record else None
            runs = domain.state in (State.RUNNING, State.PAUSED)
            brought = entry is not None and entry.cold_target == peer.name
            if (runs or brought) and key not in self.clean:
                try:
                    autostart, persistent, marked = peer.arrival(uuid)
                except (HostUnreachable, libvirt.libvirtError):
                    obs.full = False
                    continue
                if entry is not None and (autostart, persistent, marked) == (entry.autostart, entry.persistent, False):
                    self.clean.add(key)
            elif entry is not None:
                autostart, persistent = entry.autostart, entry.persistent
            seen = obs.sightings.setdefault(uuid, [])
            about = autostart, persistent, marked, domain.job, domain.crashed
            seen.append(Sighting(peer.name, domain.state, *about, paused_by=domain.paused_by))
        for claim in read.reservations:
            if claim.source == self._source.name:
                obs.claims[claim.vm] = Reservation(claim.vm, peer.name, claim.source, claim.memory_mib)

    def _vm(self, domain: DomainNow, reads: Mapping[str, HostNow]) -> tuple[VM | None, bool]:
        """Static facts and state put together, and whether every readable peer has answered
        for it. None: it left between two reads.

        Only "no such domain" says that it left. One that is here and cannot be read must stay
        in the picture, or the host would be certified with it running.
        """
        readable = {peer.name for peer in self._peers if not reads[peer.name].error}
        key = domain.uuid, domain.active
        facts = self._vm_facts.get(key)
        if facts is None or _unanswered(facts, readable):
            try:
                facts = self._within(domain.name, lambda: read_vm_facts(self._source, self._peers, domain, reads))
            except libvirt.libvirtError as exc:
                if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None, True
                facts = unreadable(self._source, domain, f"{domain.name}: {exc}")
            else:
                if domain.job is None and not self._arrives(domain, reads):
                    self._vm_facts[key] = facts
        findings, migratable = facts.findings, facts.migratable
        if domain.job is not None and not domain.job.outgoing:
            text = "Another job is running on it (backup, save, dump)."
            findings, migratable = (*findings, Finding(Reason.BlockJobRunning, text)), False
        state: Any = domain.state
        vm = facts.to_vm(state, domain.job, findings, migratable)
        vm = replace(
            vm,
            resumable=domain.resumable,
            paused_by=domain.paused_by,
            crashed=domain.crashed,
            resident_mib=domain.resident_mib,
            instance=str(domain.number) if domain.number >= 0 else "",
            control_node=self._control_node_reason(domain) if vm.active else "",
        )
        return vm, not (vm.active and _unanswered(facts, readable))

    def _arrives(self, domain: DomainNow, reads: Mapping[str, HostNow]) -> bool:
        """Then what is read of it is not its own yet: autostart is given to it last of all."""
        mine = reads.get(self._source.name)
        claimed = mine is not None and any(r.vm == domain.uuid for r in mine.reservations)
        return claimed or domain.state in ARRIVING

    def _control_node_reason(self, domain: DomainNow) -> str:
        return self._control_node.why(domain.uuid, domain.name, lambda: self._source.domain(domain.uuid))


def node_of(host: Host, read: HostNow, groups: bool = True) -> Node:
    """A host as placement wants it. `groups`: count its VMs by their anti-affinity groups."""
    config = host.config
    node = Node(
        name=host.name,
        reachable=not read.error,
        message=read.error or "; ".join(read.unread.values()),
        cordoned=read.cordoned,
        reserve_mib=config.reserve_mib,
        roll_rank=config.roll_rank,
        roll_done=config.roll_done,
        expects=config.expects,
        labels=config.labels,
        taints=config.taints,
    )
    if read.error:
        return node
    node.capacity_mib = host.capacity_mib
    node.version = read.version
    reserved = {r.vm: r.memory_mib for r in read.reservations}
    active = [d for d in read.domains.values() if d.state is not State.SHUTOFF]
    node.vm_count = len(active)
    # As admission counts: somebody else's migration has no reservation.
    incoming = {d.uuid for d in active if d.state is State.INCOMING}
    node.inbound = len(incoming.union(reserved))
    node.inbound_from = frozenset(r.source for r in read.reservations)
    node.reserved_mib = sum(reserved.values())
    # A VM that is arriving is both a reservation and a domain: it counts once.
    node.committed_mib = node.reserved_mib + sum(d.memory_mib for d in active if d.uuid not in reserved)
    if groups:
        _count_groups(host, active, node)
    return node


def _count_groups(host: Host, active: Sequence[DomainNow], node: Node) -> None:
    """Where a group is not known the host takes nothing: it may have what must be apart."""
    for domain in active:
        try:
            group = host.group_of(domain.uuid)
        except HostUnreachable as exc:
            node.reachable, node.message = False, str(exc)
            return
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                continue  # it left between two reads
            node.reachable = False
            node.message = f"{host.name}: the group of {domain.name} cannot be read: {exc}"
            return
        if group:
            node.group_counts[group] = node.group_counts.get(group, 0) + 1


def _lacks(read: HostNow, mine: HostNow, wanted: AbstractSet[str]) -> bool:
    """Was a host read in part only, where that matters? One that was not read at all is told by
    its node."""
    return bool(read.unread if read is mine else wanted.intersection(read.unread))


def _unanswered(facts: VMFacts, readable: AbstractSet[str]) -> bool:
    """Is there a peer that can be read now, and has not said whether it takes the VM?

    It was down when the facts were read, or its connection broke at the question.
    """
    return facts.asked is not None and not readable <= facts.asked
