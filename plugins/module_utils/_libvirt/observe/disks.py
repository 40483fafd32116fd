# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt is asked about a VM's disks beside where they are: their chains, and what is in
the way of a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..domain.spec import DomainSpec
from ..domain.xml import parse_domain
from ..holder.disks import CopyDisk, DisksError, TargetVolumes
from ..host.connection import libvirt
from ..host.facts import HostFacts
from ..migratability.disk_chains import completed
from ..migratability.disk_moves import disks_to_copy, shared_disks
from ..migratability.shared_storage import FILE_POOLS, DiskView
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
        replace(completed(disk, folders.get(disk.pool, "")), sent=named.get(disk.dev, ()))
        for disk in spec.disks
    )
    return replace(spec, disks=disks)


def with_obstacles(
    spec: DomainSpec, seen: Mapping[str, DiskView], peer: Host
) -> dict[str, DiskView]:
    """The same with what is in the way of the disks that are copied. A store that cannot be
    read says nothing: then the holder finds out, before anything moves."""
    found = dict(seen)
    for dev in disks_to_copy(spec, shared_disks(seen)):
        disk, view = spec.disk(dev), seen[dev]
        pool = (peer.facts.pools or {}).get(disk.pool)
        path = disk.path or (f"{pool.target}/{disk.volume}" if pool else "")
        if not view.on_target or not path:
            continue
        volumes = TargetVolumes(peer.conn, spec.uuid, peer.store)
        copy = CopyDisk(dev, path, disk.format, view.capacity)
        try:
            found[dev] = replace(view, in_the_way=volumes.in_the_way(copy))
        except (DisksError, StoreError):
            continue
    return found
