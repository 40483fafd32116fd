"""Connections: errors that tell what to do, and none that waits for ever."""

from __future__ import annotations

import locale
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import connection
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import (
    HostUnreachable,
    LibvirtMissing,
    hint_for,
    is_lost,
    open_connection,
    with_hint,
)


class FakeError(Exception):
    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    def get_error_code(self) -> int:
        return self.code


class FakeConnection:
    def __init__(self) -> None:
        self.keepalive: tuple[int, int] | None = None
        self.closed = threading.Event()

    def setKeepAlive(self, interval: int, count: int) -> int:  # noqa: N802 - libvirt's name
        self.keepalive = (interval, count)
        return 0

    def close(self) -> None:
        self.closed.set()


class Binding:
    """Stands for libvirt. `opened` is called with the URI."""

    libvirtError = FakeError  # noqa: N815 - its name in libvirt

    def __init__(self, opened: Any) -> None:
        self.open = opened
        self.openReadOnly = lambda uri: ("read only", uri)


@pytest.fixture
def bind(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(connection, "_LOOP", SimpleNamespace(start=lambda: None))

    def use(opened: Any) -> None:
        monkeypatch.setattr(connection, "libvirt", Binding(opened))

    return use


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Unable to resolve address 'x': Name or service not known", "does not resolve"),
        ("unable to connect to server at 'b:16514': Connection refused", "virtproxyd-tls"),
        ("unable to connect to server at 'b:16514': No route to host", "does not answer"),
        ("did not answer within 20 s", "does not answer"),
        ("Unable to verify TLS peer: certificate has expired", "certificate of the same CA"),
        ("authentication failed: TLS handshake failed", "certificate of the same CA"),
        ("Cannot recv data: Host key verification failed.: Connection reset", "known_hosts"),
        ("Cannot recv data: root@b: Permission denied (publickey).", "needs a key"),
        ("Failed to connect socket to '/run/x': No such file or directory", "libvirtd"),
        ("Failed to connect socket to '/run/x': Permission denied", "group libvirt"),
        ("authentication unavailable: no polkit agent available", "group libvirt"),
        ("internal error: client socket is closed", "connection broke"),
        ("internal error: unexpected QEMU URI path '/sytem', try qemu:///system", "maintenance_uri"),
        ("no connection driver available for qmeu:///system", "maintenance_uri"),
        ("something nobody has seen", ""),
    ],
)
def test_hints(text: str, words: str) -> None:
    hint = hint_for(text)
    assert words in hint
    assert bool(hint) == bool(words)


@pytest.mark.parametrize(
    ("text", "code", "lost"),
    [
        ("Cannot write data: Broken pipe", 38, True),
        ("internal error: client socket is closed", 1, True),
        ("internal error: connection closed due to keepalive timeout", 1, True),
        ("internal error: unable to execute QEMU command", 1, False),
        ("cannot open file: No space left on device", 38, False),
        ("invalid connection pointer", 6, True),
        ("Domain not found", 42, False),
        ("end of file while reading data", 42, False),  # a name may say anything
    ],
)
def test_which_errors_mean_that_it_is_lost(text: str, code: int, lost: bool) -> None:
    assert is_lost(FakeError(text, code)) is lost


@pytest.mark.parametrize(
    ("text", "domain", "words"),
    [
        # Seen on libvirt 9.0 and 11.3, of a migration whose target was off.
        ("unable to connect to server at 'host-b:16514': No route to host", 7, "does not answer"),
        ("Unable to resolve address 'host-b' service '49152': Temporary failure in name resolution", 7, "DNS"),
        ("cannot open file '/srv/vm.img': Permission denied", 0, ""),
    ],
)
def test_a_migration_that_found_no_target_says_what_to_look_at(text: str, domain: int, words: str) -> None:
    error = FakeError(text, 38)
    error.get_error_domain = lambda: domain  # type: ignore[attr-defined]
    told = with_hint(error)
    assert told.startswith(text)
    assert words in told
    assert bool(words) == (told != text)


def test_it_opens_with_keepalive(bind: Any) -> None:
    bind(lambda _uri: FakeConnection())
    assert open_connection("qemu+tls://b/system").keepalive == (5, 6)


def test_its_errors_are_in_the_words_that_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of Ansible's takes over the locale of the session, which ssh may bring from the controller."""
    before, over = locale.setlocale(locale.LC_ALL), threading.Event()
    calls = dict.fromkeys(("registerErrorHandler", "virEventRegisterDefaultImpl"), lambda *_of: None)
    monkeypatch.setattr(
        connection, "libvirt", SimpleNamespace(libvirtError=FakeError, virEventRunDefaultImpl=over.wait, **calls)
    )
    try:
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
        connection._EventLoop().start()
        assert (locale.setlocale(locale.LC_MESSAGES), locale.setlocale(locale.LC_CTYPE)) == ("C", "C.UTF-8")
    finally:
        locale.setlocale(locale.LC_ALL, before)


def test_a_driver_without_keepalive(bind: Any) -> None:
    class Local(FakeConnection):
        def setKeepAlive(self, interval: int, count: int) -> int:  # noqa: N802
            raise FakeError("not supported", connection.ERR_NO_SUPPORT)

    bind(lambda _uri: Local())
    assert isinstance(open_connection("test:///default"), Local)


def test_a_refusal_is_told_with_its_uri_and_a_hint(bind: Any) -> None:
    def refuse(_uri: str) -> Any:
        raise FakeError("unable to connect to server at 'b:16514':\n Connection refused", 38)

    bind(refuse)
    with pytest.raises(HostUnreachable) as caught:
        open_connection("qemu+tls://b/system")
    assert caught.value.uri == "qemu+tls://b/system"
    assert str(caught.value).startswith("qemu+tls://b/system: unable to connect")
    assert "\n" not in str(caught.value)
    assert "virtproxyd-tls" in caught.value.hint


def test_a_host_that_never_answers(bind: Any) -> None:
    go, late = threading.Event(), FakeConnection()

    def hang(_uri: str) -> Any:
        go.wait(30)
        return late

    bind(hang)
    begin = time.monotonic()
    with pytest.raises(HostUnreachable, match=r"did not answer within 0\.2 s"):
        open_connection("qemu+tls://b/system", timeout=0.2)
    assert time.monotonic() - begin < 5
    go.set()
    assert late.closed.wait(60)  # it came too late: nobody has it, so it is closed


@pytest.mark.parametrize(
    ("uri", "opened"),
    [
        ("qemu+ssh://root@b/system", "qemu+ssh://root@b/system?no_tty=1"),
        ("qemu+ssh://b/system?keyfile=/k", "qemu+ssh://b/system?keyfile=/k&no_tty=1"),
        ("qemu+ssh://b/system?no_tty=0", "qemu+ssh://b/system?no_tty=0"),
        ("qemu+tls://b/system", "qemu+tls://b/system"),
        ("qemu:///system", "qemu:///system"),
    ],
)
def test_ssh_never_asks_on_a_terminal(bind: Any, uri: str, opened: str) -> None:
    seen: list[str] = []
    bind(lambda text: seen.append(text) or FakeConnection())
    open_connection(uri)
    assert seen == [opened]


def test_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "libvirt", connection._Missing("No module named 'libvirt'"))
    with pytest.raises(LibvirtMissing) as caught:
        open_connection("qemu:///system")
    assert "python3-libvirt" in str(caught.value)
    assert "libvirt-python" in str(caught.value)
