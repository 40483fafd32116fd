"""What keeps VMs where they are, on real hosts, beside what libvirt says when asked anyway.

The preflight must name all that is planted, before anything moves.

Each guest has one thing that keeps it where it is. First check mode must name it; then libvirt
is asked to migrate the same guest, or to save it, and its answer is looked at too: either it
refuses, or it does what must not be done (a full host), and then the reason is ours to give.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from demo import plays, preflights, traces
from demo.preflights import Seen
from integration.on_host import ask_libvirt
from recorded.take import compare

from lab import GuestSpec, Lab, own_lab
from lab.guest import SELDOM
from lab.names import gateway
from lab.procs import run
from lab.release import OWN
from lab.storage import PORT, luks

pytestmark = [pytest.mark.lab, pytest.mark.full]

CDROM = (
    "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/>"
    "<source file='/var/lib/libvirt/images/tools.iso'/><target dev='sda' bus='sata'/></disk>"
)
SHARE = "<filesystem type='mount' accessmode='mapped'><source dir='/srv'/><target dir='s'/></filesystem>"
IVSHMEM = "<shmem name='pad'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"
DMZ = "<interface type='network'><source network='dmz'/><model type='virtio'/></interface>"
# Any character device will do. No third serial port: the guest does not tick with one.
DEVICE = "<channel type='dev'><source path='/dev/null'/><target type='virtio' name='host.null'/></channel>"
LUKS = "sealed-luks"
SECRET = "11111111-2222-3333-4444-555555555504"
SECRET_XML = f"<secret><uuid>{SECRET}</uuid></secret>"
SEALED = """
<disk type='network' device='disk'>
  <driver name='qemu' type='raw'/>
  <source protocol='nbd' name='{name}'>
    <host name='{host}' port='{port}'/>
    <encryption format='luks'><secret type='passphrase' uuid='{secret}'/></encryption>
  </source>
  <target dev='vda' bus='virtio'/>
</disk>
"""
MOVES = ""  # libvirt migrates it all the same
# It could be saved instead, were it persistent.
KEPT = {
    "name": "kept",
    "when": "name == 'passing'",
    "strategy": "LiveMigrateIfPossible",
    "on_not_migratable": "save",
    "allow_stop": True,
}


@dataclass(frozen=True)
class Kind:
    """A guest, what is done to it, the reason that check mode gives, and libvirt's answer."""

    spec: GuestSpec
    reason: str
    says: str
    prepare: Callable[[Lab], object] = lambda _lab: None
    flags: tuple[str, ...] = ()
    saved: bool = False


def _other_web(lab: Lab) -> None:
    """Another domain with the same name on the target, off."""
    other = GuestSpec("named", uuid="11111111-2222-3333-4444-555555555555")
    lab.host("host-b").virsh("define", "/dev/stdin", stdin=lab.xml(other))


def _block_job(lab: Lab) -> None:
    """A copy of a disk: it mirrors what is written until somebody ends it."""
    copy = "/var/lib/libvirt/images/copy.qcow2"
    lab.host("host-a").virsh("blockcopy", "copying", "vda", copy, "--transient-job")


def _seal(lab: Lab) -> None:
    """An encrypted disk on shared storage. qemu-img measures for two seconds of a whole core how
    fast that is: before the guests need the cores."""
    run(["sh", "-c", luks(lab.paths.nbd / LUKS, "sesame", 1)])


def _sealed(lab: Lab) -> None:
    """It gets the encrypted disk, whose secret is on host-a alone."""
    host = lab.host("host-a")
    host.virsh("secret-define", "/dev/stdin", stdin=SECRET_XML)
    host.virsh("secret-set-value", SECRET, b64encode(b"sesame").decode())
    xml = SEALED.format(name=LUKS, host=gateway(lab.number), port=PORT, secret=SECRET)
    host.virsh("attach-device", "sealed", "/dev/stdin", "--persistent", stdin=xml)


KINDS = (
    # QEMU refuses it only once the guest has mounted the share, which nobody outside knows.
    Kind(GuestSpec("share", devices_xml=SHARE), "VirtIOFSNotLiveMigratable", MOVES),
    Kind(GuestSpec("network", devices_xml=DMZ), "InterfaceNotLiveMigratable", "dmz"),
    Kind(GuestSpec("medium", devices_xml=CDROM), "DisksNotLiveMigratable", "unsafe|tools.iso"),
    Kind(GuestSpec("shmem", devices_xml=IVSHMEM), "SharedMemoryNotLiveMigratable", "shmem|master"),
    Kind(GuestSpec("device", devices_xml=DEVICE), "HostDeviceNotLiveMigratable", MOVES),
    Kind(GuestSpec("sealed"), "SecretMissing", "secret not found|no secret", _sealed),
    Kind(GuestSpec("passing", persistent=False, devices_xml=DMZ), "TransientDomain", "transient domain", saved=True),
    Kind(
        GuestSpec("snapped", disks=[("local", 8)]),
        "SnapshotsPresent",
        "snapshot",
        lambda lab: lab.host("host-a").virsh("snapshot-create-as", "snapped", "before"),
        flags=("NON_SHARED_DISK",),
    ),
    Kind(
        GuestSpec("copying", disks=[("local", 64)]),
        "BlockJobRunning",
        "block job|block copy",
        _block_job,
        flags=("NON_SHARED_DISK",),
    ),
    Kind(GuestSpec("named"), "NameTaken", "already exists", _other_web),
    Kind(
        GuestSpec("stopped"),
        "StateNotLiveMigratable",
        MOVES,
        lambda lab: lab.host("host-a").virsh("suspend", "stopped"),
    ),
    Kind(GuestSpec("huge", memory_mib=192, max_memory_mib=12000), "NoTargetWithCapacity", MOVES),
)


# For the preflight alone: they can all leave, or are off.
LOCAL = GuestSpec("local", disks=[("local", 8)], uuid="11111111-2222-3333-4444-555555555501")
OPS = GuestSpec("ops", uuid="11111111-2222-3333-4444-555555555502")
SAVED = GuestSpec("saved", uuid="11111111-2222-3333-4444-555555555503")
OTHERS = (LOCAL, OPS, SAVED)
STRAY = "99999999-2222-3333-4444-555555555599"  # a VM that is nowhere
MARK = "<vm><evictionRequested run='old' by='ann' reason='' at=''/></vm>"
XMLNS = "https://virtops.example/xmlns/maintenance/1"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """All guests on host-a; host-b has no network `dmz`, no medium, and less memory."""
    with own_lab("reasons", 2, {"host-a": 65536, "host-b": 8192}) as lab:
        host = lab.host("host-a")
        host.add_network("dmz")
        host.exec("mkdir -p /srv && truncate -s 1M /var/lib/libvirt/images/tools.iso")
        _seal(lab)
        specs = [replace(spec, tick_ms=SELDOM) for spec in (*(kind.spec for kind in KINDS), *OTHERS)]
        for spec in specs:
            lab.run("host-a", spec)
        lab.wait_ticking([spec.name for spec in specs])
        for kind in KINDS:
            kind.prepare(lab)
        yield lab


def test_libvirt_answers_as_recorded(lab: Lab) -> None:
    """First: what is planted below is not in it."""
    if lab.host("host-a").release != OWN:
        pytest.skip("what libvirt of another release answers otherwise is in the recording of test_reasons_devices")
    assert compare(lab, "host-a", "reasons", {"rules": [KEPT]}) == []


# The preflight. What it is given beside the hosts, by the name of the look.
AGREE = [{"name": "host-a", "clock": 0.1}, {"name": "host-b", "clock": 0.2}]
SKEWED = [{"name": "host-a", "clock": 0.1}, {"name": "host-b", "clock": 90.0}]
BARE = [{**AGREE[0], "tls_dir": "/etc/pki/qemu", "tls_missing": ["ca-cert.pem"]}, AGREE[1]]
UNKNOWN = {"name": "writers", "when": "name == 'ops' && dirty_rate > `100`"}
LOOKS: dict[str, dict[str, Any]] = {
    "as_it_is": {"measured": SKEWED, "controller_uuid": LOCAL.uuid, "rules": [KEPT]},
    "nobody_measured": {"rules": [UNKNOWN]},
    "stop": {"measured": AGREE, "strategy": "None"},
    "stop_allowed": {"measured": AGREE, "strategy": "None", "allow_stop": True},
    "skip": {"measured": AGREE, "on_not_migratable": "skip"},
    "owners": {"measured": AGREE, "strategy": "External"},
    "encrypted": {"measured": BARE, "migration": {"tls": True}},
}
# code -> (the look that tells it, of what or of whom)
TOLD = {
    **{kind.reason: ("as_it_is", f"VM {kind.spec.name}") for kind in KINDS},
    "LocalMedium": ("as_it_is", "VM medium"),
    "StorageOnlyHere": ("as_it_is", "VM local"),
    "ManagedSavePresent": ("as_it_is", "VM saved"),
    "LeftoverMark": ("as_it_is", "VM ops"),
    "LeftoverClaim": ("as_it_is", "node host-a"),
    "InboundMigration": ("as_it_is", "node host-a"),
    "StuckMigration": ("as_it_is", "VM ops"),
    "CordonedByOthers": ("as_it_is", "node host-a"),
    "MigrationInTheClear": ("as_it_is", "node host-a"),
    "QEMUCertificatesMissing": ("encrypted", "host host-a"),
    "CapacityNotDeclared": ("bare", "node host-a"),
    "ClockSkew": ("as_it_is", "host host-b"),
    "RunsTheMaintenance": ("as_it_is", "node host-a"),
    "NotChecked": ("nobody_measured", "node host-a"),
    "Undecided": ("nobody_measured", "VM ops"),
    "StopNotAllowed": ("stop", "VM ops"),
    "StaysOff": ("stop_allowed", "VM ops"),
    "SkippedByPolicy": ("skip", "VM shmem"),
    "ExternalOwner": ("owners", "VM ops"),
    "FleetTooFull": ("narrow", "node host-a"),
    "MaintenanceUnderWay": ("cordoned", "node host-a"),
    "NotAsBefore": ("cordoned", "node host-a"),
    "VMCrashed": ("alone", "VM ops"),
    "PeerUnreachable": ("alone", "host host-b"),
    "LastSchedulableNode": ("alone", "node host-a"),
}
# What these hosts, and guests without KVM, cannot have. The tests on the facts plant it.
NOT_HERE = frozenset(
    f"{word}NotLiveMigratable"
    for word in (
        *("SEV", "SecureExecution", "TDX", "LaunchSecurity", "HypervPassthrough"),
        *("PersistentReservation", "Pinning", "TPMState", "Hotplug"),
    )
) | {
    *("MachineTypeMissing", "HugepagesMissing", "NewerToOlder"),  # one machine
    "CompressionNotSupported",  # QEMU is of a release that has it
    "PostCopyNotPermitted",  # QEMU is root here
    *("RunningTwice", "PostCopyBroken", "Irrecoverable"),  # libvirt forbids the one, one machine has no other
    *("MigrationInFlight", "MigratableNotKnown"),  # for a moment
}
# test_reasons_devices.py has them, and test_hidden_data.py and test_others_hands.py the last three.
ELSEWHERE = frozenset(
    {
        *("CPUModelNotLiveMigratable", "GraphicsNotLiveMigratable", "EmulatorMissing"),
        *("QEMUCommandLineNotDeclared", "MigrationBlockedByQEMU", "CheckpointsPresent"),
        *("FileMissing", "RestartsOnPowerOff", "PendingChanges", "StartsWithHost"),
        "GuestAgentSilent",
    }
)


def _plant(lab: Lab) -> Callable[[], None]:
    """What runs that are over, and other people, leave on hosts. Gives what takes it away."""
    a, b = lab.host("host-a"), lab.host("host-b")
    for host in (a, b):
        path = "/var/lib/libvirt/virtops"
        host.virsh("pool-define-as", traces.POOL, "dir", "--target", path)
        host.virsh("pool-build", traces.POOL)
        host.virsh("pool-start", traces.POOL)
    volumes = [(a, "cordon"), (a, f"resv.{STRAY}.96.host-b"), (b, f"resv.{STRAY}.96.host-a")]
    volumes += [(b, f"slot.{spec.uuid}.host-a") for spec in (LOCAL, OPS)]
    for host, name in volumes:
        host.virsh("vol-create-as", traces.POOL, name, "0")
    lab.announce_stop("saved")
    a.virsh("managedsave", "saved")
    mark = ("metadata", "ops", XMLNS, "--live", "--config")
    a.virsh(*mark, "--key", "virtops", "--set", MARK)

    def away() -> None:
        for host, name in volumes:
            host.virsh("vol-delete", name, "--pool", traces.POOL)
        a.virsh(*mark, "--remove")

    return away


@pytest.fixture(scope="module")
def seen(lab: Lab) -> dict[str, Seen]:
    """What the preflight says. It changes nothing."""
    away = _plant(lab)
    before = traces.snapshot(lab)
    # Each of those that can leave fits, not all of them.
    narrow = {"measured": AGREE, "peers": preflights.peers(lab, "host-a", 150)}
    bare = {"peers": [{**peer, "memory": 0} for peer in preflights.peers(lab, "host-a")]}
    found = preflights.look(lab, "host-a", {**LOOKS, "narrow": narrow, "bare": bare})
    assert traces.snapshot(lab) == before
    away()
    lab.host("host-a").add_network("spare")
    then = "virsh net-destroy spare"
    found |= preflights.look(lab, "host-a", {"cordoned": {}}, state="cordoned", then=then)
    lab.announce_stop("ops")
    lab.host("host-a").exec("kill -9 $(cat /run/libvirt/qemu/ops.pid)")
    lab.unplug("host-b")
    try:
        found |= preflights.look(lab, "host-a", {"alone": {}})
    finally:
        lab.plug("host-b")
    lab.host("host-b").wait_ready()
    return found


@pytest.mark.parametrize("code", TOLD)
def test_the_preflight_names_what_is_planted(seen: dict[str, Seen], code: str) -> None:
    look, subject = TOLD[code]
    rows = seen[look].of(code)
    assert subject in [row[0] for row in rows], (rows, sorted(seen[look].codes))


@pytest.fixture(scope="module")
def told(lab: Lab) -> dict[str, dict[str, object]]:
    """What check mode says of each guest. It changes nothing."""
    before = traces.snapshot(lab)
    here = {"maintenance_hosts": "host-a", "drain_rules": [KEPT]}
    ended = plays.run(lab, "drain", here, "--check")
    assert traces.snapshot(lab) == before
    return {row["name"]: row for row in ended.last["vms"]}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.spec.name)
def test_the_reason_is_known_in_advance(lab: Lab, told: dict[str, dict[str, object]], kind: Kind) -> None:
    row = told[kind.spec.name]
    assert (row["verdict"], row["reason"], row["plane"]) == ("blocked", kind.reason, "control"), row
    assert row["message"]
    assert row["remedy"]
    answer = ask_libvirt(lab, kind.spec.name, *kind.flags, saved=kind.saved)
    if kind.says == MOVES:
        assert answer == "", answer
        assert kind.spec.name in lab.host("host-b").virsh("list", "--name").split()
    else:
        assert re.search(kind.says, answer, re.IGNORECASE), answer
        assert kind.spec.name in lab.host("host-a").virsh("list", "--name").split()
