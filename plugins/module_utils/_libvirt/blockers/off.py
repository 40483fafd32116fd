"""Why a VM cannot be moved while it is off: what of it stays on its host when nothing is copied.

A cold move is a definition there instead of one here. libvirt copies neither disks nor NVRAM
nor TPM state nor snapshots with it, so everything that belongs to the VM must be on storage
that the other hosts reach. Found before the guest is stopped: afterwards it is down. Pure.

A host directory that is shared into the VM (virtiofs, 9p) is the host's and not the VM's: who
chooses the cold move for such a VM says that the other hosts have a directory for it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..._core.reasons.reason import Finding, Reason
from ..domain.spec import DiskSpec, DomainSpec
from .disk_moves import STAY_WITH_HOST
from .running import Runtime, unknown_to_libvirt
from .shared_storage import DiskView

# Where libvirt keeps the state of emulated TPMs, a directory a domain.
TPM_STATE = "/var/lib/libvirt/swtpm"

Shared = Callable[[str], "bool | None"]


def cold_findings(
    spec: DomainSpec, runtime: Runtime, views: Mapping[str, DiskView], shared: Shared
) -> tuple[Finding, ...]:
    """`views`: shared_storage.local_views. `shared`: is this path on storage that other hosts
    reach (None: not known, taken as no)?"""
    found: list[Finding] = []
    for disk in spec.disks:
        text = _left(disk, views.get(disk.dev, DiskView()))
        if text:
            found.append(Finding(Reason.DisksNotLiveMigratable, f"Disk {disk.dev} ({disk.source}) {text}."))
    found += unknown_to_libvirt(spec)
    found += _history(runtime)
    found += _firmware(spec, shared)
    found += _tpm(spec, shared)
    found += _devices(spec, shared)
    return tuple(found)


def _left(disk: DiskSpec, view: DiskView) -> str:
    """Why the disk would be missing there, or be another one; empty: it would not."""
    if disk.empty or (disk.removable and disk.startup_policy == "optional"):
        return ""  # started without the medium
    if disk.type in STAY_WITH_HOST:
        return f"is {STAY_WITH_HOST[disk.type]}"
    if view.held:
        return view.held
    if view.source_shared:
        return ""
    if disk.removable or disk.read_only:
        # The other host may have the same file: its findings tell (target_findings).
        return "" if disk.startup_policy != "requisite" else "is local removable media that it needs"
    if view.source_shared is None:
        return view.doubt or (
            "may be shared or local: if every host reaches the same data there, name the path in shared_paths"
        )
    return "is local, and nothing can be copied while the VM is off"


def _history(runtime: Runtime) -> Iterator[Finding]:
    """Find what libvirt keeps beside a definition, and because of which it refuses to remove that: snapshots,
    checkpoints, a managed save."""
    if runtime.snapshots:
        yield Finding(Reason.SnapshotsPresent, f"It has snapshots: {runtime.snapshots}.")
    if runtime.checkpoints:
        yield Finding(Reason.CheckpointsPresent, f"It has checkpoints: {runtime.checkpoints}.")
    if runtime.managed_save:
        text = "It has a managed save image here, which would be lost."
        yield Finding(Reason.StateNotLiveMigratable, text)


def _firmware(spec: DomainSpec, shared: Shared) -> Iterator[Finding]:
    if spec.nvram.startswith("/") and not shared(spec.nvram):
        yield nvram_stays(spec.nvram)


def nvram_stays(path: str) -> Finding:
    return Finding(Reason.DisksNotLiveMigratable, f"Its NVRAM {path} is not on shared storage.")


def tpm_state(spec: DomainSpec) -> tuple[str, ...]:
    """Where the state of its emulated TPMs is."""
    return tuple(
        tpm.source if tpm.source.startswith("/") else f"{TPM_STATE}/{spec.uuid}"
        for tpm in spec.tpms
        if tpm.backend == "emulator"
    )


def _tpm(spec: DomainSpec, shared: Shared) -> Iterator[Finding]:
    for path in tpm_state(spec):
        if not shared(path):
            text = f"The state of its TPM in {path} is not on shared storage."
            yield Finding(Reason.TPMStateNotLiveMigratable, text)
    for tpm in spec.tpms:
        if tpm.backend != "emulator":
            text = f"Its TPM ({tpm.backend} {tpm.source}) is the host's own device."
            yield Finding(Reason.TPMStateNotLiveMigratable, text)


def _devices(spec: DomainSpec, shared: Shared) -> Iterator[Finding]:
    """A device of the host: whether another host has the same one is not known."""
    for device in spec.host_devices:
        text = f"The {device.kind} device {device.source} of the host is passed to it."
        yield Finding(Reason.HostDeviceNotLiveMigratable, " ".join(text.split()))
    for interface in spec.interfaces:
        if interface.type == "vdpa":
            text = f"The {interface.label} is the vDPA device {interface.device} of the host."
            yield Finding(Reason.InterfaceNotLiveMigratable, text)
    for module in spec.memory_modules:
        if module.source and not shared(module.source):
            text = f"The contents of a memory module ({module.model}) are in {module.source}."
            yield Finding(Reason.HotplugNotLiveMigratable, text)
