"""LiveMigratable in advance: every reason why a domain cannot move, found before it is tried.

Pure. The rules are libvirt's own (qemuMigrationSrcIsAllowed and qemuMigrationSrcIsSafe in
src/qemu/qemu_migration.c), and stricter where libvirt moves a guest that would not be well
afterwards: a USB device of the host, a CD-ROM from a local path. The disks: disk_moves.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..._core.reasons.reason import Finding, Reason
from ..domain.spec import DomainSpec, HugePages
from ..host.facts import HostFacts
from .disk_moves import missing_disks, stuck_disks
from .shared_storage import DiskView

# libvirt that keeps the state of a TPM on shared storage when its domain migrates
# (NEWS, v8.10.0); older ones let source and target write it.
_SHARED_TPM_SINCE = 8010000
# The owner's word in our element of the metadata, and the one value that it can have.
QEMU_COMMAND_LINE, PORTABLE = "qemuCommandLine", "portable"
_SECURITY = {
    "sev": Reason.SEVNotLiveMigratable,
    "sev-snp": Reason.SEVNotLiveMigratable,
    "s390-pv": Reason.SecureExecutionNotLiveMigratable,
    "tdx": Reason.TDXNotLiveMigratable,
}


@dataclass(frozen=True)
class Runtime:
    """The facts that libvirt has of a domain beside its XML.

    block_jobs: the disks on which one runs. blockers: what QEMU says against a migration.
    tpm_shared: is its TPM state on a shared file system (None: not known, taken as no).
    managed_save: an image to be resumed from is there.
    """

    persistent: bool = True
    autostart: bool = False
    managed_save: bool = False
    snapshots: int = 0
    checkpoints: int = 0
    block_jobs: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    tpm_shared: bool | None = None


def source_findings(
    spec: DomainSpec,
    source: HostFacts,
    runtime: Runtime,
    views: Mapping[str, DiskView] | None = None,
    block_migration: bool = True,
) -> tuple[Finding, ...]:
    """Why the domain can go nowhere. `views`: shared_storage.local_views."""
    found = [*_bound_findings(spec), *unknown_to_libvirt(spec)]
    if runtime.snapshots:  # before what these do to its images: this remedy clears both
        found.append(Finding(Reason.SnapshotsPresent, f"It has snapshots: {runtime.snapshots}."))
    found += stuck_disks(spec, views or {}, block_migration)
    for interface in spec.interfaces:
        if interface.type == "vdpa":
            text = f"The {interface.label} is the vDPA device {interface.device} of the host."
            found.append(Finding(Reason.InterfaceNotLiveMigratable, text))
    if runtime.checkpoints:
        found.append(Finding(Reason.CheckpointsPresent, f"It has checkpoints: {runtime.checkpoints}."))
    if runtime.block_jobs:
        text = f"A block job runs on {', '.join(runtime.block_jobs)}."
        found.append(Finding(Reason.BlockJobRunning, text))
    found += _tpm_findings(spec, runtime, source)
    if runtime.blockers:
        found.append(Finding(Reason.MigrationBlockedByQEMU, f"QEMU says: {'; '.join(runtime.blockers)}."))
    return tuple(found)


def unknown_to_libvirt(spec: DomainSpec) -> Iterator[Finding]:
    """The finding for a VM that passes arguments of its own to QEMU, unless its owner has declared them
    portable: they may name a file or a device of this host, and only the owner knows whether every
    host has the same one."""
    declared = spec.declared.other.get(QEMU_COMMAND_LINE, "")
    if not spec.qemu_extras or declared == PORTABLE:
        return
    text = f"The VM passes its own arguments to QEMU: {', '.join(spec.qemu_extras)}."
    if declared:
        text += f" Its metadata has {QEMU_COMMAND_LINE} {declared!r}, not {PORTABLE!r}."
    yield Finding(Reason.QEMUCommandLineNotDeclared, text)


def target_findings(
    spec: DomainSpec,
    source: HostFacts,
    target: HostFacts,
    views: Mapping[str, DiskView] | None = None,
    *,
    runtime: Runtime | None = None,
    cpu: Sequence[Finding] = (),
    devices: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    """Why the domain cannot go to this target. Capacity is not asked here: placement does.

    `views`: shared_storage.target_views for this target. `cpu`: host/facts.compare_cpu.
    `devices`: target_devices.missing_devices.
    """
    found: list[Finding] = []
    found += _machine_findings(spec, target)
    found += cpu
    found += devices
    found += _name_findings(spec, target)
    for interface in spec.interfaces:
        lacks = target.lacks_link(interface)
        if lacks:
            why = target.why_none("network") if interface.network else ""
            text = f"The {interface.label} needs {lacks}, which is not active on {target.name}{why}."
            found.append(Finding(Reason.InterfaceNotLiveMigratable, text))
    found += missing_disks(spec, source, target, views or {})
    for secret in spec.secrets:
        if target.has_secret(secret.uuid, secret.usage_type, secret.usage) is False:
            why = target.why_none("secret")
            text = f"The {secret.owner} needs the secret {secret.text}, not on {target.name}{why}."
            found.append(Finding(Reason.SecretMissing, text))
    found += _huge_page_findings(spec, target)
    found += _pinning_findings(spec, target)
    if runtime is not None and runtime.tpm_shared:
        found += _old_tpm(target, spec)
    return tuple(found)


def save_findings(spec: DomainSpec, runtime: Runtime) -> tuple[Finding, ...]:
    """Why the domain cannot be saved (managed save). libvirt asks the same as for a migration,
    but for what concerns another host (qemuMigrationSrcIsAllowed, remote = false)."""
    found = list(_bound_findings(spec))
    if not runtime.persistent:
        found.append(Finding(Reason.TransientDomain, "libvirt does not save a transient domain."))
    if runtime.block_jobs:
        text = f"A block job runs on {', '.join(runtime.block_jobs)}."
        found.append(Finding(Reason.BlockJobRunning, text))
    return tuple(found)


def shutdown_findings(spec: DomainSpec) -> tuple[Finding, ...]:
    """Why the domain is not off once its guest has powered off.

    libvirt's documentation of <on_poweroff>: anything but destroy keeps the domain.
    """
    if spec.on_poweroff in ("", "destroy"):
        return ()
    text = f"Its definition has <on_poweroff>{spec.on_poweroff}</on_poweroff>."
    return (Finding(Reason.RestartsOnPowerOff, text),)


def _bound_findings(spec: DomainSpec) -> Iterator[Finding]:
    """Find what binds a running domain to its QEMU process or its host, by its XML alone."""
    for filesystem in spec.filesystems:
        name = "virtiofs" if filesystem.driver == "virtiofs" else "9p"
        text = f"The host directory {filesystem.source} is shared into it by {name}."
        yield Finding(Reason.VirtIOFSNotLiveMigratable, text)
    for device in spec.host_devices:
        if device.unplugged:
            continue
        text = f"The {device.kind} device {device.source} of the host is passed to it."
        yield Finding(Reason.HostDeviceNotLiveMigratable, " ".join(text.split()))
    if spec.launch_security:
        reason = _SECURITY.get(spec.launch_security, Reason.LaunchSecurityNotLiveMigratable)
        yield Finding(reason, f"Its launch security is {spec.launch_security}.")
    if spec.hyperv_passthrough:
        yield Finding(Reason.HypervPassthroughNotLiveMigratable, "features/hyperv has mode='passthrough'.")
    for disk in spec.disks:
        if disk.reservations:
            text = f"Disk {disk.dev} ({disk.source}) uses SCSI persistent reservations."
            yield Finding(Reason.PersistentReservationNotLiveMigratable, text)
    if spec.invariant_tsc and not spec.tsc_frequency:
        text = "CPU feature invtsc needs a TSC frequency (clock/timer name='tsc') to migrate."
        yield Finding(Reason.CPUModelNotLiveMigratable, text)
    whole = spec.cpu_mode in ("host-passthrough", "maximum")
    if whole and not spec.cpu_migratable and not spec.tsc_frequency:
        text = f"CPU mode {spec.cpu_mode} has migratable='off': it exposes features that QEMU cannot migrate."
        yield Finding(Reason.CPUModelNotLiveMigratable, text)
    yield from _memory_findings(spec)


def _memory_findings(spec: DomainSpec) -> Iterator[Finding]:
    for module in spec.memory_modules:
        if module.model == "dimm" and not module.address:
            text = f"A memory module of {module.size_mib} MiB has no slot or base address."
            yield Finding(Reason.HotplugNotLiveMigratable, text)
        elif module.model == "sgx-epc" or module.source:
            text = f"A memory module of model {module.model} stands on the host's {module.source}"
            yield Finding(Reason.HotplugNotLiveMigratable, text.rstrip() + ".")
    for name, role in spec.shared_memory:
        if role != "master":
            text = f"The shared memory device {name!r} does not have role='master'."
            yield Finding(Reason.SharedMemoryNotLiveMigratable, text)


def _tpm_findings(spec: DomainSpec, runtime: Runtime, source: HostFacts) -> Iterator[Finding]:
    for tpm in spec.tpms:
        if tpm.backend in ("passthrough", "external"):
            text = f"Its TPM ({tpm.backend} {tpm.source}) is the host's: libvirt cannot move"
            yield Finding(Reason.TPMStateNotLiveMigratable, f"{text} its state.")
    if runtime.tpm_shared:
        yield from _old_tpm(source, spec)


def _old_tpm(host: HostFacts, spec: DomainSpec) -> Iterator[Finding]:
    emulated = any(tpm.backend == "emulator" for tpm in spec.tpms)
    if emulated and 0 < host.libvirt_version < _SHARED_TPM_SINCE:
        text = f"Its TPM state is on shared storage, and libvirt on {host.name} is older than 8.10."
        yield Finding(Reason.TPMStateNotLiveMigratable, text)


def _machine_findings(spec: DomainSpec, target: HostFacts) -> Iterator[Finding]:
    if not target.machines:
        return
    known = target.machines.get((spec.type, spec.arch))
    if known is None:
        text = f"{target.name} cannot run domains of type {spec.type} for {spec.arch}."
        yield Finding(Reason.MachineTypeMissing, text)
    elif spec.machine and spec.machine not in known:
        text = f"Machine type {spec.machine} is not known to QEMU on {target.name}."
        yield Finding(Reason.MachineTypeMissing, text)


def _name_findings(spec: DomainSpec, target: HostFacts) -> Iterator[Finding]:
    other = target.domains.get(spec.name)
    if other is not None and other != spec.uuid:
        text = f"{target.name} has a domain {spec.name!r} with another UUID, {other}."
        yield Finding(Reason.NameTaken, text)
    for name, uuid in target.domains.items():
        if uuid == spec.uuid and name != spec.name:
            text = f"{target.name} has the UUID {uuid} under another name, {name!r}."
            yield Finding(Reason.NameTaken, text)


def _huge_page_findings(spec: DomainSpec, target: HostFacts) -> Iterator[Finding]:
    if target.huge_pages is None:
        return
    for size, mib in _huge_pages(spec).items():
        sizes = [size] if size else sorted(target.huge_pages)
        if any(-(-mib * 1024 // s) <= (target.free_pages(s) or 0) for s in sizes):
            continue
        kind = f"of {size} KiB" if size else "of any size"
        have = f"{target.free_pages(size)} free pages" if size else "not enough free ones"
        text = f"It needs {mib} MiB in huge pages {kind}; {target.name} has {have}."
        yield Finding(Reason.HugepagesMissing, text)


def _huge_pages(spec: DomainSpec) -> dict[int, int]:
    """Size in KiB, 0 for the host's default size -> MiB."""
    wanted: dict[int, int] = {}
    for page in spec.huge_pages:
        wanted[page.size_kib] = wanted.get(page.size_kib, 0) + _backed_mib(page, spec)
    return wanted


def pages_taken(spec: DomainSpec) -> dict[str, int]:
    """The same as placement counts it, see `spare_pages`."""
    return {_pages(size): mib for size, mib in _huge_pages(spec).items()}


def spare_pages(host: HostFacts) -> dict[str, int] | None:
    """MiB that are free now in huge pages of each size, and in those of any size. None: not known."""
    if host.huge_pages is None:
        return None
    free = {size: (host.free_pages(size) or 0) * size // 1024 for size in host.huge_pages}
    return {**{_pages(size): mib for size, mib in free.items()}, _pages(0): max(free.values(), default=0)}


def _pages(size: int) -> str:
    return f"hugepages of {size} KiB" if size else "hugepages of any size"


def _backed_mib(page: HugePages, spec: DomainSpec) -> int:
    if page.nodeset and spec.numa_cells_mib:
        return sum(spec.numa_cells_mib.get(cell, 0) for cell in page.nodeset)
    others = {cell for other in spec.huge_pages for cell in other.nodeset}
    return spec.memory_mib - sum(spec.numa_cells_mib.get(cell, 0) for cell in others)


def _pinning_findings(spec: DomainSpec, target: HostFacts) -> Iterator[Finding]:
    for pin in spec.pinnings:
        cpus = pin.cpus - target.cpus if target.cpus is not None else frozenset()
        nodes = pin.nodes - target.nodes if target.nodes is not None else frozenset()
        if cpus or nodes:
            kind, missing = ("CPUs", cpus) if cpus else ("NUMA nodes", nodes)
            numbers = ", ".join(str(number) for number in sorted(missing))
            text = f"{pin.where} is bound to {kind} {numbers}, which {target.name} does not have."
            yield Finding(Reason.PinningNotLiveMigratable, text)
