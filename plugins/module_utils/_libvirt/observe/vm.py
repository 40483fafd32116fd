"""Read what does not change about a VM from read to read: its definition, and which peers take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ..._core.model.constraints import NO_CONSTRAINTS, Constraints
from ..._core.model.observation import VM, Job, MigrationMethod, State
from ..._core.model.policy import PolicyError
from ..._core.reasons.reason import Finding, Reason
from ..blockers.disk_moves import disks_to_copy, migration_method, shared_disks
from ..blockers.host_files import missing_files
from ..blockers.off import cold_findings, tpm_state
from ..blockers.qemu_blockers import qemu_blockers
from ..blockers.running import Runtime, pages_taken, save_findings, shutdown_findings, source_findings, target_findings
from ..blockers.shared_storage import DiskView, local_views, path_shared, target_views
from ..blockers.target_devices import missing_devices
from ..blockers.target_names import doubtful_names, missing_names
from ..domain.metadata import is_marked, needs_of
from ..domain.spec import DomainSpec
from ..domain.untrusted import parse_xml
from ..domain.xml import parse_domain
from ..host.connection import HostUnreachable, libvirt
from ..host.facts import compare_cpu
from ..host.mounts import path_is_shared_fs
from ..host.older import not_compared
from .disks import nvram_elsewhere, with_chains, with_obstacles, with_same_files
from .document import vm_document
from .host import DomainNow, Host, HostNow, read_metadata
from .next_start import NextStart, only_next_time, read_next_start
from .patience import ASKED_FOR

Refusals = Mapping[str, "tuple[Finding, ...]"]
# Modes in which a guest that starts sees what its host has; "": the hypervisor's own default.
_MODES_OF_THE_HOST = ("", "host-passthrough", "host-model", "maximum")


@dataclass(frozen=True)
class VMFacts:
    """A VM's static side. `copied`: target devices of the disks that a migration copies.

    asked: the peers that said whether they take it; None: none has to be asked. One that did
    not answer stands in refused_by as well, but that is no answer.
    """

    uuid: str
    name: str
    node: str
    memory_mib: int
    declared_strategy: str | None
    group: str | None
    labels: Mapping[str, str]
    persistent: bool
    autostart: bool
    managed_save: bool
    marked: bool
    method: MigrationMethod
    migratable: bool | None
    findings: tuple[Finding, ...]
    refused_by: Refusals
    cold_refused_by: Refusals
    compared: Mapping[str, str]
    asked: frozenset[str] | None
    document: Mapping[str, Any]
    copied: tuple[str, ...] = field(default=())
    cold_findings: tuple[Finding, ...] = ()
    save_findings: tuple[Finding, ...] = ()
    shutdown_findings: tuple[Finding, ...] = ()
    constraints: Constraints = NO_CONSTRAINTS
    known: bool = True
    next_start: str = ""
    unshown: tuple[str, ...] = ()
    served_at: tuple[str, ...] = ()
    takes: Mapping[str, int] = field(default_factory=dict)

    def to_vm(self, state: State, job: Job | None, findings: tuple[Finding, ...], migratable: bool | None) -> VM:
        return VM(
            uuid=self.uuid,
            name=self.name,
            node=self.node,
            state=state,
            memory_mib=self.memory_mib,
            declared_strategy=self.declared_strategy,
            group=self.group,
            labels=self.labels,
            persistent=self.persistent,
            autostart=self.autostart,
            managed_save=self.managed_save,
            marked=self.marked,
            method=self.method,
            migratable=migratable,
            findings=findings,
            cold_findings=self.cold_findings,
            save_findings=self.save_findings,
            shutdown_findings=self.shutdown_findings,
            refused_by=self.refused_by,
            cold_refused_by=self.cold_refused_by,
            compared=self.compared,
            job=job,
            document=self.document,
            constraints=self.constraints,
            known=self.known,
            next_start=self.next_start,
            unshown=self.unshown,
            served_at=self.served_at,
            takes=self.takes,
        )


def read_vm_facts(source: Host, peers: Iterable[Host], domain: DomainNow, reads: Mapping[str, HostNow]) -> VMFacts:
    """Read one VM of the source, and ask every readable peer whether it can take it.

    Raises libvirtError when the domain cannot be read, or left meanwhile.
    """
    dom = source.domain(domain.uuid)
    xml, defined = dom.XMLDesc(0), _defined(dom)
    try:
        spec = parse_domain(xml)
        pending = read_next_start(dom, spec, defined, source)
    except ValueError as exc:
        return unreadable(source, domain, str(exc))
    try:
        needs = needs_of(spec.declared.other)
    except PolicyError as exc:  # where it may be is not known, so it goes nowhere
        return unreadable(source, domain, f"{domain.name}: {exc}")
    spec = with_chains(dom, spec, source.facts)
    runtime = _runtime(dom, spec, domain)
    views = local_views(spec, source.facts, source.config.shared_paths, domain=dom)
    boots = _boots_anywhere(spec, defined or ("" if domain.active else xml))
    asking = _Question(source, spec, runtime, views, boots, domain.job is None, pending)
    answers = _ask_peers(asking, peers, reads)
    return _facts(asking, domain, needs, is_marked(read_metadata(dom)), answers)


def _facts(asked: _Question, domain: DomainNow, needs: Constraints, marked: bool, answers: _Answers) -> VMFacts:
    source, spec, runtime, views = asked.source, asked.spec, asked.runtime, asked.views
    shared = shared_disks(views)
    findings = source_findings(spec, source.facts, runtime, views)
    cold, later = _cold_findings(asked)
    findings += later
    method = migration_method(spec, shared)
    return VMFacts(
        uuid=domain.uuid,
        name=domain.name,
        node=source.name,
        memory_mib=max(spec.max_memory_mib, domain.memory_mib),
        declared_strategy=spec.declared.eviction_strategy or None,
        group=spec.declared.anti_affinity_group or None,
        labels=spec.declared.labels,
        persistent=runtime.persistent,
        autostart=runtime.autostart,
        managed_save=runtime.managed_save,
        marked=marked,
        method=method,
        migratable=not findings,
        findings=findings,
        refused_by=answers.refused,
        cold_refused_by=answers.cold,
        compared=answers.compared,
        asked=answers.asked,
        document=vm_document(
            spec,
            source.name,
            runtime,
            migratable=not findings,
            findings=findings,
            method=method,
            views=views,
            dirty_rate_mib=domain.dirty_rate,
        ),
        copied=disks_to_copy(spec, shared),
        cold_findings=cold,
        save_findings=save_findings(spec, runtime),
        shutdown_findings=shutdown_findings(spec),
        constraints=needs,
        next_start=asked.pending.text if asked.pending else "",
        unshown=tuple(dict.fromkeys(asked.unshown)),
        served_at=_served_at(views, asked.pending.views if asked.pending else {}),
        takes=pages_taken(spec),
    )


def _served_at(*views: Mapping[str, DiskView]) -> tuple[str, ...]:
    """Servers of its current disks, and of the disks of its next start."""
    return tuple(dict.fromkeys(name for disks in views for disk in disks.values() for name in disk.served_at))


def _cold_findings(asked: _Question) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Why it cannot be moved while it is off; and what of that comes with its next start alone."""
    pending, runtime = asked.pending, asked.runtime

    def shared(path: str) -> bool | None:
        return path_shared(path, asked.source.config.shared_paths)

    now = cold_findings(asked.spec, runtime, asked.views, shared)
    if pending is None:
        return now, ()
    new = cold_findings(pending.new, runtime, pending.views, shared)
    return (cold_findings(pending.spec, runtime, pending.views, shared), only_next_time(new, now))


@dataclass(frozen=True)
class _Question:
    """The VM as the peers are asked about it. any_cpu: started anew, it takes the CPU that it finds.
    pending: its next start, if that differs. still: no job runs on it, so what is on a peer is not of
    one that is under way. unshown: what the answers leave open, as sentences."""

    source: Host
    spec: DomainSpec
    runtime: Runtime
    views: Mapping[str, DiskView]
    any_cpu: bool
    still: bool = True
    pending: NextStart | None = None
    unshown: list[str] = field(default_factory=list)


class _Answers(NamedTuple):
    """Which hosts refuse the VM and why, running and off; what older ones could not compare; which ones answered."""

    refused: Refusals
    cold: Refusals
    compared: Mapping[str, str]
    asked: frozenset[str]


def _ask_peers(asking: _Question, peers: Iterable[Host], reads: Mapping[str, HostNow]) -> _Answers:
    refused: dict[str, tuple[Finding, ...]] = {}
    cold: dict[str, tuple[Finding, ...]] = {}
    compared: dict[str, str] = {}
    asked = set()
    for peer in peers:
        if reads[peer.name].error:
            continue  # placement leaves it out
        try:
            ask = partial(_ask, asking, peer, reads[peer.name])
            refused[peer.name], cold[peer.name], older = peer.patience.within(ASKED_FOR, ask, asking.spec.name)
            if older is not None:
                compared[peer.name] = older
            asked.add(peer.name)
        except HostUnreachable as exc:
            why = (Finding(Reason.PeerUnreachable, str(exc)),)
            refused[peer.name] = cold[peer.name] = why
        except (libvirt.libvirtError, TimeoutError) as exc:
            why = (Finding(Reason.PeerUnreachable, f"{peer.name}: {exc}"),)
            refused[peer.name] = cold[peer.name] = why
    return _Answers(_refusing(refused), _refusing(cold), compared, frozenset(asked))


def _ask(asking: _Question, peer: Host, now: HostNow) -> tuple[tuple[Finding, ...], tuple[Finding, ...], str | None]:
    """Why the peer does not take it while it runs, and while it is off; and what an older one could not compare.

    Raises HostUnreachable or libvirtError when the peer does not answer.
    """
    older = peer.facts.hypervisor_version < asking.source.facts.hypervisor_version
    refusal = _refusal(asking, peer, now)
    return (*refusal, not_compared(peer.conn, asking.spec, peer.facts) if older else None)


def _refusing(answers: Refusals) -> dict[str, tuple[Finding, ...]]:
    return {name: why for name, why in answers.items() if why}


def _refusal(asking: _Question, peer: Host, now: HostNow) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Why the peer does not take it while it runs, and while it is off. Raises as `_ask`."""
    spec, here, there = asking.spec, asking.source.facts, peer.facts
    seen = with_same_files(spec, target_views(asking.views, spec, there, peer.conn), here, peer)
    asking.unshown.extend(view.unshown for view in seen.values() if view.unshown)
    # Where there is a claim for it, files may be of an attempt that is under way.
    if asking.still and spec.uuid not in {claim.vm for claim in now.reservations}:
        seen = with_obstacles(spec, seen, peer)
    cpu = compare_cpu(peer.conn, spec, here, there, peer.cpu_cache)
    others = (domain for domain in now.domains.values() if domain.uuid != spec.uuid)
    taken = {port: domain.name for domain in others for port in domain.ports}
    devices = missing_devices(peer.conn, spec, there, taken)
    devices += missing_names(spec, asking.source.lookups, peer.lookups, there)
    asking.unshown.extend(doubtful_names(spec, asking.source.lookups, peer.lookups, there))
    files = missing_files(peer.conn, spec, there)
    live = target_findings(spec, here, there, seen, runtime=asking.runtime, cpu=cpu, devices=devices)
    # What a migration asks of the target's libvirt (runtime) is not asked of a start.
    cpu_there = [] if asking.any_cpu else cpu
    cold = target_findings(spec, here, there, seen, cpu=cpu_there, devices=devices)
    cold += nvram_elsewhere(spec, asking.source, peer)
    if asking.pending is None:
        return (*live, *files), (*cold, *files)
    next_time, new = _next_time(asking, asking.pending, peer, taken)
    return (*live, *files, *only_next_time(new, (*live, *cold, *files))), next_time


def _next_time(
    asking: _Question, pending: NextStart, peer: Host, taken: Mapping[int, str]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Why the peer cannot start it with its persistent definition; and the same of those disks
    alone that do not run now."""
    spec, here, there = pending.spec, asking.source.facts, peer.facts
    seen = with_same_files(spec, target_views(pending.views, spec, there, peer.conn), here, peer)
    cpu = [] if asking.any_cpu else compare_cpu(peer.conn, spec, here, there, peer.cpu_cache)
    devices = missing_devices(peer.conn, spec, there, taken)
    devices += missing_names(spec, asking.source.lookups, peer.lookups, there)
    files = missing_files(peer.conn, spec, there)
    whole = target_findings(spec, here, there, seen, cpu=cpu, devices=devices)
    new = target_findings(pending.new, here, there, seen, cpu=cpu, devices=devices)
    return (*whole, *files, *nvram_elsewhere(spec, asking.source, peer)), (*new, *files)


def _defined(dom: Any) -> str:
    """The persistent definition (XML) of a domain that runs; empty: it is transient, or off."""
    if not dom.isActive() or not dom.isPersistent():
        return ""
    return str(dom.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))


def _boots_anywhere(spec: DomainSpec, defined: str) -> bool:
    """Does its CPU depend on the host where it starts? The live XML of a host-model VM has the
    CPU that it got; what it is defined with tells."""
    if spec.cpu_mode in _MODES_OF_THE_HOST:
        return True
    if not defined:
        return False
    cpu = parse_xml(defined).find("cpu")
    if cpu is None:
        return True
    return cpu.get("mode", "") in _MODES_OF_THE_HOST and cpu.find("model") is None


def _runtime(dom: Any, spec: DomainSpec, domain: DomainNow) -> Runtime:
    persistent = bool(dom.isPersistent())
    state = tpm_state(spec)
    return Runtime(
        snapshots=dom.snapshotNum(0),
        checkpoints=_checkpoints(dom),
        block_jobs=tuple(_block_jobs(dom, spec)) if domain.job is None else (),
        blockers=qemu_blockers(dom) if domain.active and domain.job is None else (),
        persistent=persistent,
        managed_save=bool(dom.hasManagedSaveImage(0)) if persistent else False,
        autostart=bool(dom.autostart()) if persistent else False,
        tpm_shared=any(path_is_shared_fs(path) for path in state) if state else None,
    )


def _checkpoints(dom: Any) -> int:
    """Their number; none where the hypervisor's driver knows no checkpoints."""
    try:
        return len(dom.listAllCheckpoints(0))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
            return 0
        raise


def _block_jobs(dom: Any, spec: DomainSpec) -> Iterable[str]:
    if not dom.isActive():
        return
    for disk in spec.disks:
        if disk.removable or disk.empty:
            continue
        if dom.blockJobInfo(disk.dev, 0):
            yield disk.dev


def _starts_with_host(source: Host, uuid: str) -> bool:
    """libvirt keeps it beside the definition, so that it can be read without."""
    try:
        return bool(source.domain(uuid).autostart())
    except (HostUnreachable, libvirt.libvirtError):
        return False


def unreadable(source: Host, domain: DomainNow, text: str) -> VMFacts:
    """A VM that is here, and of which no more is known than the host's list says; of one that is off also its
    autostart.
    """
    return VMFacts(
        uuid=domain.uuid,
        name=domain.name,
        node=source.name,
        memory_mib=domain.memory_mib,
        declared_strategy=None,
        group=None,
        labels={},
        persistent=True,
        autostart=not domain.active and _starts_with_host(source, domain.uuid),
        managed_save=False,
        marked=False,
        method=MigrationMethod.LIVE,
        migratable=None,
        findings=(Finding(Reason.MigratableNotKnown, text),),
        cold_findings=(Finding(Reason.MigratableNotKnown, text),),
        save_findings=(Finding(Reason.MigratableNotKnown, text),),
        refused_by={},
        cold_refused_by={},
        compared={},
        asked=None,
        document={"name": domain.name, "uuid": domain.uuid},
        known=False,
    )
