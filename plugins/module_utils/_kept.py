"""Bytecode of a module's payload, kept on the host until it reboots. To be imported before all else of ours.

Ansible sends a zip with each call, and Python keeps no bytecode of one: most of the processor time of a call went into
inflating and compiling. The first call compiles our part into a file of its own, named by what it was made of and by
what it holds; later calls import from there. A file that is of another version, incomplete or was touched does not
have its name, and is not run. What cannot be kept (a read-only or full disk, no home) is compiled as before.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import marshal
import os
import stat
import sys
import time
import zipfile
from contextlib import suppress

_OURS = "ansible_collections/virtops/maintenance/plugins/module_utils"
_FOLDER = "virtops-maintenance"
_UNUSED_FOR = 24 * 3600.0  # seconds, after which a file of another version goes
_SEEN = 3600.0  # seconds after which it is marked as used again


class Unkept(Exception):
    """Why no bytecode is kept."""


def use(archive: str, params: bytes) -> str:
    """Import from the file that is kept, which is made if need be. `archive`: the payload; `params`: of the call.

    Returns the file, or in words why there is none.
    """
    try:
        folder = _folder(_base(params))
        names, key = _sources(archive)
        path = _kept(folder, key) or _make(folder, archive, names, key)
    except (Unkept, OSError, ValueError, SyntaxError, zipfile.BadZipFile) as exc:
        return f"no bytecode is kept: {exc}"
    package = sys.modules[_OURS.replace("/", ".")]
    package.__path__.insert(0, os.path.join(path, _OURS))
    return path


def _base(params: bytes) -> str:
    """Where a host keeps what lasts until it reboots: /run for root, else the user's own directory for modules."""
    if os.geteuid() == 0:
        return "/run"
    given = json.loads(params).get("ANSIBLE_MODULE_ARGS", {}).get("_ansible_remote_tmp") or "~/.ansible/tmp"
    return os.path.expanduser(str(given))


def _folder(base: str) -> str:
    """Ours there, and nobody else's. Raises Unkept, OSError."""
    above = os.stat(base)
    if above.st_uid not in (0, os.geteuid()) or above.st_mode & 0o022:
        raise Unkept(f"others may write in {base}")
    path = os.path.join(base, _FOLDER)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise Unkept(f"{path} is not a directory of this user alone")
    return path


def _sources(archive: str) -> tuple[list[str], str]:
    """(names of our files in the payload, a hash of their names, checksums and sizes, and of this Python)."""
    with zipfile.ZipFile(archive) as payload:
        ours = sorted((i.filename, i.CRC, i.file_size) for i in payload.infolist() if i.filename.startswith(_OURS))
    python = (sys.implementation.cache_tag, sys.version, sys.flags.optimize)
    return [name for name, _crc, _size in ours], hashlib.sha256(repr((ours, python)).encode()).hexdigest()[:32]


def _kept(folder: str, key: str) -> str:
    """The whole file of this name that lies there; '': none."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(f"{key}.") and name == _named(key, _read(path)):
            if time.time() - os.stat(path).st_mtime > _SEEN:
                os.utime(path)
            return path
    return ""


def _read(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
        return stream.read()


def _named(key: str, content: bytes) -> str:
    return f"{key}.{hashlib.sha256(content).hexdigest()}.zip"


def _make(folder: str, archive: str, names: list[str], key: str) -> str:
    """Compile all of it, and put it there in one step. What is of no use any more goes."""
    content = _compiled(archive, names)
    path = os.path.join(folder, _named(key, content))
    new = os.path.join(folder, f".new.{os.getpid()}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:
            stream.write(content)
        os.rename(new, path)
    except OSError:
        _remove(new)
        raise
    for name in os.listdir(folder):
        other = os.path.join(folder, name)
        # A whole one may be another call's, which still imports from it: two that compile at once make two.
        broken = name.startswith(f"{key}.") and name != _named(key, _read(other))
        if other != path and (broken or time.time() - os.lstat(other).st_mtime > _UNUSED_FOR):
            _remove(other)
    return path


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _compiled(archive: str, names: list[str]) -> bytes:
    """A zip with bytecode that Python does not compare with a source, and the sources, for tracebacks."""
    made = io.BytesIO()
    with zipfile.ZipFile(archive) as payload, zipfile.ZipFile(made, "w") as kept:
        for name in names:
            source = payload.read(name)
            code = compile(source, name, "exec", dont_inherit=True)
            header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
            # /run is memory.
            for entry, content in ((f"{name}c", header + marshal.dumps(code)), (name, source)):
                kept.writestr(zipfile.ZipInfo(entry), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _begin() -> str:
    archive = getattr(globals().get("__loader__"), "archive", "")  # of a zip alone
    basic = sys.modules.get("ansible.module_utils.basic")
    params = getattr(basic, "_ANSIBLE_ARGS", None)
    return use(archive, params) if archive and params else "no payload"


STATE = _begin()
