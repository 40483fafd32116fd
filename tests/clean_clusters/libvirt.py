"""Fleets of libvirt hosts in which nothing stands in the way of draining a: definitions of VMs
and what the hosts offer. On b all fits; c may be cordoned, full, tainted or without storage."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

RBD = (
    "<disk type='network' device='disk'><driver name='qemu' type='raw'/>"
    "<auth username='libvirt'><secret type='ceph' uuid='{secret}'/></auth>"
    "<source protocol='rbd' name='pool/{name}'><host name='192.0.2.9' port='6789'/></source>"
    "<target dev='vda' bus='virtio'/></disk>"
)
NFS = (
    "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>"
    "<source file='/srv/shared/{name}.qcow2'/><target dev='vda' bus='virtio'/></disk>"
)
POOL = (
    "<disk type='volume' device='disk'><driver name='qemu' type='raw'/>"
    "<source pool='nfs' volume='{name}.img'/><target dev='vda' bus='virtio'/></disk>"
)
MEDIA = (
    "",
    "<disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>",
    "<disk type='file' device='cdrom'><source file='/srv/shared/tools.iso'/>"
    "<target dev='sda' bus='sata'/><readonly/></disk>",
    "<disk type='file' device='cdrom'><source file='/home/x/tools.iso' startupPolicy='optional'/>"
    "<target dev='sda' bus='sata'/><readonly/></disk>",
)
LINKS = (
    "<interface type='network'><source network='default'/><model type='virtio'/></interface>",
    "<interface type='bridge'><source bridge='br0'/><model type='virtio'/></interface>",
    "<interface type='bridge'><source bridge='br-x.1'/><model type='virtio'/></interface>",
    "<interface type='direct'><source dev='eth1' mode='bridge'/></interface>",
    "<interface type='user'/>",
)
DEVICES = (
    "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>",
    "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>",
    "<vsock model='virtio'><cid auto='yes' address='3'/></vsock>",
    "<memballoon model='virtio'/>",
    "<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0' bus='5'"
    " slot='0' function='1'/></source><teaming type='transient' persistent='ua-n0'/></hostdev>",
)
CPUS = (
    "",
    "<cpu mode='custom' match='exact'><model>Haswell</model></cpu>",
    "<cpu mode='host-model'/>",
    "<cpu mode='host-passthrough' migratable='on'/>",
)
SECRET = "aaaaaaaa-2222-3333-4444-555555555555"
NAMESPACE = "https://virtops.example/xmlns/maintenance/1"


@dataclass
class Guest:
    """A VM of a: its definition, and what it declares. `runs` False: it is off."""

    uuid: str
    name: str
    xml: str
    declared: str
    memory_mib: int
    runs: bool = True
    autostart: bool = True


@dataclass
class Fleet:
    """`third`: what is odd about host c. `versions`: of a, b and c, each at least that of a."""

    seed: int
    guests: list[Guest] = field(default_factory=list)

    def __post_init__(self) -> None:
        dice = self.dice = random.Random(self.seed)
        self.third = dice.choice(["", "cordoned", "full", "tainted", "other labels"])
        self.tainted = dice.random() < 0.3  # all of them, and all VMs tolerate it
        old = dice.choice([9000000, 10000000])
        self.versions = (old, old + dice.choice([0, 1000]), old + 3000)
        for number in range(dice.randint(1, 6)):
            self.guests.append(self._guest(number))

    def _guest(self, number: int) -> Guest:
        dice, name = self.dice, f"vm{number}"
        uuid = f"11111111-2222-3333-4444-5555555555{number:02d}"
        memory = dice.choice([512, 1024, 2048])
        disk = dice.choice([RBD, NFS, POOL]).format(name=name, secret=SECRET)
        links = "".join(dice.sample(LINKS, dice.randint(1, 2)))
        devices = "".join(dice.sample(DEVICES, dice.randint(0, 3)))
        backing, pins = "", ""
        if dice.random() < 0.2:
            pages = "<hugepages><page size='2048' unit='KiB'/></hugepages>"
            backing = f"<memoryBacking>{pages}</memoryBacking>"
        if dice.random() < 0.2:
            pins = "<cputune><vcpupin vcpu='0' cpuset='0-3,^2'/></cputune>"
        xml = (
            f"<domain type='kvm'><name>{name}</name><uuid>{uuid}</uuid>{self._says()}"
            f"<memory unit='MiB'>{memory}</memory>{backing}<vcpu>2</vcpu>{pins}"
            "<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type>"
            f"<nvram>/var/lib/libvirt/qemu/nvram/{name}.fd</nvram></os>{dice.choice(CPUS)}"
            f"<devices>{disk}{dice.choice(MEDIA)}{links}{devices}</devices></domain>"
        )
        runs, starts = dice.random() < 0.9, dice.random() < 0.5
        return Guest(uuid, name, xml, self._ours, memory, runs, starts)

    def _says(self) -> str:
        """Our element of its metadata; kept for who asks for it alone."""
        dice = self.dice
        says = dice.choice(["", "<evictionStrategy>LiveMigrate</evictionStrategy>"])
        if dice.random() < 0.3:
            says += dice.choice(["<nodeSelector>zone=a</nodeSelector>", "<affinity>zone In a|b</affinity>"])
        if self.tainted:
            says += "<tolerations>dedicated=db:NoSchedule</tolerations>"
        self._ours = f"<vm xmlns='{NAMESPACE}'>{says}</vm>"
        return f"<metadata>{self._ours}</metadata>"
