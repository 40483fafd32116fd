"""Whose silence is it: the host's, or does this host itself not get as far as to look?"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import Looks, judge
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import look

URI = "qemu+tls://host-a/system"


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
SILENT, GONE = TimeoutError("timed out"), error(errno.EHOSTUNREACH)  # GONE: no neighbour, or a router says so
NO_NET, NO_SOCKET, FILTERED = (error(one) for one in (errno.ENETUNREACH, errno.EMFILE, errno.EPERM))


class Network:
    """As this host has it. `routes`, `connects`: what comes of it for each of the host's addresses; None: all is well.
    `ports`: what comes of single ports."""

    def __init__(self, *connects: Any, routes: Any = (), name: Any = None, ports: Any = ()) -> None:
        self.connects, self.routes, self.name, self.ports = (
            connects,
            routes or [None] * len(connects),
            name,
            dict(ports),
        )

    def getaddrinfo(self, _name: str, port: int, type: int) -> list[Any]:  # noqa: A002 - socket's name
        if self.name is not None:
            raise self.name
        return [(socket.AF_INET, type, 6, "", (number, port)) for number, _one in enumerate(self.connects)]

    def socket(self, _family: int, kind: int) -> Any:
        def connect(where: tuple[int, int]) -> None:
            number, port = where
            came = self.routes[number] if kind == socket.SOCK_DGRAM else self.ports.get(port, self.connects[number])
            if came is not None:
                raise came

        return nullcontext(SimpleNamespace(connect=connect, settimeout=lambda _seconds: None))


def seen(monkeypatch: pytest.MonkeyPatch, network: Network) -> Any:
    found = SimpleNamespace(**{name: getattr(socket, name) for name in dir(socket) if not name.startswith("__")})
    found.getaddrinfo, found.socket = network.getaddrinfo, network.socket
    monkeypatch.setattr(look, "socket", found)
    monkeypatch.setattr(look, "serves", lambda _uri, _patience: (False, "libvirt is silent"))
    monkeypatch.setattr(look, "_signs", lambda _guests: (("web (its disk is written to)",), ""))
    return look.look("host-b", URI, look.Guests())


@pytest.mark.parametrize(
    "network",
    [
        Network(name=NO_NAME),
        Network(name=UnicodeError("label too long")),
        Network(NO_NET, routes=[NO_NET]),
        Network(GONE, routes=[GONE]),  # an unreachable route of its own
        Network(NO_SOCKET),
        Network(FILTERED),
        Network(FILTERED, ports={22: SILENT}),
    ],
    ids=["name", "odd name", "no route", "closed route", "no socket", "own firewall", "own firewall, but for ssh"],
)
def test_an_error_of_its_own_side_is_no_look(monkeypatch: pytest.MonkeyPatch, network: Network) -> None:
    """What it sees of the guests counts all the same: it may keep the VMs from being started."""
    view = seen(monkeypatch, network)
    judged = judge("host-a", [view, view], 2)
    assert (view.looked, view.answers, bool(view.guests)) == (False, False, True)
    assert (judged.looks, judged.may_be_fenced) == (Looks.NOT_KNOWN, False)
    assert "host-b could not look: it cannot be seen from here whether host-a answers" in judged.text
    assert ("maintenance_peer_uri" in judged.text) == (network.name is not None)
    with pytest.raises(look.CouldNotLook):  # the last look before a start
        look.answers(URI)


@pytest.mark.parametrize(
    ("network", "answers"),
    [
        (Network(SILENT), False),
        (Network(GONE), False),
        (Network(NO_NET), False),  # a router says so: this host has a route
        (Network(SILENT, NO_NET, routes=[None, NO_NET]), False),  # no IPv6 here
        (Network(NO_NET, SILENT, routes=[NO_NET, None]), False),
        (Network(SILENT, ports={22: FILTERED}), False),
        (Network(None), True),
        (Network(error(errno.ECONNREFUSED)), True),
        (Network(NO_NET, None, routes=[NO_NET, None]), True),
        (Network(FILTERED, ports={22: None}), True),
    ],
)
def test_what_came_of_a_look(monkeypatch: pytest.MonkeyPatch, network: Network, answers: bool) -> None:
    view = seen(monkeypatch, network)
    assert (view.looked, view.answers, bool(view.guests)) == (True, answers, not answers)
    assert look.answers(URI)[0] is answers


def test_a_uri_without_a_host_cannot_be_looked_at() -> None:
    view = look.look("host-b", "qemu:///system", look.Guests())
    assert not view.looked and "names no host" in view.text


@pytest.mark.parametrize("network", [Network(name=NO_NAME), Network(SILENT)], ids=["name", "silent"])
def test_a_libvirtd_is_silent_only_where_its_host_can_be_looked_at(
    monkeypatch: pytest.MonkeyPatch, network: Network
) -> None:
    def refuse(uri: str, timeout: float) -> None:
        raise HostUnreachable(uri, f"did not answer within {timeout:g} s")

    serves = look.serves
    monkeypatch.setattr(look, "open_connection", refuse)
    seen(monkeypatch, network)
    if network.name is None:
        assert serves(URI, 0.5) == (False, "libvirt: did not answer within 0.5 s")
    else:
        with pytest.raises(look.CouldNotLook, match="Name or service not known"):
            serves(URI, 0.5)
