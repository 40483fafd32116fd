"""Parse libvirt's domain XML, live or inactive, to a DomainSpec. Pure.

Elements that are not known are passed over (https://libvirt.org/formatdomain.html grows
with every release); what is known and malformed is an error that names the domain.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from .disk_xml import parse_disk, source_text
from .graphics_xml import graphics_of, qemu_extras
from .metadata import declared_of
from .spec import (
    NVRAM_TEMPLATE,
    DomainSpec,
    FilesystemSpec,
    HostDeviceSpec,
    HostFile,
    HugePages,
    InterfaceSpec,
    MemoryModule,
    Pinning,
    SecretRef,
    TpmSpec,
)
from .untrusted import parse_xml

# libvirt's scaled integers (docs/formatdomain.html, "memory"): to bytes.
_UNITS = {"b": 1, "bytes": 1}
for _power, _letter in enumerate("kmgtpe", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}ib"] = 1024**_power
    _UNITS[f"{_letter}b"] = 1000**_power

# Files that QEMU or libvirt opens where the VM arrives, and nobody makes there: what it is, the element, and
# the attribute that names it; empty: the element's text. tests/unit/.../test_schema.py has all other places.
_FILES = (
    ("kernel", "os/kernel", ""),
    ("initrd", "os/initrd", ""),
    ("device tree", "os/dtb", ""),
    ("shim", "os/shim", ""),
    ("loader", "os/loader", ""),
    ("ACPI table", "os/acpi/table", ""),
    (NVRAM_TEMPLATE, "os/nvram", "template"),
    ("firmware setting", "sysinfo[@type='fwcfg']/entry", "file"),
    ("random number device", "devices/rng/backend[@model='random']", ""),
    ("option ROM", "devices/*/rom", "file"),
    ("interface script", "devices/interface/script", "path"),
    ("interface script", "devices/interface/downscript", "path"),
    ("Ceph configuration", "devices/disk/source/config", "file"),
    ("SSH key", "devices/disk/source/identity", "keyfile"),
    ("SSH known hosts", "devices/disk/source/knownHosts", "path"),
    ("smart card database", "devices/smartcard/database", ""),
    ("pstore", "devices/pstore/path", ""),
)


def parse_domain(xml: str) -> DomainSpec:
    """Parse `virDomainGetXMLDesc` output. Raises ValueError that names the domain."""
    try:
        root = parse_xml(xml)
    except ET.ParseError as exc:
        found = re.search(r"<name>([^<]*)</name>", xml)
        name = found.group(1) if found else "of unknown name"
        raise ValueError(f"domain {name}: its XML is malformed: {exc}") from exc
    name = root.findtext("name") or ""
    try:
        if root.tag != "domain" or not name:
            raise ValueError(f"no <domain> with a name, but <{root.tag}>")
        return _domain(root, name)
    except ValueError as exc:
        raise ValueError(f"domain {name or 'of unknown name'}: {exc}") from exc


def most_memory_mib(xml: str) -> int:
    """The most that a domain may ever have, with what can still be plugged in. Or ValueError."""
    try:
        return _most_mib(parse_xml(xml))
    except ET.ParseError as exc:
        raise ValueError(f"malformed XML: {exc}") from exc


def _most_mib(root: ET.Element) -> int:
    return max(_mib(root.find("memory")), _mib(root.find("maxMemory")))


def parse_cpuset(text: str) -> frozenset[int]:
    """libvirt's set syntax, as in "0-3,^2,8". Raises ValueError."""
    included: set[int] = set()
    excluded: set[int] = set()
    for raw in text.split(","):
        part = raw.strip()
        if not part:
            continue
        into = excluded if part.startswith("^") else included
        first, _dash, last = part.lstrip("^").partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise ValueError(f"{text!r} is not a set of numbers")
        into.update(range(int(first), int(last or first) + 1))
    return frozenset(included - excluded)


def _domain(root: ET.Element, name: str) -> DomainSpec:
    devices = root.find("devices")
    if devices is None:
        devices = ET.Element("devices")
    os_type = root.find("os/type")
    cpu = root.find("cpu")
    features = {} if cpu is None else {f.get("name"): f.get("policy") for f in cpu.iter("feature")}
    timers = root.findall("clock/timer[@name='tsc']")
    security = root.find("launchSecurity")
    return DomainSpec(
        uuid=(root.findtext("uuid") or "").strip(),
        name=name,
        type=root.get("type", ""),
        memory_mib=_mib(root.find("memory")),
        max_memory_mib=_most_mib(root),
        vcpus=_int(root.findtext("vcpu") or "1"),
        machine="" if os_type is None else os_type.get("machine", ""),
        arch="" if os_type is None else os_type.get("arch", ""),
        emulator=(devices.findtext("emulator") or "").strip(),
        loader=(root.findtext("os/loader") or "").strip(),
        nvram=_nvram(root.find("os/nvram")),
        files=tuple(_files(root)),
        cpu_mode=_cpu_mode(cpu),
        cpu_model="" if cpu is None else (cpu.findtext("model") or "").strip(),
        cpu_xml="" if cpu is None else ET.tostring(cpu, encoding="unicode").strip(),
        cpu_migratable=cpu is None or cpu.get("migratable") != "off",
        invariant_tsc=features.get("invtsc", "disable") in ("require", "force"),
        tsc_frequency=max((_int(t.get("frequency", "0")) for t in timers), default=0),
        hyperv_passthrough=any(e.get("mode") == "passthrough" for e in root.findall("features/hyperv")),
        launch_security="" if security is None else security.get("type", "unknown"),
        boot=tuple(_boot(root, devices)),
        on_poweroff=(root.findtext("on_poweroff") or "").strip(),
        disks=tuple(parse_disk(e) for e in devices.findall("disk")),
        interfaces=tuple(_interface(e) for e in devices.findall("interface")),
        host_devices=tuple(_host_devices(devices)),
        filesystems=tuple(_filesystem(e) for e in devices.findall("filesystem")),
        tpms=tuple(_tpm(e) for e in devices.findall("tpm")),
        memory_modules=tuple(_memory_module(e) for e in devices.findall("memory")),
        numa_cells_mib={
            _int(e.get("id", str(place))): _size(e.get("memory", "0"), e.get("unit", "KiB"))
            for place, e in enumerate(root.findall("cpu/numa/cell"))
        },
        shared_memory=tuple((e.get("name", ""), e.get("role", "")) for e in devices.findall("shmem")),
        huge_pages=tuple(_huge_pages(root)),
        pinnings=tuple(_pinnings(root)),
        secrets=tuple(_secrets(devices)),
        graphics=tuple(graphics_of(devices)),
        qemu_extras=qemu_extras(root),
        agent_connected=_agent_connected(root, devices),
        declared=declared_of(root),
    )


def _int(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _size(text: str, unit: str, to: int = 1024**2) -> int:
    """Parse a size to units of `to` bytes (MiB), rounded up. Raises ValueError."""
    factor = _UNITS.get(unit.lower())
    if factor is None:
        raise ValueError(f"{unit!r} is not a unit of memory")
    return -(-_int(text) * factor // to)


def _mib(element: ET.Element | None) -> int:
    if element is None:
        return 0
    return _size(element.text or "", element.get("unit", "KiB"))


def _cpu_mode(cpu: ET.Element | None) -> str:
    """Without a mode, a <cpu> with a model is custom, and one without says nothing of features."""
    if cpu is None:
        return ""
    return cpu.get("mode", "" if cpu.find("model") is None else "custom")


def _files(root: ET.Element) -> Iterator[HostFile]:
    """Find the files that QEMU opens when the VM arrives, and that nobody creates there. `root`: of the domain's
    XML."""
    for what, place, attribute in _FILES:
        for element in root.findall(place):
            yield from _file_at(what, element.get(attribute) if attribute else element.text)


def _file_at(what: str, path: str | None) -> Iterator[HostFile]:
    path = (path or "").strip()
    if path.startswith("/") and not path.startswith("/dev/"):
        yield HostFile(what, path)


def _boot(root: ET.Element, devices: ET.Element) -> Iterator[str]:
    """The kinds of devices, or the devices themselves with their places."""
    yield from (element.get("dev", "") for element in root.findall("os/boot"))
    for device in devices:
        order = device.find("boot[@order]")
        if order is None:
            continue
        target, mac = device.find("target"), device.find("mac")
        name = "" if target is None else target.get("dev", "")
        name = name if mac is None else mac.get("address", "")
        yield f"{order.get('order', '')} {device.tag} {name}".strip()


def _nvram(element: ET.Element | None) -> str:
    if element is None:
        return ""
    source = element.find("source")
    return (element.text or "").strip() or ("" if source is None else source_text(source))


def _interface(element: ET.Element) -> InterfaceSpec:
    source = element.find("source")
    mac = element.find("mac")
    teaming = element.find("teaming")
    filterref = element.find("filterref")
    device = "" if source is None else source.get("dev", "")
    target = element.find("target[@managed='no']")
    if target is not None and element.get("type") == "ethernet":
        device = target.get("dev", "")
    return InterfaceSpec(
        type=element.get("type", ""),
        mac="" if mac is None else mac.get("address", ""),
        network="" if source is None else source.get("network", ""),
        portgroup="" if source is None else source.get("portgroup", ""),
        filter="" if filterref is None else filterref.get("filter", ""),
        bridge="" if source is None else source.get("bridge", ""),
        device=device,
        teaming="" if teaming is None else teaming.get("type", ""),
    )


def _host_devices(devices: ET.Element) -> Iterator[HostDeviceSpec]:
    for element in devices.findall("hostdev"):
        kind = element.get("type") or element.get("mode") or "unknown"
        yield _host_device(element, kind)
    for element in devices.findall("interface[@type='hostdev']"):
        yield _host_device(element, "interface")
    # An event device, serial port or smart card of the host: libvirt does not refuse these,
    # but the target has another device there, or none.
    for element in devices.findall("input"):
        if element.get("type") in ("passthrough", "evdev"):
            yield _host_device(element, "input")
    for tag in ("serial", "parallel", "console", "channel"):
        for element in devices.findall(f"{tag}[@type='dev']"):
            yield _host_device(element, tag)
    for element in devices.findall("smartcard"):
        if element.get("mode") in ("host", "host-certificates"):
            yield HostDeviceSpec("smartcard", element.get("mode", ""))


def _host_device(element: ET.Element, kind: str) -> HostDeviceSpec:
    source = element.find("source")
    teaming = element.find("teaming")
    text = ""
    if source is not None:
        # <input type='passthrough'> has evdev, usb devices have vendor and product.
        text = source.get("evdev") or source_text(source)
        ids = [e.get("id", "") for tag in ("vendor", "product") for e in source.findall(tag)]
        text = ":".join(ids) or text
        adapter = source.find("adapter")
        if adapter is not None:
            text = f"{adapter.get('name', '')} {text}".strip()
    return HostDeviceSpec(
        kind=kind,
        source=text,
        teaming="" if teaming is None else teaming.get("type", ""),
        network="" if source is None else source.get("network", ""),
    )


def _filesystem(element: ET.Element) -> FilesystemSpec:
    driver = element.find("driver")
    source = element.find("source")
    target = element.find("target")
    return FilesystemSpec(
        driver="path" if driver is None else driver.get("type", "path"),
        source="" if source is None else source.get("socket") or source_text(source),
        target="" if target is None else target.get("dir", ""),
    )


def _tpm(element: ET.Element) -> TpmSpec:
    backend = element.find("backend")
    if backend is None:
        backend = ET.Element("backend")
    source = backend.find("source")
    device = backend.find("device")
    path = device.get("path", "") if device is not None else ""
    if source is not None:
        path = source.get("path") or source.get("file") or source.get("dir") or path
    return TpmSpec(model=element.get("model", ""), backend=backend.get("type", ""), source=path)


def _memory_module(element: ET.Element) -> MemoryModule:
    address = element.find("address")
    return MemoryModule(
        model=element.get("model", ""),
        size_mib=_mib(element.find("target/size")),
        address=address is not None and bool(address.get("base")) and bool(address.get("slot")),
        source=(element.findtext("source/path") or "").strip(),
    )


def _huge_pages(root: ET.Element) -> Iterator[HugePages]:
    element = root.find("memoryBacking/hugepages")
    if element is None:
        return
    pages = element.findall("page")
    if not pages:
        yield HugePages()
    for page in pages:
        kib = _size(page.get("size", "0"), page.get("unit", "KiB"), to=1024)
        yield HugePages(kib, parse_cpuset(page.get("nodeset", "")))


def _pinnings(root: ET.Element) -> Iterator[Pinning]:
    vcpu = root.find("vcpu")
    if vcpu is not None and vcpu.get("cpuset") and vcpu.get("placement") != "auto":
        yield Pinning("vcpu", cpus=parse_cpuset(vcpu.get("cpuset", "")))
    for tag in ("vcpupin", "emulatorpin", "iothreadpin"):
        for pin in root.findall(f"cputune/{tag}"):
            number = pin.get("vcpu") or pin.get("iothread") or ""
            yield Pinning(f"{tag} {number}".strip(), cpus=parse_cpuset(pin.get("cpuset", "")))
    for node in root.findall("numatune/memory") + root.findall("numatune/memnode"):
        if node.get("placement") != "auto" and node.get("nodeset"):
            yield Pinning(f"numatune {node.tag}", nodes=parse_cpuset(node.get("nodeset", "")))
    for place, module in enumerate(root.findall("devices/memory")):
        nodes = module.findtext("source/nodemask")
        if nodes:
            yield Pinning(f"memory module {place}", nodes=parse_cpuset(nodes))


def _secrets(devices: ET.Element) -> Iterator[SecretRef]:
    for element in devices.findall("disk") + devices.findall("hostdev"):
        target = element.find("target")
        owner = f"{element.tag} {'' if target is None else target.get('dev', '')}".strip()
        for secret in element.iter("secret"):
            # In <encryption> the type is "passphrase", and the secret's usage is volume.
            kind = secret.get("type", "volume").replace("passphrase", "volume")
            yield SecretRef(owner, secret.get("uuid", ""), kind, secret.get("usage", ""))
    for encryption in devices.findall("tpm/backend/encryption[@secret]"):
        yield SecretRef("tpm", encryption.get("secret", ""))


def agent_connected(xml: str) -> bool:
    """Does the guest's agent answer? `xml`: of the running domain."""
    root = parse_xml(xml)
    devices = root.find("devices")
    return devices is not None and bool(_agent_connected(root, devices))


def _agent_connected(root: ET.Element, devices: ET.Element) -> bool | None:
    """libvirt reports a channel's state in the XML of a running domain, which has an id."""
    if root.get("id") is None:
        return None
    found = devices.findall("channel/target[@name='org.qemu.guest_agent.0']")
    return any(target.get("state") == "connected" for target in found)
