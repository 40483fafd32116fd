"""Whether a name leads to this host. No name server is asked here."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.own_address import (
    OwnAddress,
    is_assigned,
    is_loopback,
    resolve,
)


@pytest.mark.parametrize(
    "name",
    [
        *("127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "[::1]", "0:0:0:0:0:0:0:1"),
        *("::ffff:127.0.0.1", "::ffff:7f00:2", "0.0.0.0", "::", "127.1", "0x7f.1", "2130706433"),
        *("localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "ip6-localhost"),
        *("localhost6", "db.localhost"),
    ],
)
def test_what_means_this_host_everywhere(name: str) -> None:
    assert is_loopback(name)


@pytest.mark.parametrize(
    "name", ["10.0.0.1", "128.0.0.1", "fd00::1", "::ffff:10.0.0.1", "nas-1", "localhost.example.org", ""]
)
def test_what_does_not(name: str) -> None:
    assert not is_loopback(name)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("127.0.0.9", True),
        ("host-a", True),
        ("HOST-A.example.org", True),
        ("10.0.0.1", True),
        ("::ffff:10.0.0.1", True),
        ("10.0.0.2", False),
        ("alias", True),  # /etc/hosts: one of its addresses is ours
        ("looped", True),
        ("nas-1", False),
        ("gone", None),
        ("silent", None),
    ],
)
def test_which_names_are_this_host(name: str, own: bool | None) -> None:
    known = {"alias": ["10.0.0.9", "10.0.0.1"], "looped": ["127.0.1.1"], "nas-1": ["10.0.0.2"]}
    address = OwnAddress(
        lambda asked: None if asked == "silent" else known.get(asked, []),
        lambda asked: asked.rpartition(":")[2] == "10.0.0.1",
        names=("host-a.example.org",),
    )
    assert address(name) is own


def test_a_name_is_asked_for_once() -> None:
    asked: list[str] = []
    address = OwnAddress(asked.append, names=("x",))
    assert [address("nas-1"), address("nas-1")] == [None, None]
    assert asked == ["nas-1"]


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: [end.wait(60)][1:])
    began = time.monotonic()
    assert resolve("nas-1", 0.05) is None
    assert time.monotonic() - began < 30
    end.set()


def test_what_resolves_here() -> None:
    assert "127.0.0.1" in (resolve("127.0.0.1") or ())


def test_what_is_assigned_here() -> None:
    assert is_assigned("127.0.0.1")
    assert not is_assigned("192.0.2.77")  # TEST-NET-1: nobody's
    assert not is_assigned("no address")
