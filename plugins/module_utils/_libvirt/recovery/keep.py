"""Store on a host's peers, while it lives, what they need to start its VMs should it die."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..._core.claims.admission import quorum_hosts
from ..._core.decision.strategy import choose
from ..._core.model.observation import VM
from ..._core.model.policy import Policy
from ..._core.model.record import NodeRecord, RecordError
from ..blockers.off import nvram_stays
from ..domain.xml import parse_domain
from ..host.connection import libvirt
from ..host.mounts import QEMU_CONF
from ..host.own_boot import own_boot_id
from ..observe.host import Host, HostConfig
from ..observe.observe import Observer
from ..observe.peers import open_peer
from ..records import protected
from ..records.definitions import Written
from ..records.protected import Kept
from ..store.volumes import StoreError
from . import arp, guard, image_locks, nvram, volumes
from .look import now

_LOCK = re.compile(r'^\s*lock_manager\s*=\s*"(\w+)"', re.MULTILINE)


def protect(
    own: HostConfig, peers: Sequence[HostConfig], guarded: bool | None, policy: Policy, acts: bool
) -> dict[str, Any]:
    """Read the host and its VMs, ask the peers which VM each can take, and store all of it on them.

    `guarded`: install the guard, or remove it; None: leave it as it is. `policy`: whose priorities are kept with the
    definitions. `acts` False: only find out whether anything would be written. Gives the module's result. Raises
    HostUnreachable where this host's own libvirt cannot be read.
    """
    source = Host(own, acts=acts)
    others = {config.name: Host(config, open_peer, acts=acts) for config in peers}
    quorum = list(quorum_hosts(others))
    observer = Observer(source, list(others.values()), own_boot_id(), quorum)
    try:
        obs = observer.observe(None, 0.0, frozenset(), {})
        mine = obs.nodes[own.name]
        source.conn  # noqa: B018 - a host that cannot be read is an error, with its own words
        kept = Kept(
            own.name,
            now(),
            own_boot_id(),
            hosts=sorted(name for name, node in obs.nodes.items() if node.reachable and name != own.name),
            keepers=quorum,
            lock=lock_manager(),
            vms=sorted(obs.vms.values(), key=lambda vm: vm.uuid),
            priorities={vm.uuid: given for vm in obs.vms.values() if (given := choose(vm, policy).priority)},
        )
        for vm in kept.vms:
            _leave(source, vm, kept)
        kept.vms = [_with_nvram(vm, kept) for vm in kept.vms]
        macs = {mac for vm in kept.vms for _link, mac in arp.nics(kept.definitions.get(vm.uuid, ""), {})}
        kept.addresses = {mac: sorted(found) for mac, found in arp.table().items() if mac in macs}
        kept.locked = image_locks.seen(source, {vm.uuid for vm in kept.vms if vm.active})
        kept.maintenance = _maintenance(source)
        asked = [(name, others[name].config.uri) for name in quorum]
        changed = guard.install(own.name, asked, guarded, acts)
        kept.guard = guard.installed(own.name)
        have, failed, written = protected.write(kept, [others[name] for name in quorum], acts)
    finally:
        observer.close()
    return {
        "host": own.name,
        "vms": [_row(vm) for vm in kept.vms],
        "kept_on": have,
        "not_kept_on": failed,
        "not_asked": sorted(name for name, node in obs.nodes.items() if not node.reachable and name != mine.name),
        "guard": kept.guard,
        "changed": changed or written,
    }


def lock_manager(conf: str = QEMU_CONF) -> str:
    """The lock manager of this host's libvirt: lockd, sanlock; empty: none, or unreadable."""
    try:
        with open(conf, encoding="utf-8", errors="replace") as stream:
            found = _LOCK.search(stream.read())
    except OSError:
        return ""
    return found.group(1) if found and found.group(1) != "nop" else ""


def _maintenance(source: Host) -> str:
    """When the drain began that is not restored, UTC; empty: none, or its record cannot be read."""
    try:
        text = Written(source).read("record")
        return "" if text is None else NodeRecord.from_json(text).started_wall
    except (StoreError, RecordError):
        return ""


def _leave(source: Host, vm: VM, kept: Kept) -> None:
    """Note the VM's definition in `kept`, and which volume each disk is. One that left meanwhile has no definition."""
    with suppress(libvirt.libvirtError):
        dom = source.domain(vm.uuid)
        flags = libvirt.VIR_DOMAIN_XML_SECURE
        kept.definitions[vm.uuid] = dom.XMLDesc(flags | (libvirt.VIR_DOMAIN_XML_INACTIVE if dom.isPersistent() else 0))
    kept.files[vm.uuid], kept.volumes[vm.uuid] = volumes.of_vm(vm.document.get("volumes") or (), source.facts)


def _with_nvram(vm: VM, kept: Kept) -> VM:
    """Note the VM's NVRAM in `kept` where it lies on this host alone, and give the VM without that hindrance."""
    with suppress(KeyError, ValueError):
        path = parse_domain(kept.definitions[vm.uuid]).nvram
        stays = nvram_stays(path)
        packed = nvram.pack(path) if stays in vm.cold_findings else ""
        if packed:
            kept.nvram[vm.uuid] = (path, packed)
            return replace(vm, cold_findings=tuple(one for one in vm.cold_findings if one != stays))
    return vm


def _row(vm: VM) -> dict[str, Any]:
    """The VM's row of the result: `protected` says whether it could be started elsewhere, should its host die now."""
    why = vm.cold_findings[0] if vm.cold_findings else None
    return {
        "name": vm.name,
        "uuid": vm.uuid,
        "active": vm.active,
        "autostart": vm.autostart,
        "protected": why is None and vm.known,
        "reason": why.reason.value if why else "",
        "message": why.message if why else "",
    }
