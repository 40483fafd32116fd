"""Files that a VM needs beside its disks: which are known to be missing on a target."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.host_files import missing_files
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.xml import parse_domain
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts, PoolFacts
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

BOOT = "/srv/boot"
TARGET = HostFacts(
    hostname="host-b",
    pools={
        "boot": PoolFacts("boot", "dir", BOOT),
        "nvram": PoolFacts("nvram", "dir", "/nvram"),
        "dev": PoolFacts("dev", "dir", "/dev"),  # it lists no character devices
    },
)
NETWORK_DISK = (
    "<disk type='network'><source protocol='ssh' name='d'><host name='nas-1'/>{}</source><target dev='vda'/></disk>"
)
NVRAM = f"<nvram template='{BOOT}/vars.fd'>/nvram/web.fd</nvram>"


class Conn:
    """A target. It lists what it has, and counts the questions."""

    def __init__(self, *there: str) -> None:
        self.there, self.asked = there, 0

    def storageVolLookupByPath(self, path: str) -> object:  # noqa: N802 - libvirt's name
        self.asked += 1
        if path in self.there:
            return object()
        raise fakes.LibvirtError("no volume", 50)

    def storagePoolLookupByName(self, _name: str) -> Any:  # noqa: N802
        return self

    def refresh(self, _flags: int) -> None:
        """Nothing new."""


def missing(conn: Conn, boot: str = "", devices: str = "", top: str = "") -> list[str]:
    xml = (
        f"<domain type='kvm'><name>web</name><os><type>hvm</type>{boot}</os>{top}<devices>{devices}</devices></domain>"
    )
    found = missing_files(conn, parse_domain(xml), TARGET)
    assert {finding.reason for finding in found} <= {Reason.FileMissing}
    return [finding.message for finding in found]


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.shared_storage.libvirt",
        fakes.Binding(),
    )


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("kernel", {"boot": f"<kernel>{BOOT}/x</kernel>"}),
        ("initrd", {"boot": f"<initrd>{BOOT}/x</initrd>"}),
        ("device tree", {"boot": f"<dtb>{BOOT}/x</dtb>"}),
        ("shim", {"boot": f"<shim>{BOOT}/x</shim>"}),
        ("loader", {"boot": f"<loader readonly='yes' type='pflash'>{BOOT}/x</loader>"}),
        ("ACPI table", {"boot": f"<acpi><table type='slic'>{BOOT}/x</table></acpi>"}),
        ("NVRAM template", {"boot": NVRAM.replace("vars.fd", "x")}),
        ("firmware setting", {"top": f"<sysinfo type='fwcfg'><entry name='a' file='{BOOT}/x'/></sysinfo>"}),
        ("random number device", {"devices": f"<rng><backend model='random'>{BOOT}/x</backend></rng>"}),
        ("option ROM", {"devices": f"<interface type='user'><rom file='{BOOT}/x'/></interface>"}),
        ("option ROM", {"devices": f"<hostdev><rom file='{BOOT}/x'/></hostdev>"}),
        ("interface script", {"devices": f"<interface type='ethernet'><script path='{BOOT}/x'/></interface>"}),
        ("interface script", {"devices": f"<interface type='ethernet'><downscript path='{BOOT}/x'/></interface>"}),
        ("Ceph configuration", {"devices": NETWORK_DISK.format(f"<config file='{BOOT}/x'/>")}),
        ("SSH key", {"devices": NETWORK_DISK.format(f"<identity username='u' keyfile='{BOOT}/x'/>")}),
        ("SSH known hosts", {"devices": NETWORK_DISK.format(f"<knownHosts path='{BOOT}/x'/>")}),
        ("smart card database", {"devices": f"<smartcard><database>{BOOT}/x</database></smartcard>"}),
        ("pstore", {"devices": f"<pstore backend='acpi-erst'><path>{BOOT}/x</path></pstore>"}),
    ],
)
def test_what_the_target_is_known_not_to_have(what: str, given: dict[str, str]) -> None:
    assert missing(Conn(), **given) == [f"Its {what} {BOOT}/x is not on host-b."]
    assert missing(Conn(f"{BOOT}/x"), **given) == []


@pytest.mark.parametrize(
    "given",
    [
        {"boot": "<kernel>/boot/vmlinuz</kernel>"},  # in no pool
        {"boot": "<loader>u-boot.bin</loader>"},  # QEMU finds it by itself
        {"devices": "<rng><backend model='random'>/dev/hwrng</backend></rng>"},
        {"devices": "<rng><backend model='builtin'/></rng>"},
    ],
)
def test_what_is_not_known_is_no_reason(given: dict[str, str]) -> None:
    conn = Conn()
    assert missing(conn, **given) == []
    assert conn.asked == 0


def test_a_template_is_needed_only_where_there_is_no_nvram() -> None:
    assert missing(Conn("/nvram/web.fd"), boot=NVRAM) == []
