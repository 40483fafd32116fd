"""Each place of libvirt's domain schema that names a file, a device, a socket, a port or something that the target
looks up: judged, harmless with a reason, or known as not judged. A new libvirt with a new place makes this red."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

SCHEMAS = Path("/usr/share/libvirt/schemas")  # comes with libvirt's packages
R = "{http://relaxng.org/ns/structure/1.0}"
TYPES = {"absFilePath", "filePath", "absDirPath", "dirPath", "absPath", "path", "deviceName", "PortNumber"}
NAMES = re.compile(
    r"(file|path|dev|dir|socket|template|port|cid|database|rendernode|uuid|network|group|filter|pool|volume|secret"
    r"|bridge|tty|keyfile|agentsock)$",
    re.I,
)

JUDGED, HARMLESS, NOT_JUDGED = "judged", "harmless", "not judged"
# What it is, by the last two elements and the attribute: the first pattern that fits.
TABLE = (
    # Lookalikes
    ("*/address@port", HARMLESS, "a port on a bus of the guest"),
    ("*/target@port", HARMLESS, "a number in the guest"),
    ("controller/master@startport", HARMLESS, "a port on a bus of the guest"),
    ("*/target@dev", HARMLESS, "in the guest; a tap's name libvirt gives anew, one that it does not make is judged"),
    ("interface/guest@*", HARMLESS, "in the guest"),
    ("os/boot@dev", HARMLESS, "a kind of device"),
    ("*@autoport", HARMLESS, "a switch"),
    ("*@migratable", HARMLESS, "a switch; judged as a CPU"),
    ("*@rss_hash_report", HARMLESS, "a switch"),
    ("*@transport", HARMLESS, "a switch"),
    ("*@tty", HARMLESS, "what libvirt reports of a pty"),
    ("*@sgio", HARMLESS, "a switch"),
    # Disks
    ("disk/source@*", JUDGED, "blockers/shared_storage, disk_moves"),
    ("backingStore/source@*", JUDGED, "blockers/disk_chains"),
    ("dataStore/source@*", JUDGED, "blockers/disk_chains"),
    ("disk/mirror@file", JUDGED, "a block job keeps the VM"),
    ("mirror/source@*", JUDGED, "a block job keeps the VM"),
    ("reservations/source@path", JUDGED, "persistent reservations keep the VM"),
    ("source/host@socket", JUDGED, "served at a socket of its host"),
    ("source/host@port", HARMLESS, "of a server; where that is, is judged"),
    ("source/config@file", JUDGED, "domain/xml: a file of the host"),
    ("source/identity@keyfile", JUDGED, "domain/xml: a file of the host"),
    ("source/knownHosts@path", JUDGED, "domain/xml: a file of the host"),
    ("auth/secret@uuid", JUDGED, "a secret"),
    ("encryption/secret@uuid", JUDGED, "a secret"),
    ("backend/encryption@secret", JUDGED, "a secret"),
    # Boot
    ("os/kernel", JUDGED, "domain/xml: a file of the host"),
    ("os/initrd", JUDGED, "domain/xml: a file of the host"),
    ("os/dtb", JUDGED, "domain/xml: a file of the host"),
    ("os/nvram@template", JUDGED, "domain/xml: a file of the host"),
    ("nvram/source@*", JUDGED, "blockers/off: it is copied, or keeps the VM"),
    ("os/init", HARMLESS, "of a container: the QEMU driver has none"),
    ("os/initdir", HARMLESS, "of a container"),
    ("os/root", HARMLESS, "of a container"),
    ("sysinfo/entry@file", JUDGED, "domain/xml: a file of the host"),
    ("*/rom@file", JUDGED, "domain/xml: a file of the host"),
    # Devices
    ("devices/emulator", JUDGED, "blockers/target_devices"),
    ("interface/source@bridge", JUDGED, "host/facts: lacks_link"),
    ("interface/source@dev", JUDGED, "host/facts: lacks_link"),
    ("interface/source@network", JUDGED, "blockers/target_names"),
    ("interface/source@portgroup", JUDGED, "blockers/target_names"),
    ("interface/filterref@filter", JUDGED, "blockers/target_names"),
    ("interface/script@path", JUDGED, "domain/xml: a file of the host"),
    ("interface/downscript@path", JUDGED, "domain/xml: a file of the host"),
    ("interface/source@path", NOT_JUDGED, "the socket of a vhost-user switch: no libvirt tells of it"),
    ("interface/source@*", NOT_JUDGED, "of a VMware or Xen network, or a socket's port"),
    ("interface/backend@logFile", NOT_JUDGED, "passt's log: its directory is made by nobody"),
    ("interface/backend@*", NOT_JUDGED, "another path of /dev/net/tun or /dev/vhost-net"),
    ("interface/portForward@dev", NOT_JUDGED, "passt: where it listens on its host"),
    ("portForward/range@*", NOT_JUDGED, "passt: ports of its host"),
    ("source/local@port", NOT_JUDGED, "an interface of type udp: a port of its host"),
    ("devices/graphics@socket", NOT_JUDGED, "a socket's directory: libvirt does not tell of it"),
    ("graphics/listen@socket", NOT_JUDGED, "a socket's directory: libvirt does not tell of it"),
    ("graphics/listen@network", JUDGED, "blockers/target_devices"),
    ("devices/graphics@*", JUDGED, "blockers/target_devices; a websocket's port is not"),
    ("graphics/gl@rendernode", NOT_JUDGED, "a GPU; QEMU itself refuses the migration with one (virgl)"),
    ("model/acceleration@rendernode", NOT_JUDGED, "a GPU of vhost-user"),
    ("filesystem/*", JUDGED, "a directory of the host keeps the VM"),
    ("hostdev/*", JUDGED, "a device of the host keeps the VM"),
    ("source/address@uuid", JUDGED, "a mediated device keeps the VM"),
    ("source/block", JUDGED, "a device of the host keeps the VM"),
    ("source/char", JUDGED, "a device of the host keeps the VM"),
    ("source/interface", JUDGED, "a device of the host keeps the VM"),
    ("input/source@*", JUDGED, "a device of the host keeps the VM"),
    ("device/path", JUDGED, "a device of the host keeps the VM"),
    ("source/path", JUDGED, "a memory module on a file keeps the VM"),
    ("smartcard/database", JUDGED, "domain/xml: a file of the host"),
    ("backend/device@path", JUDGED, "a TPM of the host keeps the VM"),
    ("backend/source@path", JUDGED, "the state or socket of a TPM"),
    ("backend/log@file", NOT_JUDGED, "a TPM's log"),
    ("*/log@file", NOT_JUDGED, "a log: its directory; found at the attempt, and another host is taken"),
    ("*/source@path", NOT_JUDGED, "a character device's file or socket: its directory; found at the attempt"),
    ("shmem/server@path", NOT_JUDGED, "the socket of an ivshmem server"),
    ("lease/target@path", NOT_JUDGED, "a sanlock lease: on shared storage by its nature"),
    ("audio/*@*", NOT_JUDGED, "a sound device of the host; QEMU goes on without"),
    ("devices/audio@path", NOT_JUDGED, "the file of an audio backend"),
    ("resource/partition", NOT_JUDGED, "a cgroup: found at the attempt"),
    ("vsock/cid@address", NOT_JUDGED, "a fixed CID that a VM there may have: found at the attempt"),
    ("blkiotune/device/path", NOT_JUDGED, "a block device of the host that is throttled"),
    ("*group", HARMLESS, "a name within the domain, or of its firmware"),
)


def _places() -> set[str]:
    definitions: dict[str, list[ET.Element]] = {}
    loaded: set[str] = set()

    def load(name: str) -> None:
        if name in loaded:
            return
        loaded.add(name)
        for element in ET.parse(SCHEMAS / name).getroot().iter():
            if element.tag == f"{R}include":
                load(element.get("href", ""))
            if element.tag == f"{R}define":
                definitions.setdefault(element.get("name", ""), []).append(element)

    found: set[str] = set()
    walked: set[tuple[str, tuple[str, ...]]] = set()

    def types(element: ET.Element) -> set[str | None]:
        return {ref.get("name") for ref in element.iter(f"{R}ref")}

    def walk(element: ET.Element, path: tuple[str, ...]) -> None:
        for child in element:
            name = child.get("name", "")
            if child.tag == f"{R}ref":
                if (name, path[-2:]) not in walked:
                    walked.add((name, path[-2:]))
                    for definition in definitions.get(name, []):
                        walk(definition, path)
            elif child.tag == f"{R}attribute" and name:
                if NAMES.search(name) or types(child) & TYPES or (path[-1:] == ("cid",) and name == "address"):
                    found.add(f"{'/'.join(path[-2:])}@{name}")
            elif child.tag == f"{R}element" and name:
                leaf = not list(child.iter(f"{R}attribute")) and len(list(child.iter(f"{R}element"))) == 1
                if leaf and types(child) & TYPES:
                    found.add("/".join((*path, name)[-2:]))
                walk(child, (*path, name))
            else:
                walk(child, path)

    load("domain.rng")
    for definition in definitions["domain"]:
        walk(definition, ())
    return found


@pytest.mark.skipif(not (SCHEMAS / "domain.rng").exists(), reason="libvirt's schemas are not installed")
def test_each_place_of_the_schema_is_known() -> None:
    found = _places()
    assert len(found) > 100
    assert [place for place in sorted(found) if not any(fnmatchcase(place, row[0]) for row in TABLE)] == []


def test_each_row_says_why() -> None:
    assert {verdict for _pattern, verdict, _why in TABLE} == {JUDGED, HARMLESS, NOT_JUDGED}
    assert all(why for _pattern, _verdict, why in TABLE)
