"""Owners act beside a drain. What they do is theirs, and no definition is lost by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from demo import plays, traces
from integration.held import held

from lab import GuestSpec, Lab
from lab.procs import wait_for

pytestmark = pytest.mark.lab

HERE = {**plays.UNMEASURED, "maintenance_hosts": "host-a", "drain_max_attempts": 1}


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    lab = shared(2)
    yield lab
    for host in lab.hosts.values():
        if traces.volumes(host):
            ended = plays.run(lab, "restore", {"maintenance_hosts": host.name})
            assert ended.code == 0, ended.text


@pytest.mark.full
@pytest.mark.parametrize(("again", "autostart"), [("drain", True), ("restore", False)])
def test_what_the_owner_moved_after_a_failed_drain_stays_defined(lab: Lab, autostart: bool, again: str) -> None:
    """By virsh's default flags: it is transient on host-b, and its definition stays on host-a."""
    source, target = lab.host("host-a"), lab.host("host-b")
    name = f"desk-{again}-{autostart}".lower()
    lab.run("host-a", GuestSpec(name, fill_mib=32, autostart=autostart))
    lab.wait_ticking([name])
    with held(lab, "host-a", [name], lambda: plays.Play(lab, "drain", HERE)) as drain:
        source.virsh("domjobabort", name)
        failed = drain.wait()
    assert failed.code != 0
    assert failed.vm(name)["reason"] == "AttemptsUsedUp"
    source.virsh("migrate", "--live", "--p2p", name, "qemu+tls://host-b/system")
    assert traces.transient(target) == [name]

    ended = plays.run(lab, again, HERE)

    assert ended.code == 0, ended.text
    row = ended.vm(name)
    assert (row["verdict"], row["at"], row["reason"]) == ("moved", "host-b", "DefinitionLeft"), row
    assert traces.defined(source) == [name]
    # A reboot of host-a must not start it a second time.
    assert traces.autostarted(source) == []
    lab.wait_ticking([name])
    lab.destroy_guest("host-b", name)
    assert lab.where(name) == {name: [("host-a", "shut off")]}
    if again == "drain":
        restored = plays.run(lab, "restore", HERE)
        assert restored.code == 0, restored.text
    lab.remove_guest(name)


@pytest.mark.full
def test_what_its_owner_ends_after_the_drain_blocks_no_restore(lab: Lab) -> None:
    """One is destroyed and undefined on its new host, and a transient one just ends there."""
    source, target = lab.host("host-a"), lab.host("host-b")
    lab.run("host-a", GuestSpec("removed"))
    lab.run("host-a", GuestSpec("fleeting", persistent=False))
    lab.wait_ticking(["removed", "fleeting"])
    drained = plays.run(lab, "drain", HERE)
    assert drained.code == 0, drained.text
    for name in ("removed", "fleeting"):
        lab.destroy_guest("host-b", name)
    target.virsh("undefine", "removed")
    assert lab.where() == {}

    restored = plays.run(lab, "restore", HERE)

    assert restored.code == 0, restored.text
    for name in ("removed", "fleeting"):
        row = restored.vm(name)
        assert (row["verdict"], row["reason"]) == ("gone", "VMVanished"), row
    assert [traces.volumes(host) for host in (source, target)] == [[], []]


def _agent(lab: Lab, host: str) -> bool:
    return "state='connected'" in lab.host(host).virsh("dumpxml", "spoken")


@pytest.mark.full
def test_no_vm_comes_back_while_a_guest_is_silent_that_was_not_before(lab: Lab) -> None:
    """Its agent answers on its new host as it did here. Then it does not."""
    lab.run("host-a", GuestSpec("spoken", agent=True))
    lab.wait_ticking(["spoken"])
    assert wait_for(lambda: _agent(lab, "host-a"))
    drained = plays.run(lab, "drain", HERE)
    assert drained.code == 0, drained.text
    well = plays.run(lab, "preflight", HERE)
    assert "GuestAgentSilent" not in well.text, well.text
    target = lab.host("host-b")
    target.virsh("qemu-agent-command", "spoken", '{"execute":"guest-ping"}', "--timeout", "1", check=False)
    assert wait_for(lambda: not _agent(lab, "host-b"))

    gate = plays.run(lab, "preflight", HERE)

    assert gate.code != 0
    assert "BLOCKER GuestAgentSilent VM spoken: It runs on host-b." in gate.text, gate.text
    passed = plays.run(lab, "preflight", {**HERE, "maintenance_preflight_severity": {"GuestAgentSilent": "warning"}})
    assert passed.code == 0, passed.text
    lab.remove_guest("spoken")


@pytest.mark.full
def test_a_guest_that_restarts_when_it_powers_off_is_not_asked(lab: Lab) -> None:
    source = lab.host("host-a")
    lab.run("host-a", GuestSpec("stubborn", strategy="None"))
    lab.wait_ticking(["stubborn"])
    source.virsh("set-lifecycle-action", "stubborn", "poweroff", "restart", "--live", "--config")
    before = lab.last_tick("stubborn")

    ended = plays.run(lab, "drain", {**HERE, "drain_allow_stop": True})

    assert ended.code != 0
    assert "RestartsOnPowerOff" in ended.text
    lab.wait_ticking(["stubborn"])
    after = lab.last_tick("stubborn")
    assert before and after and before[1] == after[1], "the guest was rebooted"
    # What the finding says beforehand is so: libvirt starts it again.
    source.virsh("shutdown", "stubborn", "--mode", "acpi")
    assert wait_for(lambda: (now := lab.last_tick("stubborn")) and now[1] != after[1])
    lab.remove_guest("stubborn")


@pytest.mark.full
def test_a_record_whose_pool_somebody_undefined_is_found(lab: Lab) -> None:
    """The restore said that there was nothing to restore, and the VM stayed off."""
    host = lab.host("host-a")
    lab.run("host-a", GuestSpec("off", strategy="None"))
    lab.wait_ticking(["off"])
    drained = plays.run(lab, "drain", {**HERE, "drain_allow_stop": True})
    assert drained.code == 0, drained.text
    assert traces.running(host) == []
    host.virsh("pool-destroy", "virtops")
    host.virsh("pool-undefine", "virtops")
    back = plays.run(lab, "restore", HERE)
    assert back.code == 0, back.text
    assert back.vm("off")["verdict"] == "restored"
    lab.wait_ticking(["off"])
    assert traces.running(host) == ["off"] and traces.volumes(host) == []
    lab.destroy_guest("host-a", "off")


@pytest.mark.full
@pytest.mark.parametrize("end", ["moves", "aborted"])
def test_a_vm_that_its_owner_suspends_on_its_way_stays_suspended(lab: Lab, end: str) -> None:
    """libvirt lets it run on, wherever it ends up."""
    source, name = lab.host("host-a"), f"napping-{end.rsplit(maxsplit=1)[-1]}"
    lab.run("host-a", GuestSpec(name, fill_mib=32))
    lab.wait_ticking([name])
    with held(lab, "host-a", [name], lambda: plays.Play(lab, "drain", HERE)) as drain:
        source.virsh("suspend", name)
        # Who looks at it sees it stand, and asks QEMU whether that is the switch-over.
        assert wait_for(lambda: "custom monitor" in source.virsh("dominfo", name, check=False))
        if end == "moves":
            lab.let_go("host-a")
        else:
            source.virsh("domjobabort", name)
        ended = drain.wait()
    row = ended.vm(name)
    if end == "moves":
        assert ended.code == 0, ended.text
        assert (row["verdict"], row["at"], row["reason"]) == ("moved", "host-b", "ArrivedPaused"), row
    else:
        assert (row["verdict"], row["reason"]) == ("blocked", "StateNotLiveMigratable"), row
        assert "someone suspended it" in row["message"]
    host = lab.host("host-b" if end == "moves" else "host-a")
    assert lab.where(name) == {name: [(host.name, "paused")]}
    assert host.virsh("domstate", "--reason", name).strip() == "paused (user)"
    restored = plays.run(lab, "restore", HERE)
    assert restored.code == 0, restored.text
    assert lab.where(name) == {name: [(host.name, "paused")]}
    host.virsh("resume", name)
    lab.wait_ticking([name])
    lab.remove_guest(name)
