"""Guests on the lab: ticks, disks, memory, migration, and the checker's word on it."""

from __future__ import annotations

import pytest

from lab import Lab, checker, procs, rawlog
from lab.diskring import said

pytestmark = pytest.mark.lab

MIGRATE = ("migrate", "--live", "--p2p", "--persistent", "--undefinesource")


def report(lab: Lab, name: str, drained: str = "") -> dict:
    rawlog.wait_for_heartbeat(lab.paths.raw)
    found = checker.check(lab.paths.raw, {drained})
    return next(guest for guest in found["guests"] if guest["name"] == name)


def seen(lab: Lab, name: str, text: str) -> bool:
    """Whether a text comes up in the guest's lines on any host."""

    def there() -> bool:
        return any(text in path.read_text(errors="replace") for path in lab.paths.raw.glob(f"serial/*/{name}.log"))

    return procs.wait_for(there)


@pytest.mark.full
def test_shared_disk_moves_over_tls_and_stays_live(lab: Lab, guest) -> None:
    guest(
        "mover",
        disks=[("shared", 8)],
        networks=["lan"],
        strategy="LiveMigrate",
        labels={"app": "web"},
        group="web",
        dirty_mib_s=8,
    )
    for source, target in (("host-a", "host-b"), ("host-b", "host-c"), ("host-c", "host-a")):
        lab.host(source).virsh(*MIGRATE, "mover", f"qemu+tls://{target}/system")
        lab.wait_ticking(["mover"])
    found = report(lab, "mover")
    assert (found["verdict"], found["reasons"]) == ("live", [])
    assert found["hosts"] == ["host-a", "host-b", "host-c", "host-a"]
    assert (found["disk_errors"], found["memory_errors"]) == ([], [])
    xml = lab.host("host-a").virsh("dumpxml", "mover")
    assert "<virtops:antiAffinityGroup>web</virtops:antiAffinityGroup>" in xml


@pytest.mark.full
@pytest.mark.parametrize("extra", [["--tls"], ["--postcopy", "--postcopy-after-precopy"]])
def test_other_ways_to_move(lab: Lab, guest, extra: list[str]) -> None:
    name = "by" + extra[0]
    guest(name)
    lab.host("host-a").virsh(*MIGRATE, *extra, name, "qemu+tls://host-b/system")
    lab.wait_ticking([name])
    assert report(lab, name)["verdict"] == "live"


@pytest.mark.full
def test_local_disk_moves_with_its_storage(lab: Lab, guest) -> None:
    spec = guest("copied", disks=[("local", 16)])
    here, there = lab.host("host-a"), lab.host("host-b")
    with pytest.raises(Exception, match=r"Unsafe migration|No such file"):
        here.virsh(*MIGRATE, "copied", there.peer_uri)
    lab.make_disks(there, spec)
    here.virsh(*MIGRATE, "--copy-storage-all", "copied", there.peer_uri)
    lab.wait_ticking(["copied"])
    assert procs.wait_for(lambda: "ok" in " ".join(said(lab.paths.raw, "host-b", "copied", "vda")))
    found = report(lab, "copied")
    assert (found["verdict"], found["disk_errors"]) == ("live", [])


@pytest.mark.full
def test_an_empty_disk_on_the_target_is_found_out(lab: Lab, guest) -> None:
    spec = guest("swapped", disks=[("local", 16)])
    assert seen(lab, "swapped", " ok 2")
    here, there = lab.host("host-a"), lab.host("host-b")
    lab.make_disks(there, spec)
    here.virsh(*MIGRATE, "--unsafe", "swapped", there.peer_uri)
    assert seen(lab, "swapped", "D ")
    assert seen(lab, "swapped", "vda err empty")
    assert report(lab, "swapped")["disk_errors"]


def test_both_running_is_twice(lab: Lab, guest) -> None:
    guest("double")
    here, there = lab.host("host-a"), lab.host("host-b")
    here.virsh("suspend", "double")
    here.virsh("save", "double", "/var/tmp/double", "--paused")
    there.exec("cat >/var/tmp/double.b64", stdin=here.exec("base64 /var/tmp/double").stdout)
    there.exec("base64 -d /var/tmp/double.b64 >/var/tmp/double")
    for host in (here, there):
        host.virsh("restore", "/var/tmp/double", "--running")
    lab.wait_ticking(["double"])
    assert procs.wait_for(lambda: report(lab, "double")["verdict"] == "twice")


@pytest.mark.full
def test_damaged_memory_is_found_out(lab: Lab, guest) -> None:
    """It damages itself, when it has said that all is well: a word that is only read, and one
    that is rewritten all the time."""
    guest("hurt", fill_mib=1, dirty_mib_s=8, dirty_region_mib=1, flip_tick=100)
    assert seen(lab, "hurt", " 64 ok passes=")
    assert seen(lab, "hurt", "err region-page-128 ")
    assert seen(lab, "hurt", "err fill-page-128 ")
    found = report(lab, "hurt")
    assert (found["verdict"], found["disk_errors"]) == ("live", [])
    assert "err region-page-128 1" in found["memory_errors"][0]
    assert checker.check(lab.paths.raw, set())["totals"]["memory_errors"] == 1


@pytest.mark.full
def test_power_button(lab: Lab, guest) -> None:
    guest("polite")
    guest("deaf", noacpi=True, machine="q35")
    lab.shutdown_guest("host-a", "polite")
    lab.shutdown_guest("host-a", "deaf")
    here = lab.host("host-a")
    assert procs.wait_for(lambda: here.virsh("domstate", "polite") == "shut off")
    assert seen(lab, "deaf", "ignored")
    assert report(lab, "polite")["verdict"] == "stopped"
    assert report(lab, "deaf")["verdict"] == "live"


@pytest.mark.full
def test_managed_save_and_restore(lab: Lab, guest) -> None:
    guest("saved", disks=[("shared", 8)])
    here = lab.host("host-a")
    here.virsh("managedsave", "saved")
    assert procs.wait_for(lambda: report(lab, "saved")["verdict"] == "stopped")
    here.virsh("start", "saved")
    lab.wait_ticking(["saved"])
    woken = report(lab, "saved")
    assert (woken["verdict"], woken["running_again"]) == ("stopped", True)


@pytest.mark.full
def test_transient_and_never_moved(lab: Lab, guest) -> None:
    guest("fleeting", persistent=False)
    assert lab.host("host-a").virsh("list", "--transient", "--name") == "fleeting"
    assert report(lab, "fleeting", drained="host-a")["verdict"] == "blocked"


@pytest.mark.full
def test_no_tick_is_left_out(lab: Lab, guest) -> None:
    guest("metronome")
    where, boot, first = lab.last_tick("metronome")
    assert procs.wait_for(lambda: lab.last_tick("metronome")[2] > first + 100)
    assert lab.last_tick("metronome")[:2] == (where, boot)
    found = report(lab, "metronome")
    assert (found["verdict"], found["reasons"]) == ("live", [])
