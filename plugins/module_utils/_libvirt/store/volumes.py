"""Small volumes in a directory pool of ours: record, reservation and lock of a host.

Whoever may migrate to a host may read and write them, through the same URI and without an
agent. Creating a volume is exclusive (libvirt refuses a second one of that name; one winner
of twelve, tried), so a name is a claim. Names carry the facts: one list call tells them all.

Content is uploaded by stream behind a header of length and SHA-256, so that a volume whose
writer died is not taken for a whole one. A volume made without content is of length 0 and whole.

The header keeps out accidents, not liars: whoever can write a volume can write a header. So a
reader takes no more than a record can have, and what is read says nothing that is carried out
unless this host wrote it down itself (see `definitions`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from html import escape  # xml.sax would bring urllib and http along
from typing import Any, NamedTuple

from ..host.connection import libvirt
from .names import CORDON, OutcomeName, Reservation, Slot, format_name, parse_name, split_generation
from .pool import PAUSE, POOL, POOL_PATH, RETRIES, RecordPool, StoreError

__all__ = [
    "CORDON",
    "Generation",
    "OutcomeName",
    "Reservation",
    "Slot",
    "Store",
    "StoreError",
    "VolumeMissing",
    "VolumeTorn",
    "format_name",
    "parse_name",
]

MAGIC = b"virtops1"
SMALLEST = len(MAGIC) + 3 + 64 + 2  # bytes of a header and one byte of content
HEADER = SMALLEST + 18  # no header is longer
CHUNK = 262000  # a stream message of libvirt carries at most 256 KiB less a header
# What a volume can make a reader do. The records of a host with 2,000 VMs have some 20 MiB.
LARGEST = 64 << 20  # bytes of content
LONGEST = 60.0  # seconds for one volume
NEWEST = 8  # generations that are tried; a writer that dies leaves two
LAST = 10**12  # of the generations: no run comes near it

_VOLUME_XML = (
    "<volume><name>{name}</name><capacity unit='bytes'>{size}</capacity>"
    "<target><format type='raw'/><permissions><mode>0600</mode></permissions></target></volume>"
)


class VolumeMissing(StoreError):
    """There is no volume of that name."""


class VolumeTorn(StoreError):
    """The volume is there, and its content is not whole: its writer died, or still writes.

    begun: it was made for content of ours (a header, or the space for one, is there).
    """

    def __init__(self, text: str, begun: bool = False) -> None:
        super().__init__(text)
        self.begun = begun


class Generation(NamedTuple):
    """One whole generation of a record."""

    number: int
    text: str


def pack(data: bytes) -> bytes:
    """Content with its header line. Nothing stays nothing."""
    if not data:
        return b""
    digest = hashlib.sha256(data).hexdigest()
    return b"%s %d %s\n%s" % (MAGIC, len(data), digest.encode(), data)


def unpack(name: str, raw: bytes) -> bytes:
    """Content without its header line. Raises VolumeTorn."""
    if not raw:
        return b""
    begun = raw.startswith(MAGIC) or (len(raw) >= SMALLEST and not raw.strip(b"\0"))
    found = _header(raw)
    if found is None:
        raise VolumeTorn(f"volume {name}: no header, {len(raw)} bytes", begun)
    start, length, digest = found
    data = raw[start : start + length]
    if len(data) != length or hashlib.sha256(data).hexdigest().encode() != digest:
        raise VolumeTorn(f"volume {name}: the content does not match its header", begun)
    return data


def _header(raw: bytes | bytearray) -> tuple[int, int, bytes] | None:
    """Where the content begins, its length and SHA-256; None: there is no header."""
    head, newline, _body = bytes(raw[:HEADER]).partition(b"\n")
    words = head.split(b" ")
    if not newline or len(words) != 3 or words[0] != MAGIC or not words[1].isdigit():
        return None
    return len(head) + 1, int(words[1]), words[2]


class Store:
    """The volumes of one host. libvirt's errors pass through as they are.

    `conn`, `pool`, `path`, `acts`: of RecordPool. `before_write`: asked each time; it raises to stop it.
    """

    def __init__(
        self,
        conn: Any,
        pool: str = POOL,
        path: str = POOL_PATH,
        sleep: Callable[[float], None] = time.sleep,
        acts: bool = True,
        before_write: Callable[[], None] = lambda: None,
    ) -> None:
        self._before_write = before_write
        self._conn = conn
        self._name = pool
        self._sleep = sleep
        self._pool = RecordPool(conn, pool, path, sleep, acts)

    def ensure(self) -> None:
        """Define, start and autostart the pool where that is missing. Safe against others."""
        self._pool.ensure()

    # Volumes

    def names(self) -> list[str]:
        """All names, sorted."""
        pool = self._pool.found()
        return [] if pool is None else sorted(pool.listVolumes())

    def create(self, name: str, data: bytes = b"") -> bool:
        """Make the volume. False: there is one of that name already.

        An upload that fails takes the volume away again, and the error passes through.
        """
        self._before_write()
        raw = pack(data)
        xml = _VOLUME_XML.format(name=escape(name), size=len(raw))
        try:
            volume = self._pool.made().createXML(xml, 0)
        except libvirt.libvirtError as exc:
            if not _exists(exc):
                raise
            return False
        if raw:
            try:
                self._upload(volume, raw)
            except libvirt.libvirtError:
                self._delete_quietly(volume)
                raise
        return True

    def _upload(self, volume: Any, raw: bytes) -> None:
        stream = self._conn.newStream(0)
        try:
            volume.upload(stream, 0, len(raw), 0)
            at = 0
            while at < len(raw):
                at += stream.send(raw[at : at + CHUNK])
            stream.finish()
        except BaseException:
            _abort_quietly(stream)
            raise

    def read(self, name: str) -> bytes:
        """The content. Raises VolumeMissing, VolumeTorn."""
        stream = self._conn.newStream(0)
        try:
            volume = self.volume(name)
            volume.download(stream, 0, 0, 0)
            raw = _receive(name, stream)
        except libvirt.libvirtError as exc:
            _abort_quietly(stream)
            if name not in self.names():  # deleted under our hands
                raise VolumeMissing(f"no volume {name}") from None
            if exc.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID:
                raise VolumeTorn(f"{name} is still being made") from None
            if "Is a directory" in str(exc):
                raise VolumeTorn(f"{name} is a directory") from None
            raise
        return unpack(name, raw)

    def delete(self, name: str) -> bool:
        """Remove the volume. False: there was none."""
        self._before_write()
        try:
            self.volume(name).delete(0)
        except VolumeMissing:
            return False
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
                raise
            return False
        return True

    def volume(self, name: str) -> Any:
        """The virStorageVol. Raises VolumeMissing."""
        pool = self._pool.found()
        if pool is None:
            raise VolumeMissing(f"no volume {name}")
        try:
            return pool.storageVolLookupByName(name)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
                raise
            raise VolumeMissing(f"no volume {name}") from None

    @staticmethod
    def _delete_quietly(volume: Any) -> None:
        """After an error that is already on its way: what stays is a torn volume, and known."""
        try:
            volume.delete(0)
        except libvirt.libvirtError:
            return

    # Records: generations of a prefix

    def write_record(self, prefix: str, text: str) -> int:
        """Write the next generation, then remove the older ones. The generation written."""
        for _again in range(RETRIES):
            have = self._generations(prefix)
            newest = max(have, default=0)
            if newest >= LAST:
                raise StoreError(f"volume {have[newest]} in pool {self._name} was not created by a run: delete it")
            if self.create(f"{prefix}.{newest + 1}", text.encode()):
                for number in sorted(have):
                    self.delete(have[number])
                return newest + 1
        raise StoreError(
            f"{prefix}.{newest + 1} cannot be created in pool {self._name}: something that libvirt"
            f" does not list has that name in its directory. Remove it there"
        )

    def read_generation(self, prefix: str) -> Generation | None:
        """The newest whole generation; None if there is no generation at all.

        Raises VolumeTorn when there are generations and none is whole.
        """
        for left in reversed(range(RETRIES)):
            have = self._generations(prefix)
            if not have:
                return None
            gone = False
            for number in sorted(have, reverse=True)[:NEWEST]:
                try:
                    return Generation(number, self.read(have[number]).decode())
                except VolumeMissing:
                    gone = True  # a writer went on meanwhile: the list is old
                    break
                except (VolumeTorn, UnicodeDecodeError):
                    continue
            if left:
                self._sleep(0.0 if gone else PAUSE)
        names = ", ".join(name for _number, name in sorted(have.items())[-NEWEST:])
        raise VolumeTorn(f"{prefix}: no generation is whole ({names})")

    def read_record(self, prefix: str) -> str | None:
        """The text of the newest whole generation, None if there is none. Raises VolumeTorn."""
        found = self.read_generation(prefix)
        return None if found is None else found.text

    def generations(self, prefix: str) -> list[int]:
        """The numbers that stand, whole or not."""
        return sorted(self._generations(prefix))

    def delete_record(self, prefix: str) -> bool:
        """Remove all generations, the older ones first. False: there was none."""
        have = self._generations(prefix)
        for number in sorted(have):
            self.delete(have[number])
        return bool(have)

    def _generations(self, prefix: str) -> dict[int, str]:
        found: dict[int, str] = {}
        for name in self.names():
            head, number = split_generation(name)
            if head == prefix and number:
                found[number] = name
        return found


def _exists(exc: Any) -> bool:
    """Refused because of the name: libvirt knows the volume, or the file is there."""
    code = exc.get_error_code()
    if code == libvirt.VIR_ERR_STORAGE_VOL_EXIST:
        return True
    return code == libvirt.VIR_ERR_SYSTEM_ERROR and "File exists" in str(exc)


def _receive(name: str, stream: Any) -> bytes:
    """Download a volume up to the end of the content that its header promises.

    Raises VolumeTorn when that is more than a run writes, or does not come. A volume without a header
    is not ours: of that the first part will do.
    """
    raw, end = bytearray(), time.monotonic() + LONGEST
    wanted = HEADER
    while len(raw) < wanted:
        part = stream.recv(CHUNK)
        if not part:
            stream.finish()
            return bytes(raw)
        raw += part
        found = _header(raw)
        wanted = HEADER if found is None else found[0] + found[1]
        if wanted > LARGEST or time.monotonic() > end:
            _abort_quietly(stream)
            raise VolumeTorn(f"volume {name}: larger than anything a run writes, or it does not end")
    _abort_quietly(stream)  # behind it there is nothing that counts
    return bytes(raw)


def _abort_quietly(stream: Any) -> None:
    try:
        stream.abort()
    except libvirt.libvirtError:
        return
