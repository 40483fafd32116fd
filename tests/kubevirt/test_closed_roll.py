"""Before each write a slice asks: does the playbook live for which it is done, and the roll to which it belongs?

The worker of a playbook that was killed: test_orphan.py.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import run
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import PlaybookEnded, RollTakenOver
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage, State
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.names import ROLL
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import pack
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import RollLease, system_clock
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import written
from kubesim.cluster import NODES, VMIMS
from kubesim.kinds import BY_PLURAL

LEASES = BY_PLURAL["leases"]


# Of what a drain writes: the Lease of the node, its cordon and record, a VM's note, an Event, the eviction.
WRITES = 6


@pytest.fixture
def playbook():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def at_write(monkeypatch, number: int, what) -> list[str]:
    """After that write `what` happens; the writes that came later are noted."""
    later: list[str] = []
    send, count = Client._send, [0]

    def sent(client, method, path, *args):
        if count[0] > number and method != "GET":
            later.append(f"{method} {path}")
        answer = send(client, method, path, *args)
        if method != "GET":
            count[0] += 1
            if count[0] == number:
                count[0] += 1
                what()
        return answer

    monkeypatch.setattr(Client, "_send", sent)
    return later


def request_of(operator, **more):
    return replace(operator.request(Intent.DRAINED, "run", 5.0), **more)


def lease_of_n1(sim) -> str:
    return next(one["spec"]["holderIdentity"] for one in sim.all(LEASES) if one["metadata"]["name"].endswith("n1"))


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_nothing_is_written_for_a_playbook_that_was_killed(sim, operator, monkeypatch, playbook, number) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="60")

    def kill() -> None:
        playbook.kill()
        playbook.wait()

    later = at_write(monkeypatch, number, kill)
    with pytest.raises(PlaybookEnded):
        service.run_slice(request_of(operator, playbook=lives.told(playbook.pid)))
    # The Lease alone is given back: nobody has to wait for it.
    assert {one.rpartition("-")[2] for one in later} == {"n1"} and len(later) == 1, later
    assert lease_of_n1(sim) == ""


def begun_roll(sim, operator):
    """A roll of run `us` that is at n1; what closes it."""
    hosts = {"n1": HostEntry("n1", Stage.DRAINING)}
    made = Roll("r", "us", "", "", "2026-03-01T10:00:00Z", hosts)
    assert RollLease(Client(operator.auth), "default").write(made, None)

    def close(state: State) -> None:
        made.state = state
        new = {ROLL: pack(made.to_json())}
        sim.edit(LEASES, "virtops-roll", lambda o: o["metadata"]["annotations"].update(new), "default")

    return close


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_nothing_is_written_for_a_roll_that_was_closed(sim, operator, monkeypatch, number) -> None:
    """Whoever asks: a worker of a playbook that was killed, whose parent is no longer to be seen."""
    sim.add_vm("vm", "n1", migrate_seconds="60")
    close = begun_roll(sim, operator)
    state = (State.STOPPED, State.ABORTED)[number % 2]
    later = at_write(monkeypatch, number, lambda: close(state))
    with pytest.raises(RollTakenOver):
        service.run_slice(request_of(operator, roll_run="us"))
    assert {one.rpartition("-")[2] for one in later} == {"n1"} and len(later) == 1, later
    assert lease_of_n1(sim) == ""


def phases(sim) -> list[str]:
    return [one.get("status", {}).get("phase", "") for one in sim.all(VMIMS)]


@pytest.mark.parametrize("let_finish", [False, True])
def test_a_slice_ends_its_migrations_when_its_roll_is_aborted(sim, operator, let_finish) -> None:
    """While nothing is written, long before its time is up; and nothing else: the abort gives the node back. Those
    that run may be let finish."""
    sim.add_vm("vm", "n1", migrate_seconds="600")
    begun_roll(sim, operator)

    with ThreadPoolExecutor(1) as pool:
        slices = pool.submit(service.run_slice, request_of(operator, roll_run="us", seconds=100.0))
        sim.until(lambda: phases(sim) == ["Running"])
        store = RollLease(Client(operator.auth), "default")
        assert run.abort(store, "abort", "", system_clock(), let_finish=let_finish)["answer"] == "go"
        with pytest.raises(RollTakenOver):
            slices.result(60)
    marked = any(text.startswith("mark on") for text in sim.leftovers())
    assert marked is let_finish
    if let_finish:
        assert phases(sim) == ["Running"]
    else:
        sim.until(lambda: "Running" not in phases(sim))
    assert sim.find(NODES, "n1", "")["spec"]["unschedulable"] and sim.node_of("vm") == "n1"
    assert lease_of_n1(sim) == ""


def test_a_slice_that_begins_after_the_abort_ends_what_those_before_it_began(sim, operator) -> None:
    """Between two slices a start of Python lies, and the abort comes to the node after one more."""
    sim.add_vm("vm", "n1", migrate_seconds="600")
    begun_roll(sim, operator)
    first = service.run_slice(request_of(operator, roll_run="us", seconds=1.0, cursor=""))
    sim.until(lambda: phases(sim) == ["Running"])
    store = RollLease(Client(operator.auth), "default")
    assert run.abort(store, "abort", "", system_clock())["answer"] == "go"
    with pytest.raises(RollTakenOver):
        service.run_slice(request_of(operator, roll_run="us", begun=True, cursor=first["cursor"]))
    assert not [text for text in sim.leftovers() if text.startswith("mark on")]
    sim.until(lambda: "Running" not in phases(sim))
    assert sim.find(NODES, "n1", "")["spec"]["unschedulable"] and lease_of_n1(sim) == ""


def test_the_lease_is_given_back_though_the_roll_was_closed_after_the_last_write(sim, operator, monkeypatch) -> None:
    """The abort that closed it waits for the Lease."""
    sim.add_vm("vm", "n1", migrate_seconds="600")
    close = begun_roll(sim, operator)
    monkeypatch.setattr(service, "note", lambda *_args: close(State.ABORTED))
    with suppress(RollTakenOver):
        service.run_slice(request_of(operator, roll_run="us", seconds=1.0))
    assert lease_of_n1(sim) == ""


def test_a_drain_of_no_roll_does_not_ask_before_each_write(sim, operator) -> None:
    for number in range(4):
        sim.add_vm(f"vm{number}", "n1")
    operator.slice(Intent.DRAINED, 1.5)
    assert len(written(sim.log)) > 10 and len(sim.requests("GET", "leases/virtops-roll")) < 3
