"""Ask libvirt about a VM's disks beside where they are: their chains, and what is in the way of a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..blockers.disk_chains import completed
from ..blockers.disk_moves import disks_to_copy, shared_disks
from ..blockers.same_files import same_file
from ..blockers.shared_storage import FILE_POOLS, DiskView, path_shared
from ..domain.spec import DomainSpec, SourceSpec
from ..domain.xml import parse_domain
from ..holder.disks import CopyDisk, DisksError, TargetVolumes
from ..host.connection import libvirt
from ..host.facts import HostFacts
from ..store.volumes import StoreError
from .host import Host


def with_chains(dom: Any, spec: DomainSpec, host: HostFacts, runs: bool = True) -> DomainSpec:
    """The VM with all that its disks stand on, and with what of it goes along in its definition.

    The XML of a running domain lists what libvirt found in the images too; the one that it
    sends to a target has only what was defined. `runs` False: `spec` is what it is defined with.
    """
    sent = spec
    if runs and dom.isActive() and any(disk.backing for disk in spec.disks):
        sent = parse_domain(dom.XMLDesc(libvirt.VIR_DOMAIN_XML_MIGRATABLE))
    named = {disk.dev: disk.backing for disk in sent.disks}
    pools = host.pools or {}
    folders = {pool.name: pool.target for pool in pools.values() if pool.type in FILE_POOLS}
    disks = tuple(
        replace(completed(disk, folders.get(disk.pool, "")), sent=named.get(disk.dev, ())) for disk in spec.disks
    )
    return replace(spec, disks=disks)


def with_obstacles(spec: DomainSpec, seen: Mapping[str, DiskView], peer: Host) -> dict[str, DiskView]:
    """The same with what is in the way of the disks that are copied. A store that cannot be
    read says nothing: then the holder finds out, before anything moves."""
    found = dict(seen)
    for dev in disks_to_copy(spec, shared_disks(seen)):
        disk, view = spec.disk(dev), seen[dev]
        pool = (peer.facts.pools or {}).get(disk.pool)
        path = disk.path or (f"{pool.target}/{disk.volume}" if pool else "")
        if not view.on_target or not path:
            continue
        volumes = TargetVolumes(peer.conn, spec.uuid, peer.store, peer.acts)
        copy = CopyDisk(dev, path, disk.format, view.capacity)
        try:
            found[dev] = replace(view, in_the_way=volumes.in_the_way(copy))
        except (DisksError, StoreError):
            continue
    return found


def with_same_files(
    spec: DomainSpec, seen: Mapping[str, DiskView], source: HostFacts, peer: Host
) -> dict[str, DiskView]:
    """The same with whether what is on shared storage is the same there.

    Raises libvirtError when the peer does not answer.
    """
    found = dict(seen)
    for disk in spec.disks:
        view = seen.get(disk.dev, DiskView())
        if disk.empty or not view.source_shared:
            continue
        for place, layer in enumerate(disk.layers):
            path = _file_of(layer, source)
            if not path:
                continue
            shown = same_file(peer.conn, peer.facts, path, peer.same_folders, acts=peer.acts)
            why = f"stands on {path}, which {shown.why}" if place else shown.why
            if shown.same is False:
                found[disk.dev] = replace(view, differs=why)
                break
            if shown.same is None:
                found[disk.dev] = replace(view, unshown=f"Disk {disk.dev} ({disk.source}) {why}")
    return found


def _file_of(layer: SourceSpec, source: HostFacts) -> str:
    """Its path on the host, if it is a file of a directory."""
    path = layer.path
    if layer.type == "volume":
        pool = (source.pools or {}).get(layer.pool)
        path = f"{pool.target}/{layer.volume}" if pool and pool.type in FILE_POOLS else ""
    return "" if path.startswith("/dev/") else path


def nvram_elsewhere(spec: DomainSpec, source: Host, peer: Host) -> tuple[Finding, ...]:
    """Its NVRAM, where that is on storage that both should have. Of a VM that is off: else it goes
    along."""
    path = spec.nvram
    if not path.startswith("/") or not path_shared(path, source.config.shared_paths):
        return ()
    shown = same_file(peer.conn, peer.facts, spec.nvram, peer.same_folders, acts=peer.acts)
    if shown.same is not False:
        return ()
    return (Finding(Reason.DisksNotLiveMigratable, f"Its NVRAM {spec.nvram} {shown.why}."),)
