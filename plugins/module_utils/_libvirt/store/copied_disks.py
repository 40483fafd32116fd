"""Notes in a host's store on the files of a VM's copied disks: which of them may be replaced.

It is a record (made.<vm>.<generation>), so that it survives a writer that is killed half-way.
A path says little: a file may have been deleted since, and another VM's disk made there. So
of each path one of these is noted:

- the ctime of its file (ns). The file may be replaced while that is the same.
- a mark that its file got, an extended attribute, when its VM began to move away. Until the VM
  has left, the file changes; then the ctime is noted, and until then it is not replaced. Device
  and inode would not do: a file made anew gets the number of the one that was deleted.
- that a file is about to be made there. One that was made just then, is as large as it was to
  be and has nothing in it, is that file.
- that a copy into it has begun, its mtime before that and its size. While the copy goes on the
  record is written again and again, so its newest generation tells, by this host's own clock, until
  when. A file of that size whose content was last changed in between is that half copy. Not its
  ctime: libvirtd gives the file back to its owner when it ends what was arriving, hours later too.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from ..domain.untrusted import load_json, parse_xml
from .volumes import Store, VolumeTorn

NEW = "new"
EMPTY = 1 << 20  # bytes: an image with nothing in it has its own tables (qcow2: 192 KiB)
AT_ONCE = 60 * 10**9  # ns: a file is made right after it was noted
HALF = "half"
SIGN_EVERY = 5.0  # seconds between two signs that a copy goes on
LAST_WRITE = 15 * 10**9  # ns: after the last sign the copy ends with the connection, or the host
ATTRIBUTE = "trusted.virtops.left"  # only root may set it, as those of libvirt itself

Notes = dict[str, Optional[Union[int, str]]]  # path -> ctime, "mark <token>", NEW, "half <mtime> <size>"; None: no idea


def prefix_of(uuid: str) -> str:
    """The prefix of the record's volumes, which a generation follows."""
    return f"made.{uuid}"


def write(store: Store, uuid: str, notes: Mapping[str, int | str | None]) -> None:
    if notes:
        store.write_record(prefix_of(uuid), json.dumps(notes))
    else:
        forget(store, uuid)


def read(store: Store, uuid: str) -> Notes:
    """Nothing, if the first one was being written when its writer died: nothing followed it.

    Nor if it is not what a run writes: then nothing is replaced.
    """
    try:
        text = store.read_record(prefix_of(uuid))
        notes = {} if text is None else load_json(text)
    except (VolumeTorn, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def forget(store: Store, uuid: str) -> None:
    """Nothing that stands there is to be replaced any more."""
    store.delete_record(prefix_of(uuid))


def stamp_of(volume: Any, which: str = "ctime") -> int | None:
    """The ctime (or mtime) of the volume's file in ns. libvirt reads it afresh for each XMLDesc."""
    text = parse_xml(volume.XMLDesc(0)).findtext(f"target/timestamps/{which}") or ""
    seconds, _dot, rest = text.partition(".")
    if not seconds.isdigit() or (rest and not rest.isdigit()):
        return None
    return int(seconds) * 10**9 + int(rest.ljust(9, "0")[:9])


def just_made(store: Store, uuid: str, volume: Any, capacity: int) -> bool:
    """Is that the file that was about to be made? `capacity`: in bytes, as it was to be."""
    found, made = store.read_generation(prefix_of(uuid)), stamp_of(volume)
    if found is None or made is None or capacity <= EMPTY:
        return False
    # Not of a newer generation, whose writer was killed: that one came after the file.
    since = stamp_of(store.volume(f"{prefix_of(uuid)}.{found.number}"))
    if since is None or not since <= made <= since + AT_ONCE:
        return False
    _kind, has, filled = volume.info()
    return bool(has == capacity and filled <= EMPTY)


def half_copy(volume: Any) -> str:
    """The note on a file that was just made, before anything is copied into it: its mtime and its capacity."""
    since = stamp_of(volume, "mtime")
    return f"{HALF} {'unknown' if since is None else since} {volume.info()[1]}"


def is_half(value: object) -> bool:
    return isinstance(value, str) and value.startswith(f"{HALF} ")


def goes_on(store: Store, uuid: str) -> None:
    """A sign that the copy goes on. Nothing, if it is over."""
    notes = read(store, uuid)
    if any(map(is_half, notes.values())):
        write(store, uuid, notes)


def is_unfinished(store: Store, uuid: str, volume: Any, value: object) -> bool:
    """Is that the file that a copy was begun into, and has nobody written to it since?"""
    found, changed = store.read_generation(prefix_of(uuid)), stamp_of(volume, "mtime")
    words = str(value).split()[1:]
    if found is None or changed is None or len(words) != 2 or not all(map(str.isdigit, words)):
        return False
    since, size = map(int, words)
    until = stamp_of(store.volume(f"{prefix_of(uuid)}.{found.number}"))
    if until is None or not since <= changed <= until + LAST_WRITE:
        return False
    return bool(volume.info()[1] == size)


# On the source, where the module and the holder run


def note_copies_left(conn: Any, uuid: str, paths: Iterable[str]) -> None:
    """Before a move away: which files will stay here. They still change, so not their ctime."""
    write(Store(conn), uuid, {path: _mark(path) for path in paths})


def stamp_copies_left(conn: Any, uuid: str, watched: bool = False) -> None:
    """The VM has moved away: from now on nobody changes the files that stay here.

    They may be replaced at its return, as long as nobody has. A file that is another one by now
    is not noted any more. `watched`: it has moved just now, so even a file that could not be
    marked is that one.
    """
    store = Store(conn)
    notes = read(store, uuid)
    stamped: Notes = {}
    for path, value in notes.items():
        waits = (value is None and watched) or (isinstance(value, str) and value.startswith("mark "))
        seen = _read_mark(path) if waits else None
        if seen is None:  # as it is; or no file to be seen there: its storage may be mounted later
            stamped[path] = value
        elif value in (None, seen[0]):
            stamped[path] = seen[1]
    if stamped != notes:
        write(store, uuid, stamped)


def _mark(path: str) -> str | None:
    """Mark the file, and report how. None: it cannot be marked."""
    token = secrets.token_hex(8)
    try:
        os.setxattr(path, ATTRIBUTE, token.encode())
    except OSError:
        return None
    return f"mark {token}"


def _read_mark(path: str) -> tuple[str, int] | None:
    """The file's mark, empty without one, and its ctime (ns). None: no file can be read there."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        changed = os.fstat(file).st_ctime_ns
        try:
            return f"mark {os.getxattr(file, ATTRIBUTE).decode()}", changed
        except (OSError, ValueError):
            return "", changed
    finally:
        os.close(file)
