"""Stops on real hosts: a slow save, a late guest, a transient one, and moves while they are off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from demo import plays, report, traces
from integration.on_host import on

from lab import GuestSpec, Lab, LabError
from lab.procs import wait_for

pytestmark = pytest.mark.lab

HERE = {**plays.UNMEASURED, "maintenance_hosts": "host-a", "drain_shutdown_timeout": 4}
# A save's memory goes through it. It waits for a file before it takes any.
HELPER = "/usr/lib/libvirt/libvirt_iohelper"
WAITS = '#!/bin/sh\nwhile [ ! -e /run/go ]; do sleep 0.1; done\nexec /run/iohelper "$@"\n'
FREEZE = f"cp {HELPER} /run/iohelper && cat >/run/waits && chmod 755 /run/waits && mount --bind /run/waits {HELPER}"
# Local to host-a, so that the guest cannot migrate.
CDROM = (
    "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/>"
    "<source file='/var/lib/libvirt/images/tools.iso'/><target dev='sda' bus='sata'/></disk>"
)
# Keeps a running guest where it is. Every host has this directory, so off it may go.
SHARE = "<filesystem type='mount' accessmode='mapped'><source dir='/srv'/><target dir='s'/></filesystem>"
# What libvirt tells only whoever asks for secrets too.
PASSWORD = "passwd='sesame'"
SCREEN = f"<graphics type='vnc' listen='127.0.0.1' autoport='yes' {PASSWORD}/>"


@pytest.fixture(scope="module")
def lab(shared: Callable[[int], Lab]) -> Lab:
    return shared(2)


@pytest.fixture
def guest(lab: Lab) -> Iterator[str]:
    lab.host("host-a").exec("truncate -s 1M /var/lib/libvirt/images/tools.iso")
    spec = GuestSpec("web", memory_mib=384, fill_mib=256, autostart=True, devices_xml=CDROM)
    lab.run("host-a", spec)
    lab.wait_ticking(["web"])
    yield "web"
    lab.remove_guest("web")


@pytest.fixture
def deaf(lab: Lab) -> Iterator[str]:
    lab.run("host-a", GuestSpec("deaf", autostart=True, noacpi=True))
    lab.wait_ticking(["deaf"])
    yield "deaf"
    lab.remove_guest("deaf")


@pytest.fixture
def cold(lab: Lab) -> Iterator[list[str]]:
    """Two that can move only while they are off, one of them without a definition."""
    specs = [
        GuestSpec("drifter", persistent=False, devices_xml=SHARE),
        GuestSpec("reports", disks=[("shared", 8)], autostart=True, devices_xml=SHARE + SCREEN),
    ]
    for spec in specs:
        lab.run("host-a", spec)
    names = [spec.name for spec in specs]
    lab.wait_ticking(names)
    yield names
    for name in names:
        lab.remove_guest(name)


def _restore(lab: Lab, name: str) -> None:
    ended = plays.run(lab, "restore", {"maintenance_hosts": "host-a"})
    assert ended.code == 0, ended.text
    assert traces.running(lab.host("host-a")) == [name]
    assert traces.autostarted(lab.host("host-a")) == [name]
    assert traces.volumes(lab.host("host-a")) == []
    lab.wait_ticking([name])


@pytest.mark.full
def test_a_save_that_outlives_its_run_is_waited_for(lab: Lab, guest: str) -> None:
    """Not timed as a shutdown, not asked for twice, and the VM goes on where it stood."""
    host = lab.host("host-a")
    save = {**HERE, "drain_on_not_migratable": "save", "drain_allow_stop": True}
    host.exec(FREEZE, stdin=WAITS)
    first = plays.Play(lab, "drain", save)
    try:
        begun = wait_for(lambda: "Save" in host.virsh("domjobinfo", guest, check=False))
        assert begun, first.text
    finally:
        first.kill()
    second = plays.Play(lab, "drain", save)
    try:
        assert wait_for(lambda: len(_runs(lab)) == 2), second.text
        assert "Save" in host.virsh("domjobinfo", guest)
        host.exec("touch /run/go")
        ended = second.wait()
    finally:
        host.exec(f"touch /run/go && umount -l {HELPER}")
        if second.running:
            second.kill()
    assert ended.code == 0, ended.text
    assert ended.vm(guest)["verdict"] == "saved"
    assert ended.last["certificate"]
    assert traces.running(host) == traces.autostarted(host) == []
    _restore(lab, guest)


def _runs(lab: Lab) -> list[str]:
    """Of the drain of host-a, as its record has them."""
    host = lab.host("host-a")
    names = [name for name in traces.volumes(host) if name.startswith("record.")]
    read = "json.loads(Store(open_connection('qemu:///system')).read(name))['runs']"
    with suppress(LabError):  # it is written anew each time, under another name
        return on(lab, "host-a", f"result = {read}", name=names[0]) if names else []
    return []


@pytest.mark.full
def test_a_guest_that_goes_off_late_was_stopped_by_us(lab: Lab, deaf: str) -> None:
    """Its power button is not obeyed in time; then it is off after all."""
    host = lab.host("host-a")
    stop = {**HERE, "drain_rules": [{"name": "all", "strategy": "None", "allow_stop": True}]}
    ended = plays.run(lab, "drain", stop)
    assert ended.code != 0
    assert ended.vm(deaf)["reason"] == "ShutdownTimedOut", ended.text
    assert traces.autostarted(host) == [deaf]
    lab.destroy_guest("host-a", deaf)
    ended = plays.run(lab, "drain", stop)
    assert ended.code == 0, ended.text
    assert ended.vm(deaf)["verdict"] == "stopped"
    assert traces.autostarted(host) == []
    _restore(lab, deaf)


@pytest.mark.full
def test_a_guest_that_does_not_hear_is_forced_off_only_where_that_is_allowed(lab: Lab, deaf: str) -> None:
    host = lab.host("host-a")
    lab.announce_stop(deaf)
    forced = {**HERE, "drain_strategy": "None", "drain_allow_stop": True, "drain_force_stop": True}
    ended = plays.run(lab, "drain", forced)
    assert ended.code == 0, ended.text
    assert ended.vm(deaf)["verdict"] == "stopped"
    assert traces.running(host) == traces.autostarted(host) == []
    _restore(lab, deaf)


@pytest.mark.full
def test_what_is_off_is_listed_and_moved_only_when_asked(lab: Lab) -> None:
    """Its definition goes; it is started nowhere."""
    source, target = lab.hosts.values()
    lab.define("host-a", GuestSpec("asleep", disks=[("shared", 8)], autostart=True))
    try:
        ended = plays.run(lab, "drain", HERE)
        assert ended.code == 0, ended.text
        assert ended.vm("asleep")["verdict"] == "off"
        assert "asleep" in source.virsh("list", "--all", "--name").split()
        ended = plays.run(lab, "drain", {**HERE, "drain_move_inactive": True})
        assert ended.code == 0, ended.text
        assert "asleep" not in source.virsh("list", "--all", "--name").split()
        assert "asleep" in target.virsh("list", "--all", "--name").split()
        assert traces.running(source) == traces.running(target) == []
        assert traces.autostarted(target) == ["asleep"]
        assert plays.run(lab, "restore", {"maintenance_hosts": "host-a"}).code == 0
    finally:
        lab.remove_guest("asleep")


def _came_back(lab: Lab, name: str) -> list[str]:
    """The hosts it ran on, by its own word: it was stopped in order, and runs once, unharmed."""
    lab.wait_ticking([name])
    rows = report.check(lab.paths.raw, {"host-a"})["guests"]
    row = next(row for row in rows if row["name"] == name)
    # Lost or twice would stand before stopped.
    assert (row["verdict"], row["running_again"]) == ("stopped", True), row
    assert (row["disk_errors"], row["memory_errors"]) == ([], []), row
    return list(row["hosts"])


def test_a_transient_guest_is_started_from_what_was_written_down(lab: Lab) -> None:
    """Off, it is on no host at all. What starts again is the same, its secrets included."""
    source, target = lab.hosts.values()
    lab.run("host-a", GuestSpec("brief", persistent=False, disks=[("shared", 8)], devices_xml=SCREEN))
    try:
        lab.wait_ticking(["brief"])
        whole = ("dumpxml", "brief", "--migratable", "--security-info")
        before = source.virsh(*whole)
        assert PASSWORD in before
        stop = {"drain_strategy": "None", "drain_allow_stop": True, "drain_shutdown_timeout": 60}
        ended = plays.run(lab, "drain", {**HERE, **stop})
        assert ended.code == 0, ended.text
        assert ended.vm("brief")["verdict"] == "stopped"
        assert traces.defined(source) == traces.defined(target) == []
        ended = plays.run(lab, "restore", {"maintenance_hosts": "host-a"})
        assert ended.code == 0, ended.text
        assert traces.running(source) == traces.transient(source) == ["brief"]
        assert source.virsh(*whole) == before
        assert traces.defined(target) == traces.volumes(source) == []
        assert _came_back(lab, "brief") == ["host-a"]
    finally:
        lab.remove_guest("brief")


def test_what_cannot_migrate_moves_while_it_is_off(lab: Lab, cold: list[str]) -> None:
    """Off here, its definition there and nothing of it here, started there."""
    source, target = lab.hosts.values()
    move = {"drain_on_not_migratable": "cold_migrate", "drain_allow_stop": True}
    ended = plays.run(lab, "drain", {**HERE, **move, "drain_shutdown_timeout": 60})
    assert ended.code == 0, ended.text
    assert [ended.vm(name)["verdict"] for name in cold] == ["cold_moved"] * 2
    assert ended.last["certificate"]
    assert traces.defined(source) == []
    assert traces.running(target) == cold
    assert traces.transient(target) == ["drifter"]
    assert traces.autostarted(target) == ["reports"]
    assert PASSWORD in target.virsh("dumpxml", "reports", "--inactive", "--security-info")
    assert traces.marked(lab) == traces.claims(lab) == []
    assert [_came_back(lab, name) for name in cold] == [["host-a", "host-b"]] * 2
    assert plays.run(lab, "restore", {"maintenance_hosts": "host-a"}).code == 0
    assert traces.defined(source) == []
    assert traces.running(target) == cold
