"""Connections to libvirt that answer or fail, and never hang for ever.

`libvirt` is the binding, or a stand-in that raises LibvirtMissing when it is used, so that
this module and the pure parts beside it import on machines that do not have it.
"""

from __future__ import annotations

import errno
import importlib
import locale
import os
import threading
from collections.abc import Callable
from typing import Any

# Numbers of virErrorNumber, libvirt's include/libvirt/virterror.h (stable API).
ERR_INTERNAL = 1
ERR_NO_SUPPORT = 3
ERR_UNKNOWN_HOST = 4
ERR_NO_CONNECT = 5
ERR_INVALID_CONN = 6
ERR_SYSTEM = 38
ERR_RPC = 39
ERR_GNUTLS = 40
ERR_AUTH_FAILED = 45
ERR_CONFIG_UNSUPPORTED = 67
ERR_AUTH_CANCELLED = 79
ERR_SSH = 85
ERR_AUTH_UNAVAILABLE = 94
ERR_NO_SERVER = 95
FROM_RPC = 7  # of virErrorDomain, in the same file

_LOST = frozenset(
    {ERR_UNKNOWN_HOST, ERR_NO_CONNECT, ERR_INVALID_CONN, ERR_RPC, ERR_GNUTLS, ERR_AUTH_FAILED}
    | {ERR_AUTH_CANCELLED, ERR_SSH, ERR_AUTH_UNAVAILABLE, ERR_NO_SERVER}
)
# libvirt reports a connection that ended under a call as an internal or a system error.
_LOST_TEXTS = (
    "client socket is closed",
    "connection closed due to keepalive timeout",
    "keepalive timeout",
    "end of file while reading data",
    "cannot write data",
    "cannot recv data",
    "cannot read from",
    "broken pipe",
    "connection reset by peer",
)

# First match wins: (words in libvirt's text, what to do).
_HINTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("name or service not known", "temporary failure in name resolution", "could not resolve"),
        "The host's name does not resolve here: check the name, DNS or /etc/hosts.",
    ),
    (
        ("host key verification failed",),
        "The ssh host key is not known: add it to known_hosts of the user who connects.",
    ),
    (
        ("permission denied (publickey", "permission denied, please try again"),
        "ssh refused the login: the user who connects needs a key that the host accepts.",
    ),
    (
        ("certificate", "gnutls", "tls handshake", "x509", "/etc/pki"),
        "TLS: check that both hosts have a certificate of the same CA (/etc/pki/CA/cacert.pem,"
        " /etc/pki/libvirt), valid now, with the host's name as in the URI.",
    ),
    (
        ("unexpected qemu uri path", "no connection driver available for"),
        "Is the URI right? It is qemu:///system for a host itself (maintenance_uri), and for others a form of"
        " qemu+tls://HOST/system or qemu+ssh://HOST/system (maintenance_peer_uri).",
    ),
    (
        ("connection refused",),
        "Nothing listens there: is libvirtd (virtproxyd-tls.socket for qemu+tls, port 16514;"
        " sshd for qemu+ssh) running, and the port open?",
    ),
    (
        ("no route to host", "network is unreachable", "timed out", "did not answer"),
        "The host does not answer: is it on, is the network between the hosts up, does a firewall drop the packets?",
    ),
    (("no such file or directory",), "libvirt's socket is not there: is libvirtd (or virtqemud) running on the host?"),
    (
        ("permission denied", "access denied", "authentication", "polkit", "authorization"),
        "The user may not manage libvirt: use root, or the group libvirt (docs/security.md).",
    ),
    (
        ("storage pool 'virtops' is not active",),
        "The storage pool that holds the records was stopped: virsh pool-start virtops on that host, then run again.",
    ),
    (
        ("keepalive", "socket is closed", "end of file", "broken pipe", "reset by peer"),
        "The connection broke: did the host go down, or was libvirtd restarted?",
    ),
)


class LibvirtProblem(Exception):
    """Base of what this module raises."""


class LibvirtMissing(LibvirtProblem):
    """Python's libvirt binding is not installed for this interpreter."""

    def __init__(self, cause: str = "") -> None:
        text = (
            "Python's libvirt binding is missing: install python3-libvirt (Debian, Fedora, RHEL)"
            " or libvirt-python (PyPI) for the interpreter that Ansible uses on this host"
        )
        super().__init__(f"{text} ({cause})" if cause else text)


class HostUnreachable(LibvirtProblem):
    """A host's libvirt cannot be reached, or the connection to it broke."""

    def __init__(self, uri: str, text: str, hint: str = "") -> None:
        self.why = f"{text}. {hint}" if hint else text
        super().__init__(f"{uri}: {self.why}")
        self.uri = uri
        self.text = text
        self.hint = hint


class _Missing:
    """Stands for the binding where there is none: every use raises LibvirtMissing."""

    def __init__(self, cause: str) -> None:
        self._cause = cause

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise LibvirtMissing(self._cause)


def _load() -> Any:
    try:
        return importlib.import_module("libvirt")
    except ImportError as exc:
        return _Missing(str(exc))


libvirt: Any = _load()


class _EventLoop:
    """libvirt's default event loop in a daemon thread. One a process; it is never stopped.

    libvirt sends and expects keepalives only while an event loop runs, and the loop must be
    registered before the first connection is opened (virEventRegisterDefaultImpl). A fork
    does not take the thread along: a process that shall use libvirt must be started, not
    forked from one that did.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0

    def start(self) -> None:
        """Start it unless it runs in this process."""
        with self._lock:
            if self._pid == os.getpid():
                return
            # Else libvirt prints every error on stderr, also those that are caught.
            libvirt.registerErrorHandler(_ignore, None)
            # What libvirt and the system say is compared with words; Ansible's modules take the session's language.
            locale.setlocale(locale.LC_MESSAGES, "C")
            libvirt.virEventRegisterDefaultImpl()
            threading.Thread(target=self._run, name="libvirt-events", daemon=True).start()
            self._pid = os.getpid()

    @staticmethod
    def _run() -> None:
        while True:
            try:
                libvirt.virEventRunDefaultImpl()
            except libvirt.libvirtError:
                continue


_LOOP = _EventLoop()


def _ignore(_context: object, _error: object) -> None:
    return None


# A libvirtd that has no processor for 20 s (5 * 4) is not dead. 35 s is still far from TCP's
# quarter of an hour, and less than a drain waits for a host in vain.
KEEPALIVE = (5, 6)


def open_connection(
    uri: str, read_only: bool = False, keepalive: tuple[int, int] = KEEPALIVE, timeout: float = 20.0
) -> Any:
    """Open a libvirt connection (a libvirt.virConnect).

    `keepalive`: (interval in s, count). When a peer's cable is pulled, a call in flight fails
    after about interval * (count + 1) seconds instead of waiting for TCP, which is for ever.
    `timeout`: s for connecting, logging in and the handshake, which libvirt does not limit.

    Raises LibvirtMissing, or HostUnreachable with a hint at the cause.
    """
    _LOOP.start()
    connection = _in_time(uri, lambda: _open(_without_prompt(uri), read_only), timeout)
    try:
        connection.setKeepAlive(*keepalive)
    except libvirt.libvirtError as exc:
        # The test driver and local drivers in this process have no socket to keep alive.
        if exc.get_error_code() != ERR_NO_SUPPORT:
            raise translate(exc, uri) from exc
    return connection


def _open(uri: str, read_only: bool) -> Any:
    return libvirt.openReadOnly(uri) if read_only else libvirt.open(uri)


def _without_prompt(uri: str) -> str:
    """qemu+ssh asks for passwords on a terminal; no_tty=1 makes it fail instead."""
    scheme = uri.split("://", 1)[0]
    if "+ssh" not in scheme or "no_tty=" in uri:
        return uri
    return uri + ("&" if "?" in uri else "?") + "no_tty=1"


def _in_time(uri: str, opener: Callable[[], Any], timeout: float) -> Any:
    """The opener's result. It runs in a thread, since nothing can interrupt libvirt's connect."""
    lock = threading.Lock()
    result: list[Any] = []
    failed: list[Exception] = []
    given_up: list[bool] = []

    def work() -> None:
        try:
            connection = opener()
        except Exception as exc:  # noqa: BLE001 - handed to the caller
            failed.append(exc)
            return
        with lock:
            if not given_up:
                result.append(connection)
                return
        connection.close()  # too late: nobody waits for it

    thread = threading.Thread(target=work, name="libvirt-open", daemon=True)
    thread.start()
    thread.join(timeout)
    with lock:
        if result:
            return result[0]
        given_up.append(True)
    if failed:
        error = failed[0]
        raise error if isinstance(error, LibvirtProblem) else translate(error, uri) from error
    text = f"did not answer within {timeout:g} s"
    raise HostUnreachable(uri, text, hint_for(text))


def translate(exc: Exception, uri: str) -> HostUnreachable:
    """A failure to connect, or of a connection that broke, as HostUnreachable with a hint."""
    text = " ".join(str(exc).split())
    return HostUnreachable(uri, text, hint_for(text))


def is_lost(exc: Exception) -> bool:
    """Does this libvirtError mean that the connection is gone (not that the call was refused)?"""
    code = exc.get_error_code() if hasattr(exc, "get_error_code") else None
    if code in _LOST:
        return True
    text = str(exc).lower()
    return code in (ERR_INTERNAL, ERR_SYSTEM, None) and any(word in text for word in _LOST_TEXTS)


def with_hint(exc: Exception) -> str:
    """The text of a libvirtError, and what to do about it where libvirt could not connect to another host.

    "unable to connect to server at ..." and its kin are system errors in 9.0 and 11.3; only the domain of the error
    tells them from those of a file.
    """
    text = " ".join(str(exc).split())
    domain = exc.get_error_domain() if hasattr(exc, "get_error_domain") else None
    hint = hint_for(text) if domain == FROM_RPC else ""
    return f"{text}. {hint}" if hint else text


def keep_state(ran_elsewhere: bool = False) -> int:
    """Flags for undefining: the definition alone. NVRAM and TPM state are on storage that both hosts
    share, or are the only copy: never ours to remove. Without the first flag libvirt refuses. `ran_elsewhere`: it
    has run on another host since, so a state that was saved here is older than its disks, and goes."""
    keep_tpm = getattr(libvirt, "VIR_DOMAIN_UNDEFINE_KEEP_TPM", 0)  # since libvirt 8.9
    older = libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE if ran_elsewhere else 0
    return int(libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | keep_tpm | older)


def is_full(exc: Exception) -> bool:
    """Does this error mean that a file system has no space, no inodes or no quota left?"""
    return any(os.strerror(number) in str(exc) for number in (errno.ENOSPC, errno.EDQUOT))


def hint_for(text: str) -> str:
    """Return what to do about a connection error with this text; empty: not known."""
    lower = text.lower()
    for words, hint in _HINTS:
        if any(word in lower for word in words):
            return hint
    return ""
