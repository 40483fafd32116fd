"""Parse libvirt's domain XML: graphics, and what is passed to QEMU behind libvirt's back. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from .spec import GraphicsSpec
from .untrusted import parse_xml

QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"
_PORTS = ("port", "tlsPort", "websocket")


def graphics_of(devices: ET.Element) -> Iterator[GraphicsSpec]:
    for element in devices.findall("graphics"):
        listens = element.findall("listen")
        fixed = element.get("autoport", "no") != "yes"
        # A websocket's number is the same in a live domain whether it was asked for or found.
        asked = [element.get(key) for key in _PORTS[:2]] if fixed else []
        yield GraphicsSpec(
            type=element.get("type", ""),
            addresses=tuple(
                listen.get("address", "")
                for listen in listens
                if listen.get("type") == "address" and listen.get("address")
            ),
            networks=tuple(listen.get("network", "") for listen in listens if listen.get("type") == "network"),
            ports=tuple(port for port in map(_port, asked) if port),
        )


def ports_in_use(xml: str) -> frozenset[int]:
    """TCP ports on which a running domain's graphics listen. Raises ValueError."""
    try:
        root = parse_xml(xml)
    except ET.ParseError as exc:
        raise ValueError(f"malformed XML: {exc}") from exc
    found = (_port(e.get(key)) for e in root.findall("devices/graphics") for key in _PORTS)
    return frozenset(port for port in found if port)


def _port(text: str | None) -> int:
    """0: none, or one that libvirt chooses (-1)."""
    number = (text or "").strip()
    return int(number) if number.isdigit() else 0


def qemu_extras(root: ET.Element) -> tuple[str, ...]:
    """Return what QEMU is given past libvirt, each in a word: options, variables, overridden devices.

    The options alone, never their values: a value may be a password.
    """
    found: list[str] = []
    for argument in root.findall(f"{QEMU}commandline/{QEMU}arg"):
        value = argument.get("value", "")
        if value.startswith("-"):
            found.append(value.partition("=")[0])
        elif not found:
            found.append("an argument")
    for variable in root.findall(f"{QEMU}commandline/{QEMU}env"):
        found.append(f"variable {variable.get('name', '')}")
    for device in root.findall(f"{QEMU}override/{QEMU}device"):
        found.append(f"override of {device.get('alias', '')}")
    return tuple(dict.fromkeys(found))
