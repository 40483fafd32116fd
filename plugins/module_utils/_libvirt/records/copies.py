"""Copies of a host's record and definitions on its peers: should the host or a volume be lost.

What a definition says is carried out by QEMU as root, so a peer's word is not enough: only the one
that this host wrote down, known by the digest in its own record, is taken back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from ..._core.model.record import NodeRecord, RecordError
from ..domain.untrusted import digest_of, load_json
from ..host.connection import HostUnreachable, libvirt
from ..observe.host import Host
from ..store.volumes import StoreError

COPIES = 2


def volume_of(host: str, prefix: str = "") -> str:
    """The volume with the copy of a host's record, which a generation follows. `prefix`: of one VM's own record."""
    return f"copy.{prefix}{host}"


class Found(NamedTuple):
    """Definitions from the copies, by UUID; and the peers that could not be read, with why."""

    definitions: dict[str, str]
    unread: list[str]


class Copies:
    """The copies of one record. `prefix`: of one VM's own record."""

    def __init__(self, host: str, peers: Mapping[str, Host], prefix: str = "") -> None:
        self._host = host
        self._peers = peers
        self._volume = volume_of(host, prefix)
        self.written = 0  # the last time
        self.failed: list[str] = []  # peers that took none, with why
        self.left: list[str] = []  # peers on which one could not be removed, with why

    def write(self, record: NodeRecord, known: Mapping[str, str]) -> None:
        """Write the record and `known` (UUID -> definition) to the first two peers that take them. Raises nothing: see
        `missing` and `warning`."""
        text = json.dumps({"record": record.to_json(), "definitions": known})
        self.written, self.failed = 0, []
        for name, peer in self._peers.items():
            if self.written == COPIES:
                break
            try:
                peer.store.write_record(self._volume, text)
                self.written += 1
            except (HostUnreachable, StoreError, libvirt.libvirtError) as exc:
                self.failed.append(f"{name} ({exc})")

    @property
    def missing(self) -> bool:
        """There are peers, and none of them took a copy."""
        return bool(self._peers) and not self.written

    @property
    def warning(self) -> str:
        """Fewer copies than there should be, or one that stays; empty: there are enough, or none was due yet."""
        if self.left:
            return (
                f"A copy of the record of {self._host} and of its VMs' definitions (volume {self._volume}.N in pool"
                f" virtops) could not be removed from {', '.join(self.left)}. It is harmless: the next drain or"
                f" restore of {self._host} removes it."
            )
        wanted = min(COPIES, len(self._peers))
        if not self.failed or self.written >= wanted:
            return ""
        waits = " Transient VMs are not stopped until a peer takes one." if self.missing else ""
        return (
            f"The record of {self._host} and the definitions of its VMs have {self.written} of"
            f" {wanted} copies. These peers took no copy: {', '.join(self.failed)}.{waits}"
            " Fix them. During the maintenance, the next slice that acts writes the copies again."
        )

    def read(self, record: NodeRecord) -> Found:
        """Read the copies of this maintenance from all peers. A definition counts only if its digest is the one that
        this host wrote into the record. Raises nothing."""
        found = Found({}, [])
        for name, peer in self._peers.items():
            try:
                text = peer.store.read_record(self._volume)
            except (HostUnreachable, StoreError, libvirt.libvirtError) as exc:
                found.unread.append(f"{name} ({exc})")
                continue
            for uuid, xml in _definitions_in(text, record).items():
                entry = record.vms.get(uuid)
                if entry is None or not entry.definition:
                    continue  # this host wrote none down
                if digest_of(xml) == entry.definition:
                    found.definitions[uuid] = xml
                else:
                    found.unread.append(f"{name} (not what {self._host} wrote of {entry.name})")
        return found

    def delete(self) -> None:
        """Remove the copies from all peers that answer. Raises nothing: see `warning`."""
        self.written, self.failed, self.left = 0, [], []
        for name, peer in self._peers.items():
            try:
                peer.store.delete_record(self._volume)
            except HostUnreachable:
                continue  # whether it has one is not known; the next run looks again
            except (StoreError, libvirt.libvirtError) as exc:
                self.left.append(f"{name} ({exc})")


def _definitions_in(text: str | None, record: NodeRecord) -> dict[str, str]:
    """{}: there is no copy, or it is one that an earlier maintenance left behind."""
    try:
        raw = load_json(text or "{}")
        theirs = NodeRecord.from_json(raw["record"])
        found = {str(uuid): str(xml) for uuid, xml in raw["definitions"].items()}
    except (RecordError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    same = theirs.started_wall == record.started_wall and set(theirs.runs) & set(record.runs)
    return found if same else {}
