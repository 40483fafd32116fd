"""Every reason that is known in advance: a row with the trouble, and the same without it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Platform, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.running import (
    Runtime,
    pages_taken,
    source_findings,
    spare_pages,
    target_findings,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.shared_storage import (
    DiskView,
    SourceMounts,
    local_views,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.xml import parse_domain
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts, PoolFacts
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.vmxml import (
    BLOCK,
    COPY,
    IMAGES,
    ISO,
    MIB,
    OTHER,
    UUID,
    disk,
    domain,
    host,
    hostdev,
    interface,
)


@dataclass
class Case:
    """`xml` has the trouble; `without` is the same without it. Both see the same hosts."""

    name: str
    reason: Reason
    names: str
    xml: str
    without: str = field(default_factory=domain)
    source: HostFacts = field(default_factory=host)
    target: HostFacts = field(default_factory=host)
    well: HostFacts | None = None
    runtime: Runtime = field(default_factory=Runtime)
    fine: Runtime = field(default_factory=Runtime)
    view: DiskView = field(default_factory=lambda: DiskView(False, False, 10 * MIB))
    good_view: DiskView = field(default_factory=lambda: DiskView(False, False, 10 * MIB))
    block_migration: bool = True
    cpu: tuple[Finding, ...] = ()


SHARED = DiskView(True, True)

AUTH = "<auth username='libvirt'><secret type='ceph' {}/></auth>"
RBD = "<source protocol='rbd' name='vms/web-1'><host name='ceph-1'/>" + AUTH + "</source>"
TPM = "<tpm model='tpm-crb'><backend type='{}' {}>{}</backend></tpm>"
HUGE = "<memoryBacking><hugepages>{}</hugepages></memoryBacking>"
NETFS = PoolFacts("nfs", "netfs", "/srv/nfs", "dir.path=/export host.name=nas-1", 0)
VOLUME = domain(disk(kind="volume", source="<source pool='nfs' volume='web-1.qcow2'/>"))

QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
ARGUMENTS = (
    f"<commandline xmlns='{QEMU}'><arg value='-drive'/><arg value='file=/srv/x,password=sesame'/>"
    "<arg value='-device'/><arg value='sdhci'/><env name='LD_PRELOAD' value='/x.so'/></commandline>"
)
DECLARED = (
    "<v:vm xmlns:v='https://virtops.example/xmlns/maintenance/1'><v:qemuCommandLine>{}</v:qemuCommandLine></v:vm>"
)
LOCAL = domain(disk(kind="volume", source="<source pool='default' volume='web-1.qcow2'/>"))
NBD = "<source protocol='nbd' name='d'><host name='nas-1' port='10809'/></source>"
BASE = (
    "<backingStore type='file'><format type='qcow2'/><source file='/images/base.qcow2'/><backingStore/></backingStore>"
)
SLICE = (
    f"<source file='{IMAGES}/web-1.qcow2'><slices><slice type='storage' offset='512' size='1048576'/></slices></source>"
)

CASES = [
    # Disks
    Case("copying not allowed", Reason.DisksNotLiveMigratable, "vda", COPY, COPY, block_migration=False,
         good_view=SHARED),
    Case("may be shared", Reason.DisksNotLiveMigratable, "shared_paths", COPY, COPY, view=DiskView(None, True)),
    Case("transient", Reason.DisksNotLiveMigratable, "transient", domain(disk("<transient/>")), COPY),
    Case("shareable", Reason.DisksNotLiveMigratable, "shareable", domain(disk("<shareable/>")), COPY),
    Case("encrypted", Reason.DisksNotLiveMigratable, "encrypted",
         domain(disk("<encryption format='luks'/>")), COPY),
    Case("format", Reason.DisksNotLiveMigratable, "vmdk", domain(disk().replace("qcow2'/", "vmdk'/", 1)), COPY),
    Case("local block device", Reason.DisksNotLiveMigratable, "/dev/vg0/web-1",
         domain(disk(kind="block", source=BLOCK)), domain(disk(kind="block", source=BLOCK)),
         good_view=SHARED),
    Case("block device not on target", Reason.DisksNotLiveMigratable, "not visible on host-b",
         domain(disk(kind="block", source=BLOCK)), domain(disk(kind="block", source=BLOCK)),
         view=DiskView(True, False), good_view=SHARED),
    Case("directory", Reason.DisksNotLiveMigratable, "directory",
         domain(disk(kind="dir", source="<source dir='/srv/x'/>")), COPY),
    Case("vhost-user", Reason.DisksNotLiveMigratable, "vhost-user",
         domain(disk(kind="vhostuser", source="<source type='unix' path='/tmp/v.sock'/>")), COPY),
    Case("NVMe", Reason.DisksNotLiveMigratable, "NVMe",
         domain(disk(kind="nvme", source="<source type='pci' namespace='1'/>")), COPY),
    Case("network disk on localhost", Reason.DisksNotLiveMigratable, "localhost",
         domain(disk(kind="network", source="<source protocol='nbd' name='d'>"
                     "<host name='localhost' port='10809'/></source>")),
         domain(disk(kind="network", source="<source protocol='nbd' name='d'>"
                     "<host name='nas-1' port='10809'/></source>"))),
    Case("network disk on a socket", Reason.DisksNotLiveMigratable, "/run/nbd.sock",
         domain(disk(kind="network", source="<source protocol='nbd' name='d'>"
                     "<host transport='unix' socket='/run/nbd.sock'/></source>"))),
    Case("network disk on a local file", Reason.DisksNotLiveMigratable, "/images/base.qcow2, which is on this host",
         domain(disk(kind="network", source=NBD, inner=BASE)),
         domain(disk(kind="network", source=NBD))),
    Case("served here", Reason.DisksNotLiveMigratable, "10.0.0.1, which is this host itself", COPY, COPY,
         view=DiskView(None, held="is served at 10.0.0.1, which is this host itself")),
    Case("libvirt does not know it as shared", Reason.DisksNotLiveMigratable, "shared_filesystems", COPY, COPY,
         view=DiskView(True, True, unsafe="name it in shared_filesystems"), good_view=SHARED),
    Case("a part of a file", Reason.DisksNotLiveMigratable, "slices",
         domain(disk(source=SLICE)), COPY),
    Case("a base that the definition names", Reason.DisksNotLiveMigratable, "/images/base, which is not on host-b",
         COPY, COPY,
         view=DiskView(False, False, MIB, lacks="stands on /images/base, which is not on")),
    Case("a base that the target lacks", Reason.DisksNotLiveMigratable, "/images/base, which is not on host-b",
         COPY, COPY, view=DiskView(True, False, lacks="stands on /images/base, which is not on"),
         good_view=SHARED),
    Case("a file in the way", Reason.DisksNotLiveMigratable, "cannot be copied: /x exists on the target",
         COPY, COPY, view=DiskView(False, True, MIB, in_the_way="/x exists on the target")),
    Case("another directory", Reason.DisksNotLiveMigratable, "'default', which is /other on host-b", LOCAL, LOCAL,
         target=host(pools={"default": PoolFacts("default", "dir", "/other", "", 100 * MIB)}),
         well=host()),
    Case("CD-ROM from a local path", Reason.DisksNotLiveMigratable, "eject",
         domain(disk(device="cdrom", source=ISO)), domain(disk(device="cdrom", source=ISO)),
         good_view=DiskView(False, True)),
    Case("CD-ROM must stay", Reason.DisksNotLiveMigratable, "eject",
         domain(disk(device="cdrom", source=ISO.replace("/>", " startupPolicy='mandatory'/>"))),
         domain(disk(device="cdrom", source=ISO.replace("/>", " startupPolicy='optional'/>")))),
    Case("a floppy that can be written", Reason.DisksNotLiveMigratable, "floppy that the guest can write",
         domain(disk(device="floppy", source=ISO)), domain(disk("<readonly/>", device="floppy", source=ISO)),
         view=DiskView(False, True), good_view=DiskView(False, True)),
    Case("read-only local disk", Reason.DisksNotLiveMigratable, "not visible", domain(disk("<readonly/>")),
         domain(disk("<readonly/>")), good_view=DiskView(False, True)),
    Case("no pool to copy to", Reason.DisksNotLiveMigratable, f"no active storage pool at {IMAGES}", COPY, COPY,
         target=host(pools={}), well=host()),
    Case("pool too small", Reason.DisksNotLiveMigratable, "100 MiB there", COPY, COPY,
         view=DiskView(False, False, 101 * MIB)),
    Case("pool missing", Reason.DisksNotLiveMigratable, "'nfs'", VOLUME, VOLUME, view=SHARED, good_view=SHARED,
         source=host(pools={"nfs": NETFS}), well=host(pools={"nfs": NETFS})),
    Case("pool on other storage", Reason.DisksNotLiveMigratable, "other storage", VOLUME, VOLUME, view=SHARED,
         good_view=SHARED, source=host(pools={"nfs": NETFS}),
         target=host(pools={"nfs": replace(NETFS, source="dir.path=/x host.name=nas-2")}),
         well=host(pools={"nfs": NETFS})),
    # Interfaces
    Case("network missing", Reason.InterfaceNotLiveMigratable, "'dmz'",
         domain(interface("network", "network='dmz'")),
         domain(interface("network", "network='lan'"))),
    Case("network of a live domain", Reason.InterfaceNotLiveMigratable, "network 'dmz'",
         domain(interface("bridge", "network='dmz' bridge='virbr7'")),
         domain(interface("bridge", "network='lan' bridge='virbr7'"))),
    Case("bridge missing", Reason.InterfaceNotLiveMigratable, "bridge 'br7'",
         domain(interface("bridge", "bridge='br7'")), domain(interface("bridge", "bridge='br0'"))),
    Case("macvtap device missing", Reason.InterfaceNotLiveMigratable, "'eth7'",
         domain(interface("direct", "dev='eth7' mode='bridge'")),
         domain(interface("direct", "dev='eth0' mode='bridge'"))),
    Case("vDPA", Reason.InterfaceNotLiveMigratable, "/dev/vhost-vdpa-0",
         domain(interface("vdpa", "dev='/dev/vhost-vdpa-0'"))),
    # Hotplugged
    Case("module without address", Reason.HotplugNotLiveMigratable, "512 MiB",
         domain("<memory model='dimm'><target><size unit='MiB'>512</size></target></memory>"),
         domain("<memory model='dimm'><target><size unit='MiB'>512</size></target>"
                "<address type='dimm' slot='0' base='0x100000000'/></memory>")),
    Case("module from a file", Reason.HotplugNotLiveMigratable, "/dev/pmem0",
         domain("<memory model='nvdimm'><source><path>/dev/pmem0</path></source></memory>")),
    Case("shared memory", Reason.SharedMemoryNotLiveMigratable, "'shm'", domain("<shmem name='shm' role='peer'/>"),
         domain("<shmem name='shm' role='master'/>")),
    # Bound to the host
    Case("virtiofs", Reason.VirtIOFSNotLiveMigratable, "/srv/share",
         domain("<filesystem type='mount'><driver type='virtiofs'/><source dir='/srv/share'/>"
                "<target dir='s'/></filesystem>")),
    Case("9p", Reason.VirtIOFSNotLiveMigratable, "9p",
         domain("<filesystem type='mount'><source dir='/srv/share'/><target dir='s'/>"
                "</filesystem>")),
    Case("PCI device", Reason.HostDeviceNotLiveMigratable, "0000:3b:02.1", domain(hostdev("pci")),
         domain(hostdev("pci", teaming="<teaming type='transient' persistent='ua-x'/>"))),
    Case("USB device", Reason.HostDeviceNotLiveMigratable, "0x1050",
         domain(hostdev("usb", "<vendor id='0x1050'/><product id='0x0407'/>"))),
    Case("mediated device", Reason.HostDeviceNotLiveMigratable, OTHER,
         domain(hostdev("mdev", f"<address uuid='{OTHER}'/>"))),
    Case("SCSI device", Reason.HostDeviceNotLiveMigratable, "scsi_host2",
         domain(hostdev("scsi", "<adapter name='scsi_host2'/><address bus='0' target='1'/>"))),
    Case("VF of a network", Reason.HostDeviceNotLiveMigratable, "interface",
         domain("<interface type='hostdev' managed='yes'><source><address type='pci' "
                "domain='0' bus='0x3b' slot='2' function='1'/></source></interface>"),
         domain("<interface type='hostdev' managed='yes'><source><address type='pci' "
                "domain='0' bus='0x3b' slot='2' function='1'/></source>"
                "<teaming type='transient' persistent='ua-x'/></interface>")),
    Case("serial port", Reason.HostDeviceNotLiveMigratable, "/dev/ttyS0",
         domain("<serial type='dev'><source path='/dev/ttyS0'/></serial>"),
         domain("<serial type='pty'><source path='/dev/pts/0'/></serial>")),
    Case("event device", Reason.HostDeviceNotLiveMigratable, "/dev/input/event3",
         domain("<input type='passthrough'><source evdev='/dev/input/event3'/></input>"),
         domain("<input type='tablet' bus='usb'/>")),
    Case("SEV", Reason.SEVNotLiveMigratable, "sev", domain(top="<launchSecurity type='sev'/>")),
    Case("SEV-SNP", Reason.SEVNotLiveMigratable, "sev-snp", domain(top="<launchSecurity type='sev-snp'/>")),
    Case("Secure Execution", Reason.SecureExecutionNotLiveMigratable, "s390-pv",
         domain(top="<launchSecurity type='s390-pv'/>")),
    Case("TDX", Reason.TDXNotLiveMigratable, "tdx", domain(top="<launchSecurity type='tdx'/>")),
    Case("unknown launch security", Reason.LaunchSecurityNotLiveMigratable, "cca",
         domain(top="<launchSecurity type='cca'/>")),
    Case("arguments for QEMU", Reason.QEMUCommandLineNotDeclared, "-drive, -device, variable LD_PRELOAD",
         domain(top=f"<metadata>{DECLARED.format('yes')}</metadata>{ARGUMENTS}"),
         domain(top=f"<metadata>{DECLARED.format('portable')}</metadata>{ARGUMENTS}")),
    Case("a device of QEMU overridden", Reason.QEMUCommandLineNotDeclared, "override of disk0",
         domain(top=f"<override xmlns='{QEMU}'><device alias='disk0'/></override>"),
         domain(top=f"<capabilities xmlns='{QEMU}'><del capability='x'/></capabilities>")),
    Case("Hyper-V passthrough", Reason.HypervPassthroughNotLiveMigratable, "passthrough",
         domain(top="<features><hyperv mode='passthrough'/></features>"),
         domain(top="<features><hyperv mode='custom'><relaxed state='on'/></hyperv></features>")),
    Case("persistent reservation", Reason.PersistentReservationNotLiveMigratable, "vda",
         domain(disk(kind="block", device="lun",
                     source="<source dev='/dev/vg0/web-1'><reservations managed='yes'/></source>")),
         domain(disk(kind="block", device="lun", source=BLOCK)), view=SHARED, good_view=SHARED),
    # CPU, machine
    Case("CPU", Reason.CPUModelNotLiveMigratable, "avx512f", domain(),
         cpu=(Finding(Reason.CPUModelNotLiveMigratable, "CPU X cannot run on host-b: avx512f"),)),
    Case("invariant TSC", Reason.CPUModelNotLiveMigratable, "invtsc",
         domain(top="<cpu mode='custom'><model>EPYC</model>"
                "<feature policy='require' name='invtsc'/></cpu>"),
         domain(top="<cpu mode='custom'><model>EPYC</model>"
                "<feature policy='require' name='invtsc'/></cpu>"
                "<clock offset='utc'><timer name='tsc' frequency='2000000000'/></clock>")),
    Case("whole CPU of the host", Reason.CPUModelNotLiveMigratable, "migratable='off'",
         domain(top="<cpu mode='host-passthrough' migratable='off'/>"),
         domain(top="<cpu mode='host-passthrough' migratable='on'/>")),
    Case("whole CPU of QEMU", Reason.CPUModelNotLiveMigratable, "migratable='off'",
         domain(top="<cpu mode='maximum' migratable='off'/>"),
         domain(top="<cpu mode='maximum' migratable='off'/>"
                "<clock offset='utc'><timer name='tsc' frequency='2000000000'/></clock>")),
    Case("machine type", Reason.MachineTypeMissing, "pc-q35-9.2", domain(machine="pc-q35-9.2")),
    Case("no KVM", Reason.MachineTypeMissing, "type kvm", domain(), domain(),
         target=host(machines={("qemu", "x86_64"): frozenset({"pc-q35-7.2"})}), well=host()),
    # State
    Case("snapshots", Reason.SnapshotsPresent, "2", domain(), runtime=Runtime(snapshots=2)),
    Case("checkpoints", Reason.CheckpointsPresent, "3", domain(), runtime=Runtime(checkpoints=3)),
    Case("QEMU blocks", Reason.MigrationBlockedByQEMU, "usb-audio", domain(),
         runtime=Runtime(blockers=("non-migratable device: 0/usb-audio",))),
    Case("block job", Reason.BlockJobRunning, "vda", domain(), runtime=Runtime(block_jobs=("vda",))),
    Case("name taken", Reason.NameTaken, OTHER, domain(),
         target=host(domains={"web-1": OTHER}), well=host(domains={"web-1": UUID})),
    Case("UUID taken", Reason.NameTaken, "'web-old'", domain(),
         target=host(domains={"web-old": UUID}), well=host()),
    # Secrets, memory, CPUs
    Case("secret by UUID", Reason.SecretMissing, OTHER,
         domain(disk(kind="network", source=RBD.format(f"uuid='{OTHER}'"))),
         domain(disk(kind="network", source=RBD.format(f"uuid='{UUID}'")))),
    Case("secret by usage", Reason.SecretMissing, "ceph client.other",
         domain(disk(kind="network", source=RBD.format("usage='client.other'"))),
         domain(disk(kind="network", source=RBD.format("usage='client.libvirt'")))),
    Case("secret of a TPM", Reason.SecretMissing, "tpm",
         domain(TPM.format("emulator", "version='2.0'", f"<encryption secret='{OTHER}'/>")),
         domain(TPM.format("emulator", "version='2.0'", f"<encryption secret='{UUID}'/>"))),
    Case("huge pages of a size", Reason.HugepagesMissing, "1048576 KiB",
         domain(top=HUGE.format("<page size='1' unit='GiB'/>")),
         domain(top=HUGE.format("<page size='2' unit='MiB'/>"))),
    Case("huge pages of any size", Reason.HugepagesMissing, "any size", domain(top=HUGE.format("")),
         domain(top=HUGE.format("")), target=host(huge_pages={2048: {0: 1023}}), well=host()),
    Case("pinned CPU", Reason.PinningNotLiveMigratable, "CPUs 8, 9",
         domain(top="<cputune><vcpupin vcpu='0' cpuset='7-9'/></cputune>"),
         domain(top="<cputune><vcpupin vcpu='0' cpuset='0-7,^3'/></cputune>")),
    Case("cpuset", Reason.PinningNotLiveMigratable, "CPUs 9",
         domain(top="<vcpu cpuset='9'>2</vcpu>").replace("<vcpu>2</vcpu>", "")),
    Case("NUMA node", Reason.PinningNotLiveMigratable, "NUMA nodes 3",
         domain(top="<numatune><memory mode='strict' nodeset='3'/></numatune>"),
         domain(top="<numatune><memory mode='strict' nodeset='0-1'/></numatune>")),
    # TPM
    Case("TPM of the host", Reason.TPMStateNotLiveMigratable, "/dev/tpm0",
         domain(TPM.format("passthrough", "", "<device path='/dev/tpm0'/>")),
         domain(TPM.format("emulator", "version='2.0'", ""))),
    Case("shared TPM state, old source", Reason.TPMStateNotLiveMigratable, "host-b",
         domain(TPM.format("emulator", "", "")), domain(TPM.format("emulator", "", "")),
         source=host(libvirt_version=8009000), runtime=Runtime(tpm_shared=True),
         fine=Runtime(tpm_shared=False)),
    Case("shared TPM state, old target", Reason.TPMStateNotLiveMigratable, "host-b",
         domain(TPM.format("emulator", "", "")), domain(TPM.format("emulator", "", "")),
         target=host(libvirt_version=8009000), well=host(), runtime=Runtime(tpm_shared=True),
         fine=Runtime(tpm_shared=True)),
]  # fmt: skip

SAVE_ONLY = {Reason.TransientDomain}
# Given by others: placement, the state of the domain.
OURS = {
    Reason.DisksNotLiveMigratable, Reason.InterfaceNotLiveMigratable, Reason.HotplugNotLiveMigratable,
    Reason.VirtIOFSNotLiveMigratable, Reason.HostDeviceNotLiveMigratable,
    Reason.SEVNotLiveMigratable, Reason.SecureExecutionNotLiveMigratable, Reason.TDXNotLiveMigratable, Reason.HypervPassthroughNotLiveMigratable,
    Reason.PersistentReservationNotLiveMigratable, Reason.CPUModelNotLiveMigratable, Reason.MachineTypeMissing, Reason.SnapshotsPresent,
    Reason.NameTaken, Reason.SecretMissing, Reason.HugepagesMissing, Reason.PinningNotLiveMigratable, Reason.TPMStateNotLiveMigratable,
    Reason.BlockJobRunning, Reason.TransientDomain, Reason.CheckpointsPresent, Reason.MigrationBlockedByQEMU,
    Reason.QEMUCommandLineNotDeclared, Reason.SharedMemoryNotLiveMigratable, Reason.LaunchSecurityNotLiveMigratable,
}  # fmt: skip


def all_findings(
    case: Case, xml: str, target: HostFacts, runtime: Runtime, view: DiskView, block: bool
) -> list[Finding]:
    spec = parse_domain(xml)
    views = {"vda": view}
    if spec.disks and spec.disks[0].type == "network":
        views = local_views(spec, case.source, mounts=SourceMounts(own=lambda _host: False))
    cpu = case.cpu if xml == case.xml and target is case.target and runtime is case.runtime else ()
    found = source_findings(spec, case.source, runtime, views, block)
    return [*found, *target_findings(spec, case.source, target, views, runtime=runtime, cpu=cpu)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_with_the_trouble(case: Case) -> None:
    found = all_findings(case, case.xml, case.target, case.runtime, case.view, case.block_migration)
    assert {f.reason for f in found} == {case.reason}
    assert any(case.names in f.message for f in found), [f.message for f in found]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_the_trouble(case: Case) -> None:
    target = case.well or case.target
    assert all_findings(case, case.without, target, case.fine, case.good_view, True) == []


def test_every_reason_of_ours_is_provoked() -> None:
    assert {case.reason for case in CASES} | SAVE_ONLY == OURS


def test_a_value_that_qemu_is_given_is_never_told() -> None:
    found = source_findings(parse_domain(domain(top=ARGUMENTS)), host(), Runtime())
    assert "sesame" not in str([finding.to_dict(Platform.LIBVIRT) for finding in found])


def test_a_message_never_proposes_the_unsafe_flag() -> None:
    for case in CASES:
        found = all_findings(case, case.xml, case.target, case.runtime, case.view, case.block_migration)
        for finding in found:
            text = str(finding.to_dict(Platform.LIBVIRT)).lower()
            assert "unsafe" not in text
            assert "force" not in text


def test_what_is_not_known_of_a_target_is_no_reason() -> None:
    unknown = HostFacts(hostname="host-b")
    devices = disk() + interface("network", "network='dmz'") + interface("bridge", "bridge='b'")
    top = HUGE.format("") + "<cputune><vcpupin vcpu='0' cpuset='900'/></cputune>"
    spec = parse_domain(domain(devices, top))
    assert target_findings(spec, unknown, unknown, {"vda": DiskView(True)}) == ()


def test_huge_pages_are_counted_as_they_are_asked_for() -> None:
    one, any_size = "hugepages of 1048576 KiB", "hugepages of any size"
    assert spare_pages(host(huge_pages={2048: {0: 100, 1: 28}, 1048576: {0: 3}})) == {
        "hugepages of 2048 KiB": 256,
        one: 3072,
        any_size: 3072,
    }
    assert spare_pages(host(huge_pages={})) == {any_size: 0}
    assert spare_pages(host(huge_pages=None)) is None
    assert pages_taken(parse_domain(domain())) == {}
    assert pages_taken(parse_domain(domain(top=HUGE.format("<page size='1' unit='GiB'/>")))) == {one: 2048}
    assert pages_taken(parse_domain(domain(top=HUGE.format("")))) == {any_size: 2048}
