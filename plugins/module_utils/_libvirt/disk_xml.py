# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a disk's element in libvirt's domain XML to a DiskSpec. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from .domain_spec import DiskSpec

_HOST_ONLY = ("localhost", "127.0.0.1", "::1")


def parse_disk(element: ET.Element) -> DiskSpec:
    source = element.find("source")
    target = element.find("target")
    driver = element.find("driver")
    kind = element.get("type", "file")
    device = element.get("device", "disk")
    if target is None or not target.get("dev"):
        raise ValueError(f"a disk of type {kind} has no target")
    text = "" if source is None else source_text(source)
    path = "" if source is None else source.get("file") or source.get("dev") or ""
    return DiskSpec(
        dev=target.get("dev", ""),
        type=kind,
        source=text,
        path=path if kind in ("file", "block") else "",
        backing=tuple(_backing(element)),
        format="raw" if driver is None else driver.get("type", "raw"),
        device=device,
        bus=target.get("bus", ""),
        # libvirt makes every CD-ROM read-only, whether its XML says so or not.
        read_only=element.find("readonly") is not None or device == "cdrom",
        shareable=element.find("shareable") is not None,
        transient=element.find("transient") is not None,
        cache="" if driver is None else driver.get("cache", ""),
        protocol="" if source is None else source.get("protocol", ""),
        bound_to_host="" if source is None else _bound_to_host(source),
        pool="" if source is None else source.get("pool", ""),
        volume="" if source is None else source.get("volume", ""),
        reservations=element.find("source/reservations") is not None,
        encrypted=element.find("encryption") is not None
        or element.find("source/encryption") is not None,
        startup_policy="" if source is None else source.get("startupPolicy", ""),
    )


def _backing(disk: ET.Element) -> Iterator[str]:
    """Paths of the backing chain; live XML has it."""
    store = disk.find("backingStore")
    while store is not None:
        source = store.find("source")
        if source is not None and store.get("type") in ("file", "block"):
            yield source.get("file") or source.get("dev") or ""
        store = store.find("backingStore")


def _bound_to_host(source: ET.Element) -> str:
    """A network source that only this host reaches. libvirt takes every one as shared."""
    for host in source.findall("host"):
        if host.get("transport") == "unix":
            return f"the socket {host.get('socket', '')} of its host"
        if host.get("name", "").lower() in _HOST_ONLY:
            return f"the address {host.get('name')}"
    return ""


def source_text(source: ET.Element) -> str:
    """The source for messages: a path, pool/volume or protocol://host/name."""
    if source.get("pool"):
        return f"{source.get('pool')}/{source.get('volume', '')}"
    for key in ("file", "dev", "dir", "path", "name"):
        if source.get(key) and not (key == "name" and source.get("protocol")):
            return source.get(key, "")
    protocol = source.get("protocol")
    if protocol:
        host = source.find("host")
        where = "" if host is None else host.get("name") or host.get("socket") or ""
        return f"{protocol}://{where}/{source.get('name', '')}"
    address = source.find("address")
    if address is not None:
        return _address(address)
    return source.get("type", "")


def _address(address: ET.Element) -> str:
    if address.get("uuid"):
        return address.get("uuid", "")
    if address.get("slot"):
        parts = [address.get(key, "0x0") for key in ("domain", "bus", "slot", "function")]
        domain, bus, slot, function = (int(part, 0) for part in parts)
        return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
    return " ".join(f"{key} {value}" for key, value in sorted(address.attrib.items()))
