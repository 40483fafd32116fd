"""docs/awx by ansible-runner, as AWX runs it: answers of surveys, events, artefacts, cancel, slices."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.jobs import Job, Jobs, answers, results
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays
from ansible_collections.virtops.maintenance.tests.kubevirt.test_scale import fill
from kubesim import Kubesim
from kubesim.kinds import NODES, VMIMS
from kubesim.reading import clean

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(os.environ.get("VIRTOPS_KUBECONFIG")), reason="needs the simulator: its nodes and VMs"),
]
# Characters of a result from which on ansible-runner drops it (MAX_EVENT_RES).
MOST = 700_000
HOSTS = "n1,n2,n3"


@pytest.fixture
def jobs(sim: Kubesim, tmp_path: Path) -> Iterator[Jobs]:
    return Jobs(sim.kubeconfig(tmp_path / "credential", "maintenance"), tmp_path)


def lines(text: str) -> list[str]:
    """Without what a terminal's width and colours change, and in which order hosts answered."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r", "")
    found = [re.sub(r" ?\*{3,}$", "", line).rstrip() for line in plain.splitlines() if line.strip()]
    return [line for line in found if not re.match(r"(ok|skipping): ", line)]


def moving(sim: Kubesim) -> bool:
    return any(m.get("status", {}).get("phase") == "Running" for m in sim.all(VMIMS))


def test_the_plan_is_what_a_terminal_shows_and_its_figures_go_to_the_next_node(
    sim: Kubesim, jobs: Jobs, plays: Plays
) -> None:
    sim.add_vm("web", "n1")
    job = jobs.run("plan", answers("plan", maintenance_hosts=HOSTS))
    assert job.runner.status == "successful", job.stdout
    typed = plays.own("plan", maintenance_hosts=HOSTS)
    assert lines(job.stdout) == lines(typed.stdout)
    figures = job.artefacts["maintenance_plan_stats"]
    assert (figures["fits"], figures["hosts"], figures["steps"], figures["hosts_left"]) == (True, 3, 3, [])
    assert figures["moves"] >= 1 and figures["minutes"] >= 0


def test_a_cancelled_roll_is_carried_on_under_another_job(sim: Kubesim, jobs: Jobs) -> None:
    sim.add_vm("web", "n1", migrate_seconds="300")
    # reboot: no node of the simulator has ssh. All else as nobody typed it, with texts that are empty.
    given = answers("roll", maintenance_hosts=HOSTS, maintenance_reboot="never")
    assert "" in given.values()
    job = jobs.start("roll", given)
    sim.until(lambda: moving(sim) or not job.running)
    job.cancel()
    assert job.wait().runner.status == "canceled"

    shown = jobs.run("status", {}).artefacts["maintenance_roll_stats"]
    # The plan begins with those that have no VM.
    assert (shown["result"], shown["hosts"], shown["done"], shown["out"]) == ("stopped", 3, 2, ["n1"])
    # A workflow gives what a node left to those after it, as extra vars.
    again = jobs.run("roll", {**given, "maintenance_roll_stats": shown})
    assert again.runner.status == "successful", again.stdout
    assert f"roll {shown['roll']} resumed: 2 of 3 hosts done; n1 draining since" in again.stdout
    seen = lines(again.stdout)
    assert any(re.match(r"\d\d:\d\d:\d\d n1 1/1  default/web -> n\d moved .* \| roll ", line) for line in seen), seen
    figures = again.artefacts["maintenance_roll_stats"]
    tally = {**shown["tally"], "vms": 1, "moved": 1}
    assert figures == {**shown, "result": "done", "done": 3, "out": [], "tally": tally}
    assert clean(sim)


def test_a_roll_that_fails_says_so_to_the_node_that_comes_then(sim: Kubesim, jobs: Jobs) -> None:
    sim.add_vm("giveup", "n1", migrate_result="fail", migrate_seconds="1")
    job = jobs.run("roll", answers("roll", maintenance_hosts=HOSTS, maintenance_reboot="never"))
    assert job.runner.status == "failed"
    figures = job.artefacts["maintenance_roll_stats"]
    assert (figures["result"], figures["failed"]) == ("failed", ["n1"])
    abort = jobs.run("abort", {**answers("abort"), "maintenance_roll_stats": figures})
    assert abort.runner.status == "successful", abort.stdout
    after = abort.artefacts["maintenance_roll_stats"]
    assert (after["roll"], after["result"], after["out"]) == (figures["roll"], "aborted", [])


def test_a_roll_that_is_refused_says_so_to_the_node_that_comes_then(sim: Kubesim, jobs: Jobs) -> None:
    sim.add_vm("stays", "n1", not_migratable_reason="DisksNotLiveMigratable")
    job = jobs.run("roll", answers("roll", maintenance_hosts=HOSTS, maintenance_reboot="never"))
    assert job.runner.status == "failed" and "The roll cannot be done and did not start" in job.stdout, job.stdout
    figures = job.artefacts["maintenance_roll_stats"]
    assert (figures["result"], figures["hosts"], figures["done"], figures["out"]) == ("refused", 3, 0, [])


def test_a_drain_names_the_hosts_that_are_left(sim: Kubesim, jobs: Jobs) -> None:
    sim.add_vm("web", "n1")
    sim.add_vm("stays", "n2", strategy="None")
    job = jobs.run("drain", answers("drain", maintenance_hosts="n1,n2"))
    assert job.runner.status == "failed"
    figures = job.artefacts["maintenance_drain_stats"]
    assert (figures["hosts"], figures["drained"], figures["not_drained"]) == (2, 1, ["n2"]), job.stdout


def test_of_two_slices_one_rolls_and_the_other_says_why_it_does_not(sim: Kubesim, jobs: Jobs) -> None:
    """AWX gives each slice some of the hosts as its inventory."""
    for node in ("n1", "n2"):
        sim.add_vm(f"vm-{node}", node, migrate_seconds="100")
    given = answers("roll", maintenance_hosts="all", maintenance_reboot="never")
    slices = [jobs.start("roll", given, hosts=["n1"]), jobs.start("roll", given, hosts=["n2"])]
    ended: dict[str, Job] = {job.wait().runner.status: job for job in slices}
    assert set(ended) == {"successful", "failed"}, [job.stdout for job in slices]
    refused = [event for event in ended["failed"].events if event["event"] == "runner_item_on_failed"]
    assert len(refused) == 1
    said = str(refused[0]["event_data"]["res"]["msg"])
    assert said.startswith("A roll already exists for this fleet") and said.endswith("Nothing was done.")
    rolled = ended["successful"].artefacts["maintenance_roll_stats"]
    assert (rolled["result"], rolled["hosts"], rolled["done"]) == ("done", 1, 1)
    assert not any(node["spec"].get("unschedulable") for node in sim.all(NODES))


@pytest.mark.parametrize(
    ("template", "task", "vms"),
    [("drain", "Empty the host (check mode, nothing is done)", 500), ("plan", "Plan the roll", 1000)],
)
def test_of_many_vms_what_a_person_reads_is_not_dropped(
    sim: Kubesim, jobs: Jobs, template: str, task: str, vms: int
) -> None:
    """A node has 110 pods as it comes, and seldom more than 500. More VMs of a host: test_size.py, for libvirt."""
    for node in ("n2", "n3"):
        sim.edit(NODES, node, lambda obj: obj["status"]["allocatable"].update(pods=str(vms)))
    sim.call(lambda: fill(sim.world.store, ["n1"], vms))
    job = jobs.run(template, answers(template, maintenance_hosts="n1"), cmdline="--check")
    assert job.runner.status == "successful", job.stdout[-3000:]
    sizes = results(job)
    print(f"{template} of {vms}: {sizes}")
    assert 0 < sizes[task] < MOST
