"""An API server that restarts is away for some seconds, and then denies everything for one more."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import (
    AccessDenied,
    LockHeld,
    NoAnswer,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease import Lock
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, rules_without
from kubesim.kinds import VMIMS
from kubesim.patience import patience
from kubesim.reading import clean, row

AWAY = 16.0  # longer than one request is asked again


def test_a_server_that_has_just_started_denies_everything_and_is_not_believed(sim, operator) -> None:
    client = Client(operator.auth)
    assert client.list("/api/v1/nodes")[0]
    sim.restart(1.0, blank=2.0)
    assert client.list("/api/v1/nodes")[0]
    sim.restart(1.0, blank=2.0)
    events = client.watch("/api/v1/pods", "1", 5)
    with pytest.raises(NoAnswer):  # the watch asks again by itself
        next(events)
    sim.until(lambda: sim.api.faults.blank)
    assert next(client.watch("/api/v1/pods", "", 5))


def test_a_right_that_is_missing_is_believed_and_then_at_once(sim, operator) -> None:
    sim.api.access.rules[TOKEN] = rules_without("list", "pods")
    client = Client(operator.auth)
    for _time in range(3):
        with pytest.raises(AccessDenied):
            client.list("/api/v1/pods")
    asked = [call for call in sim.log if call.path == "/api/v1/pods"]
    assert all(later.at - before.at < 1.0 for before, later in zip(asked[-3:], asked[-2:], strict=False))


def test_a_drain_goes_on_where_its_slice_was_ended_and_does_not_wait_for_its_own_lease(sim, operator) -> None:
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1", migrate_seconds="40")
    request = replace(operator.request(Intent.DRAINED, "mine", 3.0), cursor="")
    found = service.run_slice(request)
    assert found["ended"] == "out_of_time"
    request = replace(request, begun=True, cursor=found["cursor"])
    sim.restart(AWAY, blank=0.0)
    ended = 0
    end = time.monotonic() + patience()
    while found["ended"] != "final":
        assert time.monotonic() < end
        try:
            found = service.run_slice(request)
        except NoAnswer as exc:
            ended += 1
            request = replace(request, cursor=exc.cursor or request.cursor)
            continue
        assert "waits_for" not in found, found["waits_for"]
        request = replace(request, cursor=found.get("cursor"))
    assert found["phase"] == "Drained" and ended


@pytest.mark.full
def test_a_playbook_goes_on_through_a_restart(sim, plays, tmp_path) -> None:
    for name in ("a", "b"):
        sim.add_vm(name, "n1", migrate_seconds="200")
    with (tmp_path / "output").open("wb") as output:
        playbook = plays.start("drain", output, maintenance_hosts="n1", maintenance_reboot=False)
        sim.until(lambda: any(m.get("status", {}).get("phase") == "Running" for m in sim.world.store.all(VMIMS)))
        sim.restart(AWAY)
        assert playbook.wait(patience()) == 0, (tmp_path / "output").read_text()
    text = (tmp_path / "output").read_text(encoding="utf-8")
    assert "n1 is drained: 2 moved" in text and "Not allowed" not in text


@pytest.mark.full
def test_what_only_reads_asks_again(sim, plays, tmp_path) -> None:
    """And a drain that asks for the first time: they failed after 6 s."""
    sim.add_vm("a", "n1", migrate_seconds="1")
    for name in ("preflight", "plan", "status", "drain"):
        output = tmp_path / name
        sim.restart(3600)
        with output.open("wb") as stream:
            playbook = plays.start(name, stream, maintenance_hosts="n1")
        try:
            sim.until(lambda output=output: "The API does not answer" in output.read_text(encoding="utf-8"))
            sim.restart(0)
            code = playbook.wait(patience())
        finally:
            playbook.kill()
        text = output.read_text(encoding="utf-8")
        assert code == 0 and "Not allowed" not in text, text


@pytest.mark.full
def test_a_roll_whose_hosts_wait_goes_on_through_a_restart(sim, plays, tmp_path) -> None:
    sim.add_vm("a", "n1", migrate_seconds="200")
    for name in ("b", "c"):  # the plan begins with n1
        sim.add_vm(name, "n2")
    with (tmp_path / "output").open("wb") as output:
        playbook = plays.start("rolling_maintenance", output, maintenance_hosts="n1,n2", maintenance_reboot=False)
        sim.until(lambda: any(m.get("status", {}).get("phase") == "Running" for m in sim.world.store.all(VMIMS)))
        sim.restart(AWAY)
        code = playbook.wait(patience())
    text = (tmp_path / "output").read_text(encoding="utf-8")
    assert code == 0 and "The API does not answer" in text and "Not allowed" not in text, text
    assert clean(sim)


def test_what_a_slice_of_the_same_run_held_when_it_was_ended_is_free(sim, operator) -> None:
    client = Client(operator.auth)
    ended, other = (Lock(client, "default", "n1", holder, 30) for holder in ("mine one", "mine two"))
    ended.take(1.0, dict)
    with pytest.raises(LockHeld):
        other.take(0.0, dict)
    assert other.take(0.0, dict, left=frozenset({"mine one"})) == {}


def test_no_attempt_is_spent_while_virt_api_is_away_and_it_is_said(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.virt_api_down = True
    request = replace(operator.request(Intent.DRAINED, "mine", 8.0, backoff=0.1, max_attempts=2), cursor="")
    for _slice in range(2):
        found = service.run_slice(request)
        told = row(found, "vm")
        assert (found["ended"], told["reason"], told["attempts"]) == ("out_of_time", "WebhookUnavailable", 1), told
        request = replace(request, begun=True, cursor=found["cursor"])
    sim.world.virt_api_down = False
    while found["ended"] != "final":
        found = service.run_slice(request)
        request = replace(request, begun=True, cursor=found.get("cursor"))
    assert found["phase"] == "Drained"


@pytest.mark.parametrize("intent", [Intent.DRAINED, Intent.ACTIVE])
def test_that_virt_api_is_away_is_said_by_the_slice_that_meets_it(sim, operator, intent) -> None:
    """It does not go on in silence until its time is up: virt-api is back after some more refusals."""
    sim.add_vm("vm", "n1")
    if intent is Intent.ACTIVE:
        operator.drain()
    sim.world.virt_api_down = True
    before = len(sim.log)

    def come_back() -> None:
        more = 8 if intent is Intent.ACTIVE else 3
        sim.until(lambda: sum(call.status in (500, 503) for call in sim.log[before:]) > more)
        sim.world.virt_api_down = False

    back = threading.Thread(target=come_back)
    back.start()
    request = replace(operator.request(intent, "mine", patience(), backoff=0.1, max_attempts=2), live=True, cursor="")
    found = service.run_slice(request)
    told = [row(found, "vm")["reason"], *(finding["reason"] for finding in found["findings"])]
    assert found["ended"] == "out_of_time" and "WebhookUnavailable" in told, found
    while found["ended"] != "final":
        request = replace(request, begun=True, cursor=found["cursor"])
        found = service.run_slice(request)
    back.join()
    assert found["phase"] == ("Active" if intent is Intent.ACTIVE else "Drained")
