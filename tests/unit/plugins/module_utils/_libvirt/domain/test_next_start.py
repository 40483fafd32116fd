"""What a running domain starts with next, compared with what runs. Pure."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.next_start import changes
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.xml import parse_domain

MAC = "<mac address='52:54:00:00:00:01'/>"
# As libvirt writes a domain that runs: what it found, and what it gave.
LIVE = f"""<domain type='kvm' id='3'><name>web</name>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><kernel>/k</kernel><nvram>/n/web.fd</nvram>
<boot dev='hd'/></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/i/web' index='2'/>
<backingStore type='file'><format type='raw'/><source file='/i/base'/><backingStore/></backingStore>
<target dev='vda' bus='virtio'/><alias name='virtio-disk0'/></disk>
<disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
<interface type='network'>{MAC}<source network='lan' portid='1' bridge='br0'/>
<target dev='vnet3'/><alias name='net0'/></interface>
<hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/><product id='0x2'/>
<address bus='1' device='9'/></source><alias name='hostdev0'/></hostdev>
</devices></domain>"""
DEFINED = f"""<domain type='kvm'><name>web</name>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><kernel>/k</kernel><nvram>/n/web.fd</nvram>
<boot dev='hd'/></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/i/web'/>
<target dev='vda' bus='virtio'/></disk>
<disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
<interface type='network'>{MAC}<source network='lan'/></interface>
<hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/><product id='0x2'/></source>
</hostdev></devices></domain>"""
END = "</devices>"
DISK = "<disk type='file' device='disk'><driver type='raw'/><source file='/i/new'/><target dev='vdb'/></disk>"


def of(defined: str) -> tuple[str, ...]:
    return changes(parse_domain(LIVE), parse_domain(defined))


def test_what_libvirt_fills_in_is_no_difference() -> None:
    assert of(DEFINED) == ()


def test_a_disk_that_forgets_its_changes_runs_on_an_overlay() -> None:
    """As libvirt 9.0 writes it: the overlay is a qcow2 file beside the image."""
    mark = "<transient/><target dev='vda'"
    live = LIVE.replace("/i/web'", "/i/web.TRANSIENT-web'").replace("<target dev='vda'", mark)
    defined = DEFINED.replace("type='qcow2'", "type='raw'").replace("<target dev='vda'", mark)
    assert changes(parse_domain(live), parse_domain(defined)) == ()
    other = parse_domain(defined.replace("/i/web'", "/i/other'"))
    assert changes(parse_domain(live), other) == ("disk vda (/i/other)",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (END, DISK + END, "disk vdb (/i/new)"),
        ("/i/web'", "/i/other'", "disk vda (/i/other)"),
        ("type='qcow2'", "type='raw'", "disk vda (/i/web)"),
        ("<target dev='sda'", "<source file='/iso'/><target dev='sda'", "disk sda (/iso)"),
        ("<target dev='vda'", "<target dev='vdz'", "no disk vda (/i/web)"),
        ("network='lan'", "network='dmz'", "interface 52:54:00:00:00:01 on dmz"),
        (
            "<interface type='network'>" + MAC + "<source network='lan'/>",
            "<interface type='bridge'>" + MAC + "<source bridge='br9'/>",
            "interface 52:54:00:00:00:01 on br9",
        ),
        ("'0x2'", "'0x3'", "usb device 0x1:0x3"),
        (END, "<filesystem><source dir='/srv'/><target dir='s'/></filesystem>" + END, "host directory /srv"),
        (END, "<tpm model='tpm-crb'><backend type='emulator'/></tpm>" + END, "TPM emulator"),
        ("<kernel>/k<", "<kernel>/k2<", "kernel /k2"),
        ("/n/web.fd", "/n/new.fd", "NVRAM /n/new.fd"),
        ("<boot dev='hd'/>", "<boot dev='cdrom'/><boot dev='hd'/>", "boot order cdrom, hd"),
        ("<boot dev='hd'/>", "", "boot order none"),
    ],
)
def test_what_may_tie_it_to_a_host_is_named(old: str, new: str, said: str) -> None:
    assert old in DEFINED
    assert said in of(DEFINED.replace(old, new, 1))


def test_the_order_of_single_devices_counts_too() -> None:
    ordered = DEFINED.replace("<boot dev='hd'/>", "")
    ordered = ordered.replace("<target dev='vda'", "<boot order='1'/><target dev='vda'")
    assert of(ordered) == ("boot order 1 disk vda",)
