"""The playbooks around a roll, preflight, abort and status: by ansible-playbook, against the
simulator."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import LONGEST, written
from kubesim.kinds import BY_PLURAL, NODES, VMIMS, VMIS
from kubesim.reading import clean
from kubesim.words import final

LEASES = BY_PLURAL["leases"]
HOSTS = "n1,n2,n3"


@contextmanager
def roll(plays, **words: Any) -> Iterator[Any]:
    """A roll that lives. It is killed where the test leaves it so."""
    words = {"maintenance_hosts": HOSTS, "maintenance_reboot": False, **words}
    process = plays.start("rolling_maintenance", **words)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def runs(sim, count: int) -> bool:
    phases = [m.get("status", {}).get("phase") for m in sim.all(VMIMS)]
    return phases.count("Running") >= count


def open_ones(sim) -> int:
    """Migrations that have not ended."""
    return sum(not final(migration) for migration in sim.all(VMIMS))


@pytest.mark.full
def test_an_abort_says_what_became_of_each_vm(sim, plays, tmp_path: Path) -> None:
    """Beside the living roll, which says once that it was aborted; in the middle of a slice. Its report has them."""
    sim.add_vm("moves", "n1", migrate_seconds="3000")
    sim.add_vm("late", "n1", migrate_seconds="3000", abort="late")
    said, folder = tmp_path / "roll.txt", {"maintenance_report": str(tmp_path / "report")}
    with said.open("w", encoding="utf-8") as file, roll(plays, stdout=file, **folder) as process:
        sim.until(lambda: runs(sim, 2))
        done = plays.own("abort", **folder)
        assert process.wait() == 2
    text = said.read_text(encoding="utf-8")
    assert text.count("failed=1") == 1 and text.count('"msg": "Roll ') == 1, text
    assert re.search(r"^n1 +(draining|given back) ", text, re.MULTILINE), text  # there was no table
    assert done.returncode == 0, done.stdout
    assert "n1  restored\n" in done.stdout
    assert "  default/moves: migration aborted, runs on n1\n" in done.stdout
    there = sim.node_of("late")
    assert there != "n1"
    assert f"  default/late: left on {there}, the abort came too late\n" in done.stdout
    assert sim.node_of("moves") == "n1" and clean(sim)
    doc = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    n1 = next(host for host in doc["hosts"] if host["name"] == "n1")
    assert n1["stage"] == "given back" and n1["ended"], n1
    assert {vm["name"]: vm["verdict"] for vm in n1["vms"]} == {"default/late": "moved", "default/moves": "restored"}
    assert (n1["tally"]["moved"], n1["tally"]["kept"]) == (1, 1) and "not begun" not in str(n1)
    assert not any(node["spec"].get("unschedulable") for node in sim.all(NODES))


@pytest.mark.full
def test_an_abort_that_lets_them_finish_begins_nothing_new(sim, plays, tmp_path: Path) -> None:
    """The one that moves is held until the roll has ended by the abort, and the other one's request is withdrawn."""
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    for name in ("first", "second"):
        sim.add_vm(name, "n1", migrate_result="hang", migrate_seconds="1")
    said = tmp_path / "abort.txt"
    with said.open("w", encoding="utf-8") as file, roll(plays) as process:
        sim.until(lambda: runs(sim, 1))
        aborting = plays.start("abort", file, maintenance_abort="finish")
        assert process.wait(LONGEST) == 2
        sim.until(lambda: sum(text.startswith("mark on ") for text in sim.leftovers()) < 2 and open_ones(sim) < 2)
        (moves,) = [m["metadata"]["name"] for m in sim.all(VMIMS) if m["status"].get("phase") == "Running"]
        go_on = {"lab/migrate-result": "ok"}
        sim.edit(VMIMS, moves, lambda o: o["metadata"].setdefault("annotations", {}).update(go_on), "default")
        assert aborting.wait(LONGEST) == 0, said.read_text(encoding="utf-8")
    assert sorted([sim.node_of("first"), sim.node_of("second")]).count("n1") == 1
    text = said.read_text(encoding="utf-8")
    assert "left on n" in text and "migration aborted, runs on n1" in text, text
    assert clean(sim)


@pytest.mark.full
def test_a_host_that_is_not_given_back_is_named_with_the_reason(sim, plays) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="3000")
    with roll(plays) as process:
        sim.until(lambda: runs(sim, 1))
        process.kill()
        process.wait()
        words = {"restore_node": "n9"}
        done = plays.own("abort", **words)
        assert done.returncode == 2, done.stdout
        assert "n1  not restored: There is no node n9 in this cluster. " in done.stdout
        assert "was aborted, but these hosts are not restored: n1" in done.stdout
        again = plays.own("abort")
        assert again.returncode == 0, again.stdout
    assert clean(sim)


@pytest.mark.full
@pytest.mark.three_nodes
def test_the_status_shows_each_host_and_its_vms(sim, plays, tmp_path: Path) -> None:
    """Of a roll that lives, and of none; it changes nothing."""
    sim.add_vm("moves", "n1", migrate_seconds="3000")
    sim.add_vm("waits", "n1", migrate_seconds="3000")
    for number in range(6):  # so the plan begins with n1
        sim.add_vm(f"later-{number}", f"n{2 + number % 2}")
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    none = plays.own("status")
    assert none.returncode == 0, none.stdout
    assert "there is no roll\nin service: n1, n2, n3\n" in none.stdout
    words = {"maintenance_requester": "alice", "maintenance_reason": "kernel"}
    with roll(plays, **words):
        sim.until(lambda: runs(sim, 1))
        file = tmp_path / "status.json"
        rules = "{{ rules_host_devices + rules_nearly_stateless }}"
        shown = plays.own("status", maintenance_status_file=str(file), drain_rules=rules)
        assert shown.returncode == 0, shown.stdout
    found = json.loads(file.read_text(encoding="utf-8"))
    assert (found["roll"]["requester"], found["roll"]["state"]) == ("alice", "running")
    rows = {row["name"]: row for row in found["hosts"]}
    assert {name: row["stage"] for name, row in rows.items()} == {"n1": "draining", "n2": "waiting", "n3": "waiting"}
    vms = {vm["name"]: vm for vm in rows["n1"]["vms"]}
    states = sorted(vm["state"] for vm in vms.values())
    assert states == ["moving", "waiting"] and rows["n2"]["vms"] is None
    assert "n1 (draining since" in rows["n2"]["message"]
    uids = [vmi["metadata"]["uid"] for vmi in sim.all(VMIMS)]
    assert not any(uid in shown.stdout for uid in uids)
    assert "of alice, kernel: running" in shown.stdout


@pytest.mark.full
def test_the_status_of_a_roll_that_was_interrupted_says_what_to_type(sim, plays) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="3000")
    with roll(plays) as process:
        sim.until(lambda: runs(sim, 1))
        process.terminate()
        process.wait()
        sim.until(lambda: '"state":"stopped"' in str(sim.all(LEASES)))
        shown = plays.own("status").stdout
        assert "Run the same command again to continue, or run the playbook abort.\n" in shown
        assert plays.own("abort").returncode == 0


@pytest.mark.full
def test_the_status_of_a_single_drain_names_it(sim, plays) -> None:
    sim.add_vm("vm", "n1")
    words = {"maintenance_hosts": "n1", "maintenance_requester": "bob"}
    assert plays.own("drain", **words).returncode == 0
    shown = plays.own("status").stdout
    assert "n1  empty  begun " in shown and "  drain by bob, not part of a roll; " in shown, shown
    assert "No VM runs on n1. To return it to service, run the playbook restore." in shown
    assert plays.own("restore", **words).returncode == 0
    sim.add_vm("stuck", "n1", migrate_result="fail", migrate_seconds="1")
    assert plays.own("drain", drain_max_attempts=1, **words).returncode == 2
    shown = plays.own("status").stdout
    assert "n1  blocked  since " in shown, shown
    assert "default/stuck  blocked: AttemptsUsedUp: 1 attempt; the last failed" in shown, shown
    slow = {"lab/migrate-result": "ok", "lab/migrate-seconds": "3000"}
    sim.edit(VMIS, "stuck", lambda o: o["metadata"]["annotations"].update(slow), "default")
    process = plays.start("drain", **words)
    sim.until(lambda: runs(sim, 1))
    assert "n1  draining  begun " in plays.own("status").stdout
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    shown = plays.own("status").stdout
    assert "n1  draining  begun " in shown and "whose playbook was interrupted" in shown, shown


def test_the_preflight_of_all_nodes_shows_all_blockers_at_once(sim, plays) -> None:
    """It changes nothing; a node that is not there is a row. Where all are ready it ends well."""
    sim.add_vm("well", "n2")
    ready = plays.own("preflight")
    assert ready.returncode == 0 and "\nAll 3 hosts are ready\n" in ready.stdout, ready.stdout
    for node in ("n1", "n3"):
        sim.add_vm(f"stuck-{node}", node, not_migratable_reason="DisksNotLiveMigratable")
    done = plays.own("preflight")
    assert done.returncode == 2, done.stdout
    for node in ("n1", "n3"):
        assert f"{node}  blocked  1 VM  1 blocker" in done.stdout
        assert f"{node}  BLOCKER DisksNotLiveMigratable VM default/stuck-{node}:" in done.stdout
    assert "\n2 of 3 hosts are not ready: n1, n3\n" in done.stdout, done.stdout
    assert written(sim.log) == []


@pytest.mark.full
def test_a_preflight_of_a_node_that_is_not_there_and_what_it_fails_on(sim, plays) -> None:
    sim.add_vm("stuck-n1", "n1", not_migratable_reason="DisksNotLiveMigratable")
    one = plays.own("preflight", maintenance_hosts="n1", preflight_node="n9")
    assert one.returncode == 2
    assert "n1  unknown  -  There is no node n9 in this cluster. " in one.stdout
    policy = {"maintenance_preflight_fail_on": "node_blockers"}
    assert plays.own("preflight", **policy).returncode == 0
    assert written(sim.log) == []


@pytest.mark.full
def test_a_node_that_was_removed_keeps_no_abort_from_its_end(sim, plays) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="60")
    with roll(plays, maintenance_hosts="n1"):
        sim.until(lambda: runs(sim, 1))
    sim.call(lambda: sim.world.store.delete(NODES, "", "n1"))
    done = plays.own("abort")
    assert done.returncode == 0, done.stdout
    assert "n1  not restored: There is no node n1 in this cluster." in done.stdout
    assert "was aborted; none of its hosts is out of service except n1, no longer in the fleet" in done.stdout
    again = plays.own("abort")
    assert again.returncode == 0 and "there is no roll" in again.stdout, again.stdout
    assert plays.own("rolling_maintenance", maintenance_hosts="n2", maintenance_reboot=False).returncode == 0
