"""Guests' own signs by ARP: does a guest speak on a bridge of this host, whose own host is silent?

A guest that is asked for its address answers by itself, and now and then it asks for others'. Both are frames from its
MAC, which no other guest has. Asked are the addresses that this host knows (/proc/net/arp), and those that `protect`
kept.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

from ..domain.xml import parse_domain

_ARP = 0x0806
_TABLE = "/proc/net/arp"
_AGAIN = 1.0  # seconds; a request may be lost
# Of if_packet.h: all frames that come to the bridge, whoever they are for.
_SOL_PACKET, _ADD_MEMBERSHIP, _PROMISCUOUS = 263, 1, 1


def table(path: str = _TABLE) -> dict[str, list[str]]:
    """Read this host's ARP table: MAC -> its IPv4 addresses. {}: it cannot be read."""
    found: dict[str, list[str]] = {}
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            rows = [line.split() for line in stream][1:]
    except OSError:
        return {}
    for row in rows:
        if len(row) > 3:
            found.setdefault(row[3].lower(), []).append(row[0])
    return found


def nics(definition: str, networks: Mapping[str, str]) -> list[tuple[str, str]]:
    """(bridge, MAC) of each interface of a VM that is on one. `networks`: of this host, with their bridges."""
    try:
        found = parse_domain(definition).interfaces
    except ValueError:
        return []
    return [(one.bridge or networks.get(one.network, ""), one.mac.lower()) for one in found if one.mac]


def heard(
    guests: Mapping[str, Iterable[tuple[str, str]]], addresses: Mapping[str, Sequence[str]], seconds: float
) -> tuple[str, ...] | None:
    """Ask the guests by ARP, and listen for this many seconds: a text for each that spoke, with its name and the sign.

    `guests`: name -> its (bridge, MAC). `addresses`: MAC -> addresses to ask for, beside those of `table`. None: this
    host could listen on none of these bridges.
    """
    nics = {(bridge, mac.lower()): guest for guest, found in guests.items() for bridge, mac in found}
    known = table()
    with ExitStack() as stack:
        tried = {bridge: _listen(bridge) for bridge, _mac in nics}
        ears = {bridge: stack.enter_context(ear) for bridge, ear in tried.items() if ear is not None}
        asked = [
            (ears[bridge], address)
            for bridge, mac in nics
            for address in {*known.get(mac, ()), *addresses.get(mac, ())}
            if bridge in ears
        ]
        by_mac = {mac: guest for (_bridge, mac), guest in nics.items()}
        return _collect(ears, asked, by_mac, seconds) if ears else None


def _collect(
    ears: Mapping[str, socket.socket],
    asked: Sequence[tuple[socket.socket, str]],
    by_mac: Mapping[str, str],
    seconds: float,
) -> tuple[str, ...]:
    until, again = time.monotonic() + seconds, 0.0
    found: dict[str, str] = {}
    names = {ear: bridge for bridge, ear in ears.items()}
    while (now := time.monotonic()) < until and len(found) < len(set(by_mac.values())):
        if now >= again:
            again = now + _AGAIN
            for ear, address in asked:
                _ask(ear, address)
        for ear in select.select(list(names), [], [], max(0.0, min(until, again) - now))[0]:
            guest = by_mac.get(_sender(ear))
            if guest is not None:
                found[guest] = f"{guest} (it speaks ARP on {names[ear]})"
    return tuple(found.values())


def _sender(ear: socket.socket) -> str:
    try:
        return ear.recv(64)[6:12].hex(":")
    except OSError:  # such as a bridge that went down
        return ""


def _listen(bridge: str) -> socket.socket | None:
    """None: there is no such bridge here, or this is not root."""
    try:
        number = socket.if_nametoindex(bridge)
        ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP))
    except OSError:
        return None
    try:
        ear.bind((bridge, _ARP))
        ear.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, struct.pack("iHH8s", number, _PROMISCUOUS, 0, b""))
    except OSError:
        ear.close()
        return None
    return ear


def _ask(ear: socket.socket, address: str) -> None:
    """A request from no address (RFC 5227, a probe), which changes nobody's table."""
    try:
        mac = ear.getsockname()[4]
        wanted = socket.inet_aton(address)
        head = b"\xff" * 6 + mac + struct.pack("!HHHBBH", _ARP, 1, 0x0800, 6, 4, 1)
        ear.send(head + mac + bytes(4) + bytes(6) + wanted)
    except OSError:
        return  # what speaks by itself is heard
