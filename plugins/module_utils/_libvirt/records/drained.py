"""Read what a drain of a host that died left with its peers: definitions of its VMs (`copy.HOST.N`, see `copies`).

For a recovery these are the definitions that `protect` has not, or not so new. Who takes a VM and which file each of
its disks is, only `protect` keeps. So one that only a drain knows is started where its definition names its data in
full, whoever reads it; else it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..._core.model.observation import VM, State
from ..._core.model.policy import PolicyError
from ..._core.model.record import Ending, NodeRecord, RecordError, VMRecord
from ..._core.reasons.reason import Finding, Reason
from ..blockers.off import cold_findings
from ..blockers.running import Runtime
from ..blockers.shared_storage import local_views
from ..domain.metadata import needs_of
from ..domain.spec import DomainSpec
from ..domain.untrusted import load_json
from ..domain.xml import parse_domain
from ..host.connection import HostUnreachable, libvirt
from ..host.facts import HostFacts
from ..observe.host import Host
from ..store.volumes import StoreError
from .copies import volume_of
from .protected import Kept


def read(host: str, peers: Iterable[Host]) -> tuple[NodeRecord, Mapping[str, str]] | None:
    """The newest copy that any of these peers has: the record, and UUID -> definition. None: no peer has one that can
    be read."""
    found = []
    for peer in peers:
        try:
            raw = load_json(peer.store.read_record(volume_of(host)) or "{}")
            record = NodeRecord.from_json(raw["record"])
            definitions = {str(uuid): str(xml) for uuid, xml in raw["definitions"].items()}
        except (HostUnreachable, StoreError, libvirt.libvirtError):
            continue
        except (RecordError, ValueError, KeyError, TypeError, AttributeError):
            continue
        found.append((record.started_wall, len(definitions), record, definitions))
    _wall, _number, record, definitions = max(found, key=lambda one: one[:2], default=("", 0, None, {}))
    return None if record is None else (record, definitions)


def with_drained(kept: Kept | None, host: str, peers: Mapping[str, Host], facts: HostFacts) -> Kept | None:
    """`kept` with the VMs that only the copy of a drain has, or has newer; None: nobody has anything.

    `facts`: of the peer that judges.
    """
    copy = read(host, peers.values())
    if copy is None:
        return kept
    record, definitions = copy
    kept = kept or Kept(host, record.started_wall, record.boot_id, sorted(peers), [])
    after = record.started_wall >= kept.at
    if not after and record.started_wall != kept.maintenance:
        return kept  # a peer that was silent at the restore has it still
    protected = {vm.uuid: vm for vm in kept.vms}
    for uuid, xml in definitions.items():
        entry, vm = record.vms.get(uuid), protected.get(uuid)
        newer = vm is not None and after and _disks(xml) != _disks(kept.definitions.get(uuid))
        if entry is not None and (vm is None or newer):
            protected[uuid] = _vm(host, entry, xml, facts)
            kept.definitions[uuid] = xml
            for known in (kept.files, kept.volumes, kept.nvram):
                known.pop(uuid, None)  # type: ignore[attr-defined]
    vms = [_as_left(vm, record.vms[vm.uuid], after) if vm.uuid in record.vms else vm for vm in protected.values()]
    return replace(kept, vms=vms)


def _as_left(vm: VM, entry: VMRecord, after: bool) -> VM:
    """The VM as the drain left it. `after`: the drain began after `protect`. What it has stopped is started; what it
    has moved may run out of this fleet by now."""
    if entry.ending in (Ending.MOVED.value, Ending.COLD_MOVED.value):
        text = f"The drain of {vm.node} moved it to {entry.attempts[-1].target if entry.attempts else 'another host'}."
        return replace(vm, state=State.RUNNING, findings=(Finding(Reason.VMVanished, text),))
    if entry.reason == Reason.VMVanished.value:
        return replace(vm, state=State.SHUTOFF, findings=(entry.finding,) if entry.finding else ())
    if entry.ending == Ending.GONE.value:
        return replace(vm, state=State.SHUTOFF)
    if after or entry.asked_to_stop:
        return replace(vm, state=State.RUNNING if entry.was_active else State.SHUTOFF, autostart=entry.autostart)
    return vm


def _disks(xml: str | None) -> list[str] | None:
    try:
        return sorted(disk.source for disk in parse_domain(xml or "").disks)
    except ValueError:
        return None


def _vm(host: str, entry: VMRecord, xml: str, facts: HostFacts) -> VM:
    vm = VM(
        entry.uuid,
        entry.name,
        host,
        State.RUNNING if entry.was_active else State.SHUTOFF,
        entry.memory_mib,
        persistent=entry.persistent,
        autostart=entry.autostart,
        document={"name": entry.name, "uuid": entry.uuid, "node": host, "labels": {}},
        cold_refused_by={},
    )
    try:
        spec = parse_domain(xml)
        needs = needs_of(spec.declared.other)
    except (ValueError, PolicyError) as exc:
        why = Finding(Reason.MigratableNotKnown, f"{entry.name}: its definition cannot be read: {exc}")
        return replace(vm, findings=(why,), cold_findings=(why,))
    stays = _stays(spec, facts)
    if not entry.persistent:
        stays = (Finding(Reason.TransientDomain, "It is transient: whoever created it must start it again."), *stays)
    declared = spec.declared
    return replace(
        vm,
        memory_mib=max(vm.memory_mib, spec.max_memory_mib),
        group=declared.anti_affinity_group or None,
        labels=declared.labels,
        declared_strategy=declared.eviction_strategy or None,
        constraints=needs,
        document={**vm.document, "labels": dict(declared.labels), "volumes": _volumes(spec)},
        findings=stays,
        cold_findings=stays,
    )


def _volumes(spec: DomainSpec) -> list[dict[str, object]]:
    return [{"kind": disk.type, "source": disk.source, "read_only": disk.read_only} for disk in spec.disks]


def _stays(spec: DomainSpec, facts: HostFacts) -> tuple[Finding, ...]:
    """Why the VM cannot be started elsewhere, as seen from here; empty: it can. Of a path on the host that died it is
    not known what it was."""
    named = [disk for disk in spec.disks if disk.type == "network" and (disk.chain_ends or disk.format == "raw")]
    doubt = [f"{disk.dev} ({disk.source})" for disk in spec.disks if not disk.empty and disk not in named]
    if doubt:
        text = f"Only a drain's copy mentions it, without saying which data its disk {', '.join(doubt)} is:"
        text += " protect records that."
        return (Finding(Reason.DisksNotLiveMigratable, text),)
    return cold_findings(spec, Runtime(), local_views(spec, facts), lambda _path: False)
