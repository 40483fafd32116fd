"""Domains that are off, with autostart, on a host that is drained and rebooted: real hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from demo import plays, preflights, traces

from lab import GuestSpec, Lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

HERE = {"maintenance_hosts": "host-a", "drain_allow_stop": True}
NAMES = ["asleep", "idle", "strayed"]


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    lab = shared(2)
    yield lab
    plays.run(lab, "restore", {"maintenance_hosts": "host-a"})
    for name in (*NAMES, "batch"):
        lab.remove_guest(name)


def test_a_drained_host_starts_nothing_and_its_restore_gives_autostart_back(lab: Lab) -> None:
    source, target = lab.host("host-a"), lab.host("host-b")
    for name in NAMES:
        lab.define("host-a", GuestSpec(name, autostart=True))
    lab.run("host-a", GuestSpec("batch", strategy="None", autostart=True))
    lab.start("host-a", "asleep")
    lab.wait_ticking(["asleep", "batch"])
    lab.announce_stop("asleep")
    source.virsh("managedsave", "asleep")
    seen = preflights.look(lab, "host-a", {"off": {}})["off"]
    assert sorted(who for who, _kind, _text in seen.of("StartsWithHost")) == [f"VM {name}" for name in NAMES]
    would = plays.run(lab, "drain", HERE, "--check")
    assert "idle  would have its autostart disabled" in would.text
    assert traces.autostarted(source) == sorted([*NAMES, "batch"])

    drained = plays.run(lab, "drain", HERE)

    assert drained.code == 0, drained.text
    rows = {name: drained.vm(name) for name in NAMES}
    assert {(r["verdict"], r["reason"]) for r in rows.values()} == {("off", "AutostartSuspended")}
    assert traces.autostarted(source) == []
    lab.reboot("host-a")
    assert traces.running(source) == []
    # Its owners start two of them on the other host, one that was off, one that the drain stopped.
    for name in ("strayed", "batch"):
        target.virsh("define", "/dev/stdin", stdin=source.virsh("dumpxml", "--inactive", name))
        target.virsh("start", name)
    lab.wait_ticking(["strayed", "batch"])

    restored = plays.run(lab, "restore", HERE)

    assert restored.code == 0, restored.text
    assert traces.autostarted(source) == ["asleep", "idle"]
    assert traces.autostarted(target) == ["batch", "strayed"]
    assert traces.volumes(source) == []
    lab.reboot("host-a")
    lab.wait_ticking(["asleep", "idle", "strayed", "batch"])
    assert traces.running(source) == ["asleep", "idle"]
