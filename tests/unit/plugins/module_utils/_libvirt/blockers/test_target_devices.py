"""What a target lacks of the devices that a VM brings, asked of its libvirt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import target_devices
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.target_devices import (
    missing_devices,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.graphics_xml import ports_in_use
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.xml import parse_domain
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.vmxml import domain, host, hostdev

LISTED = "/usr/bin/qemu-system-x86_64"
TARGET = replace(host(), emulators=frozenset({LISTED}))
TEAMING = "<teaming type='transient' persistent='ua-x'/>"
VF = (
    "<interface type='hostdev'><source {}><address type='pci' domain='0' bus='0x3b' slot='2'"
    " function='1'/></source><teaming type='transient' persistent='ua-x'/></interface>"
)
LAN = "<network><name>lan</name><ip address='192.168.122.1' netmask='255.255.255.0'/></network>"


class FakeError(Exception):
    def get_error_code(self) -> int:
        return int(self.args[1])


class Conn:
    """A target with one PCI device, one emulator of its own, and one network."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.fails = fails
        self.asked: list[str] = []

    def _ask(self, what: str, there: bool, error: Exception) -> None:
        self.asked.append(what)
        if self.fails is not None:
            raise self.fails
        if not there:
            raise error

    def getDomainCapabilities(self, path: str, *_more: Any) -> str:  # noqa: N802
        error = FakeError(f"Cannot check QEMU binary {path}: No such file or directory", 38)
        self._ask(path, path == "/opt/qemu", error)
        return ""

    def nodeDeviceLookupByName(self, name: str) -> object:  # noqa: N802
        error = FakeError("Node device not found", 53)
        self._ask(name, name == "pci_0000_5e_00_1", error)
        return object()

    def listAllNetworks(self, _flags: int) -> list[Any]:  # noqa: N802
        self._ask("networks", True, FakeError("", 0))
        return [SimpleNamespace(XMLDesc=lambda _flags: LAN)]


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_devices, "libvirt", SimpleNamespace(libvirtError=FakeError))


def vnc(attributes: str = "", listen: str = "", kind: str = "vnc") -> str:
    return f"<graphics type='{kind}' {attributes}>{listen}</graphics>"


def at(address: str) -> str:
    return vnc("autoport='yes'", f"<listen type='address' address='{address}'/>")


def found(devices: str, taken: Mapping[int, str] | None = None, conn: Conn | None = None) -> list[tuple[Reason, str]]:
    findings = missing_devices(conn or Conn(), parse_domain(domain(devices)), TARGET, taken or {})
    return [(finding.reason, finding.message) for finding in findings]


@pytest.mark.parametrize(
    ("devices", "reason", "names"),
    [
        ("<emulator>/opt/gone</emulator>", Reason.EmulatorMissing, "/opt/gone"),
        (at("10.0.0.7"), Reason.GraphicsNotLiveMigratable, "10.0.0.7"),
        (at("fd00::7"), Reason.GraphicsNotLiveMigratable, "fd00::7"),
        (vnc("", "<listen type='network' network='dmz'/>"), Reason.GraphicsNotLiveMigratable, "'dmz'"),
        (vnc("port='5951' autoport='no'"), Reason.GraphicsNotLiveMigratable, "5951, which db-1 has"),
        (vnc("port='5951'"), Reason.GraphicsNotLiveMigratable, "5951"),
        (vnc("tlsPort='5951'", kind="spice"), Reason.GraphicsNotLiveMigratable, "SPICE"),
        (hostdev("pci", teaming=TEAMING), Reason.HostDeviceNotLiveMigratable, "0000:3b:02.1"),
        (VF.format(""), Reason.HostDeviceNotLiveMigratable, "0000:3b:02.1"),
    ],
)
def test_what_the_target_lacks(devices: str, reason: Reason, names: str) -> None:
    ((code, message),) = found(devices, {5951: "db-1"})
    assert code is reason
    assert names in message
    assert "host-b" in message


@pytest.mark.parametrize(
    "devices",
    [
        "",
        "<emulator>/opt/qemu</emulator>",
        *(at(address) for address in ("0.0.0.0", "127.0.0.1", "::", "::1", "192.168.122.1")),
        at("vnc.example.org"),
        vnc("", "<listen type='network' network='lan' address='10.0.0.7'/>"),
        vnc("", "<listen type='socket' socket='/run/x.sock'/>"),
        vnc("port='5951' autoport='yes'"),
        vnc("port='5950' autoport='no'"),
        vnc("port='-1'"),
        VF.format("network='vfs'"),
        hostdev("pci", "<address domain='0' bus='0x5e' slot='0' function='1'/>", TEAMING),
        hostdev("pci"),
    ],
)
def test_what_the_target_has(devices: str) -> None:
    assert found(devices, {5951: "db-1"}) == []


def test_an_emulator_that_libvirt_lists_is_not_asked_for() -> None:
    conn = Conn()
    assert found(f"<emulator>{LISTED}</emulator>", conn=conn) == []
    assert conn.asked == []


ALL = "<emulator>/opt/gone</emulator>" + hostdev("pci", teaming=TEAMING)


@pytest.mark.parametrize("error", [FakeError("not supported", 3), FakeError("lock", 68)])
def test_what_a_target_cannot_tell_is_no_reason(error: FakeError) -> None:
    assert found(ALL, conn=Conn(error)) == []


def test_a_target_that_does_not_answer_is_no_answer() -> None:
    with pytest.raises(FakeError):
        found(ALL, conn=Conn(FakeError("client socket is closed", 1)))


def test_the_ports_of_a_running_domain() -> None:
    ports = "port='5900' autoport='yes' websocket='5700'"
    assert ports_in_use(domain(vnc(ports) + vnc("port='-1' tlsPort='5901'"))) == {5900, 5700, 5901}
    with pytest.raises(ValueError, match="malformed"):
        ports_in_use("<domain>")
