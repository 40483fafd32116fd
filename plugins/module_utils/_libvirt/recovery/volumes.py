"""Which volume each disk is: what tells that another host has the same one, kept while the host lives.

A file has its number (`blockers/same_files`), a device what it says of itself, a volume what its pool stands on. What
QEMU fetches itself (network) is named in full by its definition.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..blockers.same_files import identity
from ..blockers.shared_storage import FILE_POOLS, path_on_target
from ..host.connection import libvirt
from ..host.facts import HostFacts
from ..observe.host import Host

# By the device's own word (sysfs): of a disk, of a map such as multipath.
_SAYS = ("wwid", "device/wwid", "dm/uuid")
_NO_VOLUME = 50  # VIR_ERR_NO_STORAGE_VOL


def of_vm(volumes: Iterable[Mapping[str, Any]], facts: HostFacts) -> tuple[dict[str, int], dict[str, list[str]]]:
    """(path of a file on shared storage -> its number, source of another shared volume -> [kind, identity]).

    `volumes`: as the VM's document has them. Read-only ones are left out, for they hold no data of the VM; so are local
    ones, which no other host has.
    """
    files: dict[str, int] = {}
    others: dict[str, list[str]] = {}
    for volume in volumes:
        source, kind = volume["source"], volume["kind"]
        if not source or not volume["shared"] or volume["read_only"]:
            continue
        path = _path(kind, source, facts)
        if path:
            files[path] = identity(path)
        else:
            others[source] = [kind, _identity(kind, source, facts)]
    return files, others


def differs(source: str, kind: str, kept: str, own: HostFacts, host: Host) -> str:
    """Why the target does not have the volume that the dead host had; empty: it has, or nobody can tell. `own`: of the
    host that asks, which compares its own devices. Raises libvirtError, HostUnreachable."""
    facts = host.facts
    if kind == "volume":
        pool, _slash, name = source.partition("/")
        if facts.pools is not None and pool not in facts.pools:
            return f"{host.name} has no pool {pool} now."
        there = _identity(kind, source, facts)
        if kept and there and there != kept:
            return f"Pool {pool} of {host.name} is on {there} now, but its host had it on {kept}."
        return "" if _has(host.conn, pool, name) else f"{host.name} does not have {source} now."
    if kind == "block":
        mine = _identity(kind, source, own)
        if kept and mine and mine != kept:
            return f"{source} is a different device here than it was there ({mine}, not {kept})."
        if path_on_target(host.conn, facts, source) is False:
            return f"{host.name} does not have {source} now."
    return ""


def _path(kind: str, source: str, facts: HostFacts) -> str:
    """The path of a volume that is a file, also of one in a pool; empty: it is no file."""
    if kind == "file":
        return source
    pool, _slash, name = source.partition("/")
    known = (facts.pools or {}).get(pool) if kind == "volume" else None
    return f"{known.target}/{name}" if known is not None and known.type in FILE_POOLS else ""


def _identity(kind: str, source: str, facts: HostFacts) -> str:
    """Empty: there is none, or none is needed."""
    if kind == "volume":
        pool = (facts.pools or {}).get(source.partition("/")[0])
        return f"{pool.type} {pool.source}".rstrip() if pool is not None else ""
    return _of_device(source) if kind == "block" else ""


def _of_device(path: str, sysfs: str = "/sys/class/block") -> str:
    name = os.path.basename(os.path.realpath(path))
    for said in _SAYS:
        try:
            with open(f"{sysfs}/{name}/{said}", encoding="utf-8", errors="replace") as stream:
                text = stream.read().strip()
        except OSError:
            continue
        if text:
            return text
    return ""


def _has(conn: Any, pool: str, name: str) -> bool:
    try:
        opened = conn.storagePoolLookupByName(pool)
        opened.refresh(0)
        opened.storageVolLookupByName(name)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != _NO_VOLUME:
            raise
        return False
    return True
