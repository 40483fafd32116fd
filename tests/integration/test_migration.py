"""One VM migrated, watched and aborted, on real hosts over a slow link; and a cordon alone.

Where a VM runs is read with virsh on the hosts, never taken from the module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo import plays, report, traces
from integration.held import held

from lab import GuestSpec, Lab, own_lab
from lab.procs import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.full]

# Idle, and one that writes more than the slow link carries.
IDLE = GuestSpec("web", memory_mib=192, fill_mib=112, autostart=True)
BUSY = GuestSpec("late", memory_mib=256, fill_mib=112, dirty_mib_s=12, dirty_region_mib=32)
SLOW = 32  # Mbit/s
POST_COPY = {"post_copy": True, "on_timeout": "post_copy", "completion_timeout_per_gib": 5}


@pytest.fixture(scope="module")
def _up() -> Iterator[str]:
    with own_lab("migration", 2) as lab:
        for spec in (IDLE, BUSY):
            lab.run("host-a", spec)
        lab.wait_ticking(["web", "late"])
        yield lab.paths.name
        assert not any(report.check(lab.paths.raw, set())["totals"][key] for key in report.HURT)


@pytest.fixture
def lab(_up: str) -> Iterator[Lab]:
    """Both guests on host-a, before and after each test, over a link as it is."""
    lab = Lab.up(_up)
    yield lab
    for host in lab.hosts:
        lab.unshape(host)
        lab.let_go(host)
    source = lab.host("host-b")
    for name in traces.running(source):
        options = ("--live", "--p2p", "--persistent", "--undefinesource")
        source.virsh("migrate", *options, name, "qemu+tls://host-a/system")
    assert traces.running(lab.host("host-a")) == ["late", "web"]
    assert traces.claims(lab) == traces.marked(lab) == []
    left = [name for host in lab.hosts.values() for name in traces.volumes(host)]
    assert [name for name in left if not name.startswith("ended.")] == []


Start = Callable[..., plays.Play]


@pytest.fixture
def start(lab: Lab, tmp_path: Path) -> Iterator[Start]:
    """Start a play of one task on host-a. What still runs at the end is killed."""
    started: list[plays.Play] = []

    def begin(module: str, **options: Any) -> plays.Play:
        own, peer = lab.host("host-a"), lab.host("host-b")
        hosts = {
            "node": own.name,
            "memory": own.memory_mib,
            "peers": [{"name": peer.name, "uri": peer.peer_uri, "memory": peer.memory_mib}],
        }
        task = {f"virtops.maintenance.{module}": {**hosts, **options}}
        book = tmp_path / f"{len(started)}.yml"
        play = {"hosts": own.name, "gather_facts": False, "tasks": [task]}
        book.write_text(json.dumps([play]), encoding="utf-8")
        started.append(plays.Play(lab, str(book), {}))
        return started[-1]

    yield begin
    for play in started:
        if play.running:
            play.kill()


@pytest.fixture
def migration(start: Start) -> Start:
    return lambda **options: start("virt_migration", slice=2, **options)


def info(start: Start, name: str) -> dict[str, Any]:
    ended = start("virt_migration_info").wait()
    assert ended.code == 0, ended.text
    told = ended.last
    assert told["counts"]["total"] == len(told["migrations"])
    assert told["certificate"] is None
    (row,) = (row for row in told["migrations"] if row["name"] == name)
    return dict(row)


def test_a_migration_is_told_while_it_runs_and_after(lab: Lab, start: Start, migration: Start) -> None:
    order = {"name": "web", "target": "host-b", "requester": "alice@ctl"}
    with held(lab, "host-a", ["web"], lambda: migration(**order)) as play:
        row = info(start, "web")
        assert row["progress"]["total_mib"] > 0, row
        assert (row["verdict"], row["mode"], row["target"]) == ("pending", "PreCopy", "host-b")
        assert (row["requested_by"], row["end"]) == ("alice@ctl", "")
        assert row["start"]
        lab.let_go("host-a")
        ended = play.wait()
    assert ended.code == 0, ended.text
    assert (ended.last["phase"], ended.last["vm"]) == ("Migrated", "web")
    assert (ended.last["counts"]["moved"], ended.last["certificate"]) == (1, None)
    assert traces.running(lab.host("host-b")) == traces.autostarted(lab.host("host-b")) == ["web"]
    over = info(start, "web")
    assert "progress" not in over
    assert (over["verdict"], over["phase"], over["at"]) == ("moved", "Succeeded", "host-b")
    assert (over["start"], over["requested_by"]) == (row["start"], "alice@ctl")
    assert over["end"] > over["start"]
    assert over["duration"] > 0
    lab.wait_ticking(["web"])
    # It is there: an abort that is asked for now has come too late, and says so.
    late = migration(name="web", state="aborted").wait()
    assert late.code != 0
    said = " ".join(late.text.split())
    assert "VM web is Blocked, not Active." in said
    assert "TooLateToAbort: Not aborted: it runs on host-b." in said
    assert traces.running(lab.host("host-b")) == ["web"]


def test_an_abort_in_pre_copy(lab: Lab, start: Start, migration: Start) -> None:
    with held(lab, "host-a", ["late"], lambda: migration(name="late")) as play:
        aborted = migration(name="late", state="aborted").wait()
        assert aborted.code == 0, aborted.text
        assert (aborted.last["phase"], aborted.last["changed"]) == ("Active", True)
        first = play.wait()
    assert first.code != 0
    assert first.last.get("error") == "Superseded", first.text
    assert traces.running(lab.host("host-a")) == ["late", "web"]
    row = info(start, "late")
    assert (row["verdict"], row["phase"]) == ("restored", "Failed")
    assert row["abort_status"] == "Succeeded"
    lab.wait_ticking(["late"])
    again = migration(name="late", state="aborted").wait()
    assert again.code == 0, again.text
    assert not again.last["changed"]


def test_an_abort_in_post_copy_says_that_the_vm_moves(lab: Lab, migration: Start) -> None:
    lab.shape("host-a", SLOW)
    source = lab.host("host-a")
    play = migration(name="late", migration=POST_COPY)
    switched = wait_for(lambda: "post-copy" in source.virsh("domstate", "--reason", "late", check=False), pause=0.2)
    assert switched, play.text
    lab.hold("host-a")
    lab.unshape("host-a")
    abort = migration(name="late", state="aborted")
    said = wait_for(lambda: "post-copy runs. It moves to host-b." in abort.text)
    lab.let_go("host-a")
    ended = abort.wait()
    assert said, ended.text
    assert ended.code != 0
    text = " ".join(ended.text.split())
    assert "VM late is Blocked, not Active." in text
    assert "TooLateToAbort: Not aborted: it runs on host-b." in text
    row = ended.last["vms"][0]
    assert (row["verdict"], row["mode"], row["abort_status"]) == ("moved", "PostCopy", "Failed")
    assert traces.running(lab.host("host-b")) == ["late"]
    lab.wait_ticking(["late"])


def test_a_cordon_alone_moves_nothing_and_keeps_others_away(lab: Lab, start: Start, migration: Start) -> None:
    ended = start("virt_drain", state="cordoned").wait()
    assert ended.code == 0, ended.text
    assert (ended.last["phase"], ended.last["changed"]) == ("Cordoned", True)
    assert ended.last["certificate"] is None
    assert "cordon" in traces.volumes(lab.host("host-a"))
    assert traces.running(lab.host("host-a")) == ["late", "web"]
    again = start("virt_drain", state="cordoned").wait()
    assert (again.code, again.last["changed"]) == (0, False)
    # What is here may still be moved away by hand.
    assert migration(name="web").wait().code == 0
    assert "cordon" in traces.volumes(lab.host("host-a"))
    back = start("virt_drain", state="active").wait()
    assert back.code == 0, back.text
    assert traces.running(lab.host("host-b")) == ["web"]
