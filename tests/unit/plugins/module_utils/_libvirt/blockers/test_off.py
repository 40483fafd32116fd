"""What keeps a VM where it is while it is off: a row with the trouble, and none without it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.off import cold_findings, tpm_state
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.running import Runtime
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.shared_storage import DiskView
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import (
    DiskSpec,
    DomainSpec,
    FilesystemSpec,
    HostDeviceSpec,
    InterfaceSpec,
    MemoryModule,
    TpmSpec,
)

UUID = "11111111-2222-3333-4444-555555555555"
DISK = DiskSpec("vda", source="/images/web.qcow2", path="/images/web.qcow2")
ISO = "/images/install.iso"


def spec(**more: Any) -> DomainSpec:
    return DomainSpec(UUID, "web", **{"disks": (DISK,), **more})


def disk(**more: Any) -> DomainSpec:
    return spec(disks=(DiskSpec("vda", **{"source": "/x", "path": "/x", **more}),))


def medium(policy: str) -> DomainSpec:
    return disk(device="cdrom", read_only=True, source=ISO, startup_policy=policy)


def reasons(domain: DomainSpec, runtime: Runtime, disk_shared: bool | None, paths_shared: bool | None) -> list[Reason]:
    views = {d.dev: DiskView(disk_shared) for d in domain.disks}
    found = cold_findings(domain, runtime, views, lambda _path: paths_shared)
    assert all(finding.message.endswith(".") for finding in found)
    return [finding.reason for finding in found]


@pytest.mark.parametrize(
    ("domain", "reason"),
    [
        (spec(), Reason.DisksNotLiveMigratable),
        (spec(nvram="/var/lib/libvirt/qemu/nvram/web.fd", disks=()), Reason.DisksNotLiveMigratable),
        (spec(tpms=(TpmSpec("tpm-crb", "emulator"),), disks=()), Reason.TPMStateNotLiveMigratable),
        (spec(memory_modules=(MemoryModule("nvdimm", source="/p"),), disks=()), Reason.HotplugNotLiveMigratable),
        (medium("requisite"), Reason.DisksNotLiveMigratable),
    ],
)
def test_what_is_not_on_shared_storage_stays(domain: DomainSpec, reason: Reason) -> None:
    for not_shared in (False, None):
        assert reasons(domain, Runtime(), not_shared, not_shared) == [reason]
    assert reasons(domain, Runtime(), True, True) == []


@pytest.mark.parametrize(
    ("domain", "runtime", "reason"),
    [
        (spec(), Runtime(snapshots=2), Reason.SnapshotsPresent),
        (spec(), Runtime(checkpoints=1), Reason.CheckpointsPresent),
        (spec(qemu_extras=("-drive",)), Runtime(), Reason.QEMUCommandLineNotDeclared),
        (spec(), Runtime(managed_save=True), Reason.StateNotLiveMigratable),
        (spec(host_devices=(HostDeviceSpec("pci", "3b"),)), Runtime(), Reason.HostDeviceNotLiveMigratable),
        (
            spec(host_devices=(HostDeviceSpec("interface", "3b", "transient"),)),
            Runtime(),
            Reason.HostDeviceNotLiveMigratable,
        ),
        (spec(interfaces=(InterfaceSpec("vdpa", device="/dev/v"),)), Runtime(), Reason.InterfaceNotLiveMigratable),
        (spec(tpms=(TpmSpec("tis", "passthrough", "/dev/tpm0"),)), Runtime(), Reason.TPMStateNotLiveMigratable),
        (disk(type="nvme"), Runtime(), Reason.DisksNotLiveMigratable),
    ],
)
def test_what_stays_whatever_is_shared(domain: DomainSpec, runtime: Runtime, reason: Reason) -> None:
    assert reasons(domain, runtime, True, True) == [reason]


@pytest.mark.parametrize(
    "view",
    [
        DiskView(False, held="is served at the address ::1 of its host"),
        DiskView(None, doubt="stands on /base, which is on this host alone"),
    ],
)
def test_what_a_disk_stands_on_stays_too(view: DiskView) -> None:
    (finding,) = cold_findings(disk(), Runtime(), {"vda": view}, lambda _path: True)
    assert finding.message == f"Disk vda (/x) {view.held or view.doubt}."


@pytest.mark.parametrize(
    "domain",
    [
        disk(source=""),
        medium("optional"),
        medium(""),
        disk(read_only=True),
        spec(disks=(), filesystems=(FilesystemSpec("virtiofs", "/srv"),)),
        spec(disks=(), nvram="nfs://nas-1/web.fd"),
        spec(disks=(), memory_modules=(MemoryModule("dimm"),)),
    ],
)
def test_what_another_host_can_do_without_or_is_asked_about(domain: DomainSpec) -> None:
    assert reasons(domain, Runtime(), False, False) == []


def test_where_the_state_of_a_tpm_is() -> None:
    assert tpm_state(spec(tpms=(TpmSpec("tpm-crb", "emulator"),))) == (f"/var/lib/libvirt/swtpm/{UUID}",)
    assert tpm_state(spec(tpms=(TpmSpec("tpm-crb", "emulator", "/srv/tpm"),))) == ("/srv/tpm",)
    assert tpm_state(spec(tpms=(TpmSpec("tis", "passthrough", "/dev/tpm0"),))) == ()
