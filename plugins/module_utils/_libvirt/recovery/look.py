"""Look at a host from a peer: does its kernel answer, its libvirtd, and do its guests show signs of life?"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

from ..._core.recovery.looks import View
from ..host.connection import HostUnreachable, LibvirtProblem, libvirt, open_connection
from ..observe.patience import Threads
from . import arp

# Seconds. A host that is there answers in milliseconds; where a packet was lost the kernel asks again after 1 s.
_CONNECT = 2.0
_LIBVIRT = 10.0
# Between two looks at a guest's files: caches of shared file systems hold times for some seconds (NFS: acregmin 3 s).
_GROWS_IN = 4.0
_PORTS = {"tls": 16514, "tcp": 16509, "ssh": 22}


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class CouldNotLook(LibvirtProblem):
    """Whether a host answers could not be tried: no address, no route, a firewall of the peer that looks."""

    def __init__(self, address: str, why: object, hint: str = "") -> None:
        super().__init__(f"it cannot be seen from here whether {address} answers: {why}{hint}")


def answers(uri: str, patience: float = _CONNECT) -> tuple[bool, str]:
    """(does the kernel of the host in this URI answer, what came of it). A refusal is an answer, too. Raises
    CouldNotLook."""
    parts = urlsplit(uri)
    address, port = parts.hostname, parts.port or _PORTS.get(parts.scheme.partition("+")[2] or "tls", 16514)
    if not address:
        raise CouldNotLook("the host", f"{uri} names no host")
    with ThreadPoolExecutor(2) as pool:
        tried = [pool.submit(_port, address, one, patience) for one in dict.fromkeys((port, _PORTS["ssh"]))]
    for one in tried:
        if one.exception() is None and one.result()[0]:
            return one.result()
    return tried[0].result()


def _port(address: str, port: int, patience: float) -> tuple[bool, str]:
    """(does a kernel answer on that port of one of the addresses, what came of it). Raises CouldNotLook where this
    host could try none of them."""
    silent, own = "", OSError("it has no address")
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as exc:
        hint = ". Name it in /etc/hosts here, or by its address in maintenance_peer_uri"
        raise CouldNotLook(address, getattr(exc, "strerror", None) or exc, hint) from exc
    for family, kind, _protocol, _name, where in found:
        try:
            with socket.socket(family, kind) as one:
                one.settimeout(patience)
                one.connect(where)
            return True, f"port {port} answers"
        except ConnectionError:
            return True, f"port {port} refuses"
        except OSError as exc:
            if _is_silence(exc, family, where):
                silent = silent or f"port {port}: {exc.strerror or exc}"
            else:
                own = exc
    if not silent:
        raise CouldNotLook(address, own.strerror or own)
    return False, silent


def _is_silence(exc: OSError, family: int, where: Any) -> bool:
    """Does this error tell of the other host, or of the network between, and not of this host: of its sockets, its
    firewall, its routes? "No route to host" may be either; a connect by UDP looks for a route, and sends nothing."""
    if isinstance(exc, TimeoutError):
        return True
    if exc.errno not in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return False
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect(where)
    except OSError:
        return False
    return True


def serves(uri: str, patience: float) -> tuple[bool, str]:
    """(does the libvirtd of the host in this URI answer, what came of it). Raises CouldNotLook."""
    try:
        conn = open_connection(uri, timeout=patience)
    except HostUnreachable as exc:
        answers(uri, min(patience, _CONNECT))  # can this host look at all?
        return False, f"libvirt: {exc.text}"
    with suppress(libvirt.libvirtError):
        conn.close()
    return True, "libvirt answers"


@dataclass(frozen=True)
class Guests:
    """The guests to look for, by name: their files on shared storage, and their (bridge, MAC). `addresses`: by MAC."""

    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nics: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict)


def look(by: str, uri: str, guests: Guests) -> View:
    """Look at the host in this URI: its kernel, its libvirtd, and, where the kernel is silent, its guests. `by`: the
    name of the host that looks. Storage that hangs is waited for at most _GROWS_IN + _LIBVIRT seconds."""
    at, looked = now(), True
    try:
        alive, text = answers(uri)
    except CouldNotLook as exc:
        alive, text, looked = False, str(exc), False
    connected, said = serves(uri, _LIBVIRT) if alive else (False, "")
    text = f"{text}, {said}" if said else text
    signs, silent = ((), "") if alive else _signs(guests)
    return View(by, at, alive, connected, signs, f"{text}{silent}", looked)


def _signs(guests: Guests) -> tuple[tuple[str, ...], str]:
    """(a text for each sign of life, what could not be watched). In threads: a share whose server is gone may hold who
    asks it for ever."""
    threads = Threads(2)
    disks = threads.submit(lambda: _growing(guests.files))
    spoken = threads.submit(lambda: arp.heard(guests.nics, guests.addresses, _GROWS_IN))
    try:
        late = not disks.wait(_GROWS_IN + _LIBVIRT)
        heard = spoken.result if spoken.wait(_GROWS_IN) else None
        signs = (*(disks.result or ()), *(heard or ()))
        if late:
            return signs, ", but the storage of its guests does not answer"
        if disks.result is None and heard is None:
            return signs, ", and no disk or bridge of its guests can be watched from here" if guests.files else ""
        return signs, ""
    finally:
        threads.close()


def _growing(files: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """Guests whose files are written to, though nobody here has them open. None: there is no file to look at."""
    before = {guest: _stamps(paths) for guest, paths in files.items()}
    if not any(before.values()):
        return None
    time.sleep(_GROWS_IN)
    return tuple(
        f"{guest} (its disk is written to)" for guest, stamps in before.items() if stamps != _stamps(files[guest])
    )


def _stamps(paths: Sequence[str]) -> list[tuple[int, int]]:
    found = []
    for path in paths:
        try:
            known = os.stat(path)
        except OSError:
            continue
        found.append((known.st_mtime_ns, known.st_size))
    return found
