"""Write down and read back a host's record, and the definitions of its VMs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping

from ..._core.model.record import Ending, NodeRecord, RecordError
from ..domain.untrusted import digest_of, load_json
from ..host.connection import libvirt
from ..observe.host import Host
from ..store.volumes import VolumeTorn
from .copies import Copies

_OVER_THERE = frozenset({Ending.MOVED.value, Ending.COLD_MOVED.value})
_REMEDY = (
    "Until this is fixed no VM is moved or stopped, and the volume and its copies stay as they"
    " are. Let all peers answer and run again. If that does not help, see 'The definitions cannot"
    " be read' in docs/operating.md"
)


class Written:
    """The texts of one record on its host. `prefix`: of one VM's own record."""

    def __init__(self, source: Host, prefix: str = "") -> None:
        self._source = source
        self.prefix = prefix
        self.torn: set[str] = set()  # read as not there; they go when they are written anew

    def read(self, what: str) -> str | None:
        """Read `what` ("record", "definitions"). None: it was never written. Raises RecordError when it is unreadable.

        A first generation that is torn and alone was being written when the run was killed.
        Every act comes after that write, so nothing was done, and there is nothing to know. But
        definitions may stay the first generation: damaged later they look the same.
        """
        store, prefix = self._source.store, self.prefix + what
        try:
            return store.read_record(prefix)
        except VolumeTorn as exc:
            if store.generations(prefix) == [1]:
                self.torn.add(what)
                return None
            text = f"the {what} of {self._source.name} cannot be read: {exc}"
            raise RecordError(text) from exc

    def write(self, what: str, text: str) -> None:
        """Write a new generation. What `read` found torn is deleted first: with a second torn one, none of them could
        be."""
        if what in self.torn:
            self._source.store.delete_record(self.prefix + what)
            self.torn.discard(what)
        self._source.store.write_record(self.prefix + what, text)

    def delete(self, what: str) -> None:
        """Delete all generations of `what`."""
        self._source.store.delete_record(self.prefix + what)
        self.torn.discard(what)


class Definitions:
    """UUID -> definition of the VMs of a record, as the drain found them; of a transient VM as
    it was at its stop."""

    def __init__(self, source: Host, written: Written, copies: Copies) -> None:
        self._source = source
        self._written = written
        self._copies = copies
        self._known: Mapping[str, str] | None = None
        self._copied: Mapping[str, str] | None = None
        self._lost = ""  # why one that may be needed is not known
        self.unread: set[str] = set()  # about to be stopped, and its definition is an old one

    def to_start_from(self, record: NodeRecord) -> Mapping[str, str]:
        """UUID -> the definition from which that VM can be started. One that is only an old one is left out (`unread`).
        Raises RecordError."""
        known = self._read(record)
        return {u: xml for u, xml in known.items() if u not in self.unread}

    def keep(self, record: NodeRecord, going_off: Collection[str] = ()) -> None:
        """Write down the definitions of all VMs of the record, here and on two peers.

        Before the first act: a transient domain has no other, and a host may burn down. What is
        `going_off` and transient is read anew: after a snapshot or a copy of its disks it would
        be started on the wrong files.

        Raises RecordError when one may be lost: then nothing is written over.
        """
        known = dict(self._whole(record))
        self.unread = set()
        for uuid in [u for u in record.vms if u not in known or u in going_off]:
            try:
                dom = self._source.domain(uuid)
                flags = libvirt.VIR_DOMAIN_XML_SECURE
                if not dom.isPersistent():
                    flags |= libvirt.VIR_DOMAIN_XML_MIGRATABLE
                elif uuid not in known:
                    flags |= libvirt.VIR_DOMAIN_XML_INACTIVE
                else:
                    continue
                known[uuid] = dom.XMLDesc(flags)
            except libvirt.libvirtError:
                self.unread.add(uuid)  # not here, or not readable: then Actor does not stop it
        if known == self._copied:
            return
        if known != self._known or "definitions" in self._written.torn:
            self._written.write("definitions", json.dumps(known))
        self._known = known
        self._sign(record)
        self._copies.write(record, known)
        self._copied = None if self._copies.missing else known

    def _sign(self, record: NodeRecord) -> None:
        """Note the digest of each definition in the record, before copies are made: only what matches it
        is taken back from a copy."""
        before = {uuid: entry.definition for uuid, entry in record.vms.items()}
        for uuid, xml in (self._known or {}).items():
            if uuid in record.vms:
                record.vms[uuid].definition = digest_of(xml)
        if before != {uuid: entry.definition for uuid, entry in record.vms.items()}:
            self._written.write("record", record.to_json())

    def renew_copies(self, record: NodeRecord) -> None:
        """Write the copies again, where VMs have ended since they were made: whoever needs one has to know how.
        Raises nothing."""
        try:
            known = self._whole(record)
        except RecordError:
            return  # the copies may have all that is left
        if known:  # else nothing was begun, and there is no copy
            self._copies.write(record, known)

    def forget(self) -> None:
        """Delete the definitions and their copies: the maintenance is over."""
        self._copies.delete()
        self._written.delete("definitions")
        self._copied = self._known = None
        self._lost = ""

    def _whole(self, record: NodeRecord) -> Mapping[str, str]:
        """The definitions that are known. Raises RecordError when one that may be needed is not."""
        known = self._read(record)
        if self._lost:
            raise RecordError(self._lost)
        return known

    def _read(self, record: NodeRecord) -> Mapping[str, str]:
        if self._known is None:
            try:
                text = self._written.read("definitions")
            except RecordError as exc:
                raise RecordError(f"{exc}. {_REMEDY}") from exc
            if text == "":  # they are never written so
                self._written.torn.add("definitions")
            self._known = self._parsed(text) if text else self._from_copies(record)
        return self._known

    def _parsed(self, text: str) -> Mapping[str, str]:
        try:
            found = load_json(text)
            if all(isinstance(xml, str) for xml in found.values()):
                return dict(found)
        except (ValueError, AttributeError):
            pass
        raise RecordError(
            f"the definitions of {self._source.name} cannot be read: volume"
            f" {self._written.prefix}definitions.N in pool virtops was not written by a run."
            f" {_REMEDY}"
        )

    def _from_copies(self, record: NodeRecord) -> Mapping[str, str]:
        """Read from the peers what is damaged or missing here, as far as a VM may have to be started from it.

        Not there, and in no copy of all peers: nothing was done yet, or somebody wants to go on
        without. A peer that does not answer may have the only copy.
        """
        lacks = needed(record, self._is_here)
        if not lacks:
            return {}
        found = self._copies.read(record)
        names = [name for uuid, name in lacks.items() if uuid not in found.definitions]
        damaged = "definitions" in self._written.torn
        if names and (damaged or found.unread):
            what = "damaged" if damaged else "not there"
            unread = f" Not read: {', '.join(found.unread)}." if found.unread else ""
            self._lost = (
                f"the definitions of {self._source.name} cannot be read: volume"
                f" {self._written.prefix}definitions.1 in pool virtops is {what}, and no readable"
                f" copy contains that of {', '.join(names)}.{unread} {_REMEDY}"
            )
        if found.definitions:
            self._written.torn.add("definitions")  # so that they are written here again
        return found.definitions

    def _is_here(self, uuid: str) -> bool:
        try:
            self._source.domain(uuid)
        except libvirt.libvirtError:
            return False
        return True


def needed(record: NodeRecord, is_here: Callable[[str], bool]) -> dict[str, str]:
    """VMs (UUID -> name) whose definition may be nowhere but in what was written down.

    Those are transient. What is here is read again, and what has moved is defined there. All else
    that was to move or to stop may have been stopped by us: then it is started from what was
    written down. A persistent VM is defined on one of the hosts at every moment.
    """
    begun = (e for e in record.vms.values() if not e.persistent and (e.attempts or e.asked_to_stop))
    return {e.uuid: e.name for e in begun if e.ending not in _OVER_THERE and not is_here(e.uuid)}
