"""Parse a disk element of libvirt's domain XML to a DiskSpec. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from .spec import DiskSpec, SourceSpec


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
        backing=tuple(_below(element)),
        chain_ends=_ends(element),
        sliced=element.find("source/slices") is not None,
        format="raw" if driver is None else driver.get("type", "raw"),
        device=device,
        bus=target.get("bus", ""),
        # libvirt makes every CD-ROM read-only, whether its XML says so or not.
        read_only=element.find("readonly") is not None or device == "cdrom",
        shareable=element.find("shareable") is not None,
        transient=element.find("transient") is not None,
        cache="" if driver is None else driver.get("cache", ""),
        protocol="" if source is None else source.get("protocol", ""),
        hosts=_hosts(source),
        sockets=_sockets(source),
        pool="" if source is None else source.get("pool", ""),
        volume="" if source is None else source.get("volume", ""),
        reservations=element.find("source/reservations") is not None,
        encrypted=element.find("encryption") is not None or element.find("source/encryption") is not None,
        startup_policy="" if source is None else source.get("startupPolicy", ""),
    )


def _below(disk: ET.Element) -> Iterator[SourceSpec]:
    """Its data file, and the backing chain with theirs. Live XML has the whole chain."""
    store: ET.Element | None = disk
    while store is not None:
        if store is not disk:
            yield _layer(store)
        data = store.find("source/dataStore")
        if data is not None:
            yield _layer(data)
        store = _next(store)


def _next(store: ET.Element) -> ET.Element | None:
    below = store.find("backingStore")
    return None if below is None or below.find("source") is None else below


def _ends(disk: ET.Element) -> bool:
    """An empty <backingStore/> ends the chain. Without one the image may name what is below."""
    store: ET.Element | None = disk
    while store is not None:
        below = store.find("backingStore")
        if below is not None and below.find("source") is None:
            return True
        store = below
    return False


def _layer(element: ET.Element) -> SourceSpec:
    source = element.find("source")
    kind = element.get("type", "file")
    form = element.find("format")
    text = "" if source is None else source_text(source)
    path = "" if source is None else source.get("file") or source.get("dev") or ""
    return SourceSpec(
        type=kind,
        source=text,
        path=path if kind in ("file", "block") else "",
        format="raw" if form is None else form.get("type", "raw"),
        protocol="" if source is None else source.get("protocol", ""),
        hosts=_hosts(source),
        sockets=_sockets(source),
        pool="" if source is None else source.get("pool", ""),
        volume="" if source is None else source.get("volume", ""),
    )


def _hosts(source: ET.Element | None) -> tuple[str, ...]:
    hosts = () if source is None else source.findall("host")
    return tuple(host.get("name", "") for host in hosts if host.get("name"))


def _sockets(source: ET.Element | None) -> tuple[str, ...]:
    hosts = () if source is None else source.findall("host")
    return tuple(host.get("socket", "") for host in hosts if host.get("transport") == "unix")


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
