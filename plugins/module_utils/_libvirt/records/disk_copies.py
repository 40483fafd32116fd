"""Complete what migrations that copy disks left undone, since their holder died or a host was not there.

Done at any look of a drain or restore. Nothing waits for it: what fails is done at the next one.
Only what was read counts, and nothing of a VM that the holder still works on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..._core.model.observation import State
from ..holder.disks import TargetVolumes
from ..host.connection import HostUnreachable, libvirt
from ..observe.host import Host, HostNow
from ..store import copied_disks
from ..store.names import MadeName, parse_name
from ..store.volumes import StoreError

_RUNS = frozenset({State.RUNNING, State.PAUSED})
_MAY_BE_NEWER = (
    "{name} is defined and off, as it is on {source}, and its disk was being copied there. If it ran there last, that"
    " copy is the newer one: compare the two before you start it, then undefine it on the other host."
)


class DiskCopies:
    """Completes what migrations from the drained host that copied disks left undone, on it and on its peers."""

    def __init__(self, source: Host, peers: Mapping[str, Host]) -> None:
        self._source = source
        self._peers = peers
        self._done: set[tuple[str, str]] = set()  # host and name of the note
        self._left: dict[tuple[str, str], list[str]] = {}

    @property
    def warnings(self) -> list[str]:
        """Half copies on peers that somebody has to look at."""
        return [f"On {name}: {text}" for (name, _note), texts in sorted(self._left.items()) for text in texts]

    def check(self, reads: Mapping[str, HostNow], held: Collection[str]) -> None:
        """Go through the notes of copied disks on all hosts. `held`: UUIDs of VMs that the holder works on."""
        mine = reads[self._source.name]
        if mine.error:
            return
        for read in reads.values():
            for note, uuid in _notes(read):
                if uuid in held or uuid in mine.unread or (read is mine and uuid in mine.domains):
                    self._done.discard((read.name, note))
                    continue
                if (read.name, note) in self._done:
                    continue
                try:
                    done = self._stamp(uuid, reads) if read is mine else self._clear(uuid, reads, read, note)
                except (HostUnreachable, StoreError, libvirt.libvirtError):
                    continue
                if done:
                    self._done.add((read.name, note))

    def _stamp(self, uuid: str, reads: Mapping[str, HostNow]) -> bool:
        """Note the ctimes of the files that a migrated VM left behind here. False: it is not seen to run elsewhere."""
        mine = reads[self._source.name]
        others = [read for read in reads.values() if read is not mine and not read.error]
        found = [read.domains[uuid].state for read in others if uuid in read.domains]
        if not _RUNS.intersection(found):
            return False
        copied_disks.stamp_copies_left(self._source.conn, uuid)
        return True

    def _clear(self, uuid: str, reads: Mapping[str, HostNow], there: HostNow, note: str) -> bool:
        """Remove half copies on a peer, made for a VM that stayed here. False: it is too early to tell.

        Of one that runs there they are no half copies any more. One that is off here may run
        elsewhere, and be on its way from there.
        """
        peer, here = self._peers[there.name], reads[self._source.name].domains.get(uuid)
        arrived = there.domains.get(uuid)
        if here is None:
            if arrived is None or arrived.state not in _RUNS or arrived.job is not None:
                return False
            TargetVolumes(peer.conn, uuid, peer.store).finish()
            return True
        self._left.pop((there.name, note), None)
        if arrived is not None and not arrived.active and not here.active:
            if any(map(copied_disks.is_half, copied_disks.read(peer.store, uuid).values())):
                self._left[there.name, note] = [_MAY_BE_NEWER.format(name=here.name, source=self._source.name)]
            return False
        others = [read for read in reads.values() if read.name != self._source.name]
        elsewhere = any(read.error or uuid in read.domains for read in others)
        if arrived is not None or (elsewhere and not here.active) or (here.job is not None and here.job.outgoing):
            return False
        self._left[there.name, note] = TargetVolumes(peer.conn, uuid, peer.store).remove_unfinished()
        return True


def _notes(read: HostNow) -> Iterator[tuple[str, str]]:
    """The notes of copied disks in the host's store: name, and whose."""
    for name in () if read.error else read.names:
        parsed = parse_name(name)
        if isinstance(parsed, MadeName):
            yield name, parsed.vm
