"""Domain XML: what is read from it, and what does not disturb it."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import (
    DiskSpec,
    HugePages,
    Pinning,
    SecretRef,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.xml import parse_cpuset, parse_domain

# A live domain as libvirt 9.0 prints it, shortened.
LIVE = """<domain type='kvm' id='7' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>db-1</name>
  <uuid>599127a4-925a-4fb7-9290-6a7a0f055c6e</uuid>
  <title>a database</title>
  <metadata>
    <app:other xmlns:app="http://example.org/app"><app:evictionStrategy>x</app:evictionStrategy>
    </app:other>
    <virtops:vm xmlns:virtops="https://virtops.example/xmlns/maintenance/1">
      <virtops:evictionStrategy>External</virtops:evictionStrategy>
      <virtops:label name="tier">gold</virtops:label>
      <virtops:label name="team">db</virtops:label>
      <virtops:antiAffinityGroup>db</virtops:antiAffinityGroup>
      <evictionRequested run="r1"/>
      <evacuationNodeName>host-a</evacuationNodeName>
      <virtops:owner>someone</virtops:owner>
      <virtops:annotation name="ticket">4711</virtops:annotation>
      <virtops:rest>of it</virtops:rest>
    </virtops:vm>
  </metadata>
  <maxMemory slots='4' unit='KiB'>8388608</maxMemory>
  <memory unit='KiB'>4194305</memory>
  <currentMemory unit='KiB'>1048576</currentMemory>
  <memoryBacking><hugepages><page size='2048' unit='KiB' nodeset='0'/>
    <page size='1' unit='G' nodeset='1'/></hugepages></memoryBacking>
  <vcpu placement='static' cpuset='0-3' current='2'>4</vcpu>
  <cputune><shares>2048</shares><vcpupin vcpu='1' cpuset='2,^3'/><emulatorpin cpuset='0'/></cputune>
  <numatune><memory mode='strict' nodeset='0-1'/><memnode cellid='1' nodeset='1'/></numatune>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
    <loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>
    <nvram template='/usr/share/OVMF/OVMF_VARS.fd'>/var/lib/libvirt/qemu/nvram/db-1_VARS.fd</nvram>
  </os>
  <features><acpi/><hyperv mode='custom'><relaxed state='on'/></hyperv></features>
  <cpu mode='custom' match='exact' check='full'><model fallback='forbid'>EPYC</model>
    <feature policy='require' name='invtsc'/>
    <numa><cell id='0' cpus='0-1' memory='2048' unit='MiB'/>
      <cell id='1' cpus='2-3' memory='2097152'/></numa></cpu>
  <clock offset='utc'><timer name='rtc'/><timer name='tsc' frequency='2000000000'/></clock>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='none'/>
      <source file='/images/db-1.snap' index='2'/>
      <backingStore type='file' index='3'><format type='qcow2'/><source file='/images/db-1.qcow2'/>
        <backingStore/></backingStore>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='network' device='disk'>
      <driver name='qemu' type='raw'/>
      <auth username='libvirt'><secret type='ceph' usage='client.libvirt'/></auth>
      <source protocol='rbd' name='vms/db-1'><host name='ceph-1' port='6789'/></source>
      <target dev='vdb' bus='virtio'/><shareable/>
    </disk>
    <disk type='volume' device='lun'>
      <source pool='san' volume='unit:0:0:1'><reservations managed='yes'/></source>
      <target dev='sda' bus='scsi'/>
    </disk>
    <disk type='file' device='cdrom'><target dev='sdb' bus='sata'/></disk>
    <interface type='bridge'>
      <mac address='52:54:00:72:02:9c'/><source network='lan' portid='x' bridge='virbr0'/>
    </interface>
    <interface type='direct'><source dev='eth0' mode='bridge'/></interface>
    <hostdev mode='subsystem' type='usb' managed='no'>
      <source><vendor id='0x1050'/><product id='0x0407'/><address bus='1' device='3'/></source>
    </hostdev>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0' persistent_state='yes'>
      <encryption secret='11111111-2222-3333-4444-555555555555'/></backend></tpm>
    <memory model='dimm'><target><size unit='KiB'>524288</size><node>0</node></target>
      <address type='dimm' slot='0' base='0x100000000'/></memory>
    <something-new in='libvirt 42'/>
  </devices>
  <qemu:commandline><qemu:arg value='-foo'/></qemu:commandline>
</domain>"""


def test_a_live_domain() -> None:
    spec = parse_domain(LIVE)
    assert (spec.name, spec.type, spec.arch) == ("db-1", "kvm", "x86_64")
    assert spec.uuid == "599127a4-925a-4fb7-9290-6a7a0f055c6e"
    assert spec.machine == "pc-q35-7.2"
    assert (spec.memory_mib, spec.max_memory_mib) == (4097, 8192)  # rounded up
    assert spec.vcpus == 4
    assert spec.nvram.endswith("db-1_VARS.fd")
    assert spec.loader.endswith("OVMF_CODE.fd")
    assert (spec.cpu_mode, spec.cpu_model) == ("custom", "EPYC")
    assert spec.cpu_xml.startswith("<cpu ")
    assert spec.cpu_xml.endswith("</cpu>")
    assert (spec.invariant_tsc, spec.tsc_frequency) == (True, 2000000000)
    assert spec.hyperv_passthrough is False
    assert spec.launch_security == ""


def test_its_disks() -> None:
    spec = parse_domain(LIVE)
    vda = spec.disk("vda")
    assert (vda.path, vda.format) == ("/images/db-1.snap", "qcow2")
    assert [layer.path for layer in vda.backing] == ["/images/db-1.qcow2"]
    assert (vda.cache, vda.bus, vda.read_only) == ("none", "virtio", False)
    vdb = spec.disk("vdb")
    assert (vdb.protocol, vdb.source, vdb.path) == ("rbd", "rbd://ceph-1/vms/db-1", "")
    assert vdb.shareable
    sda = spec.disk("sda")
    assert (sda.pool, sda.volume, sda.reservations) == ("san", "unit:0:0:1", True)
    assert (spec.disk("sdb").empty, spec.disk("sdb").read_only) == (True, True)
    with pytest.raises(KeyError):
        spec.disk("vdz")


def test_its_devices() -> None:
    spec = parse_domain(LIVE)
    lan, direct = spec.interfaces
    assert (lan.type, lan.network, lan.bridge) == ("bridge", "lan", "virbr0")
    assert (direct.type, direct.device, direct.network) == ("direct", "eth0", "")
    assert [(d.kind, d.source) for d in spec.host_devices] == [("usb", "0x1050:0x0407")]
    assert [t.backend for t in spec.tpms] == ["emulator"]
    assert [(m.model, m.size_mib, m.address) for m in spec.memory_modules] == [("dimm", 512, True)]
    assert spec.secrets == (
        SecretRef("disk vdb", "", "ceph", "client.libvirt"),
        SecretRef("tpm", "11111111-2222-3333-4444-555555555555"),
    )


def test_its_memory_and_pinning() -> None:
    spec = parse_domain(LIVE)
    assert spec.numa_cells_mib == {0: 2048, 1: 2048}
    assert spec.huge_pages == (HugePages(2048, frozenset({0})), HugePages(1048576, frozenset({1})))
    assert spec.pinnings == (
        Pinning("vcpu", cpus=frozenset(range(4))),
        Pinning("vcpupin 1", cpus=frozenset({2})),
        Pinning("emulatorpin", cpus=frozenset({0})),
        Pinning("numatune memory", nodes=frozenset({0, 1})),
        Pinning("numatune memnode", nodes=frozenset({1})),
    )


def test_what_it_declares() -> None:
    declared = parse_domain(LIVE).declared
    assert declared.eviction_strategy == "External"
    assert declared.labels == {"tier": "gold", "team": "db"}
    assert declared.anti_affinity_group == "db"
    assert declared.owner == "someone"
    assert declared.annotations == {"ticket": "4711"}
    assert declared.other == {"rest": "of it"}


@pytest.mark.parametrize(
    ("channel", "connected"),
    [
        ("", False),
        ("<target name='org.qemu.guest_agent.0' state='disconnected'/>", False),
        ("<target name='org.qemu.guest_agent.0' state='connected'/>", True),
        ("<target name='com.redhat.spice.0' state='connected'/>", False),
    ],
)
def test_the_agent_is_known_of_a_running_vm_only(channel: str, connected: bool) -> None:
    body = f"<name>t</name><devices><channel type='unix'>{channel}</channel></devices></domain>"
    assert parse_domain("<domain type='kvm' id='3'>" + body).agent_connected is connected
    assert parse_domain("<domain type='kvm'>" + body).agent_connected is None


def test_the_least_that_libvirt_prints() -> None:
    spec = parse_domain("<domain type='test'><name>t</name><memory>1024</memory></domain>")
    assert (spec.name, spec.memory_mib, spec.max_memory_mib, spec.vcpus) == ("t", 1, 1, 1)
    assert (spec.disks, spec.declared.eviction_strategy, spec.cpu_mode) == ((), "", "")


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        ("<domain><name>t</name>", "domain t: its XML is malformed"),
        ("not xml", "domain of unknown name"),
        ("<network><name>lan</name></network>", "domain lan: no <domain>"),
        ("<domain><name>t</name><memory>much</memory></domain>", "domain t: 'much'"),
        ("<domain><name>t</name><memory unit='furlong'>1</memory></domain>", "'furlong'"),
        ("<domain><name>t</name><vcpu cpuset='a-b'>1</vcpu></domain>", "'a-b'"),
        (
            "<domain><name>t</name><devices><disk type='file'/></devices></domain>",
            "domain t: a disk of type file has no target",
        ),
    ],
)
def test_malformed(xml: str, words: str) -> None:
    with pytest.raises(ValueError, match="domain") as caught:
        parse_domain(xml)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("unit", "mib"), [("b", 1), ("KB", 1), ("KiB", 1), ("k", 1), ("MiB", 1024), ("M", 1024), ("GB", 976563)]
)
def test_units(unit: str, mib: int) -> None:
    xml = f"<domain><name>t</name><memory unit='{unit}'>1024</memory></domain>"
    assert parse_domain(xml).memory_mib == mib


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,^2,8", {0, 1, 3, 8}), ("", set()), ("5", {5}), ("^1,0-2", {0, 2}), (" 1 , 2 ", {1, 2})]
)
def test_cpuset(text: str, numbers: set[int]) -> None:
    assert parse_cpuset(text) == numbers


def test_small_pages_keep_their_size() -> None:
    xml = (
        "<domain><name>t</name><memoryBacking><hugepages><page size='64' unit='KiB'/>"
        "</hugepages></memoryBacking></domain>"
    )
    assert parse_domain(xml).huge_pages == (HugePages(64),)


def test_a_disk_without_a_driver_is_raw() -> None:
    xml = (
        "<domain><name>t</name><devices><disk type='block'><source dev='/dev/sdz'/>"
        "<target dev='sda'/></disk></devices></domain>"
    )
    assert parse_domain(xml).disks == (DiskSpec(dev="sda", type="block", source="/dev/sdz", path="/dev/sdz"),)
