"""One roll at a time, that carries on: by ansible-playbook, against the simulator."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import LONGEST
from kubesim.kinds import BY_PLURAL, NODES, QUOTAS, VMIMS, VMIS
from kubesim.reading import full_quota

LEASES = BY_PLURAL["leases"]
HOSTS = "n1,n2,n3"


def record(sim) -> dict[str, Any]:
    """The record of the roll; without hosts if there is none."""
    for lease in sim.all(LEASES):
        if lease["metadata"]["name"] == "virtops-roll":
            found: dict[str, Any] = json.loads(lease["metadata"]["annotations"]["virtops.maintenance/roll"])
            return {**found, "stages": {h["name"]: h["stage"] for h in found["hosts"]}}
    return {"stages": {}, "state": "", "run": "", "beat": 0}


def is_at(sim, host: str, *stages: str) -> bool:
    return record(sim)["stages"].get(host) in stages


@pytest.mark.full
def test_nobody_else_touches_what_a_living_roll_works_on(sim, plays) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="3000")
    for name in ("n2", "n3"):  # the plan begins with n1
        sim.add_vm(f"one-{name}", name)
        sim.add_vm(f"two-{name}", name)
    plays.start("rolling_maintenance", maintenance_hosts=HOSTS, maintenance_reboot=False)
    sim.until(lambda: sim.find(NODES, "n1")["spec"].get("unschedulable"))
    second = plays.own("rolling_maintenance", maintenance_hosts="n3", maintenance_reboot=False)
    assert second.returncode != 0
    assert "A roll already exists for this fleet" in second.stdout
    assert "n1 draining since" in second.stdout
    for playbook, node, *words in (("restore", "n1"), ("drain", "n3", "--check")):
        refused = plays.own(playbook, *words, maintenance_hosts=node)
        assert refused.returncode != 0, refused.stdout
        assert f"{node} belongs to roll " in refused.stdout, refused.stdout
    assert sim.find(NODES, "n1")["spec"]["unschedulable"] is True
    assert not sim.find(NODES, "n3")["spec"].get("unschedulable")
    assert record(sim)["run"] != "" and record(sim)["state"] == "running"


@pytest.mark.full
def test_a_roll_that_goes_well_is_a_page(sim, plays) -> None:
    """What Ansible prints for each step of each host is most of it. One line for each VM, and one table."""
    names = [f"vm-{node}-{number}" for node in ("n1", "n2", "n3") for number in (1, 2)]
    for name in names:
        sim.add_vm(name, name[3:5], migrate_seconds="5")
    done = plays.own("rolling_maintenance", maintenance_hosts=HOSTS, maintenance_reboot=False)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    moved = re.findall(
        r"^\d\d:\d\d:\d\d n\d \d/\d+  default/(\S+) -> n\d moved [^|]*\| roll (\d)/3(, ready \d\d:\d\d)?$",
        done.stdout,
        re.M,
    )
    assert {name for name, _position, _ready in moved} == set(names), done.stdout
    # Eleven of them are three checks that are skipped where nothing is wrong or to do: so a failure is said once, and
    # in words.
    # A slow machine has more of these: what moves, who waits for whom, and VMs that the scheduler moved twice.
    timed = [line for line in lines if " to go" in line or " waits: " in line]
    assert len(lines) - len(timed) - (len(moved) - len(names)) < 79, done.stdout
    # When it will be ready is known once the first host has shown what it takes.
    assert all(bool(ready) is (position != "1") for _name, position, ready in moved), done.stdout
    table = [line.split() for line in lines if re.match(r"(n\d|roll \w+) +(done|3 of 3 done) ", line)]
    assert [row[0] for row in table] == ["n1", "n2", "n3", "roll"], done.stdout
    assert int(table[-1][6]) == len(moved) >= len(names), done.stdout
    assert [call for call in sim.requests("DELETE") if "virtualmachineinstances/" in call.path] == sim.leftovers() == []
    assert all(map(sim.node_of, names)) and not any(node["spec"].get("unschedulable") for node in sim.all(NODES))


@pytest.mark.full
def test_the_next_host_begins_when_the_budget_allows(sim, plays, tmp_path) -> None:
    """Two at once: the third does not wait for both. The second is at work until the third has begun. The first two
    are empty, so neither waits for the other as the plan's target."""
    go_on, tasks = tmp_path / "go-on", tmp_path / "tasks.yml"
    tasks.write_text(
        f"- ansible.builtin.wait_for: {{path: {go_on}, timeout: 600}}\n"
        "  delegate_to: localhost\n  when: inventory_hostname == 'n2'\n"
    )
    sim.add_vm("vm", "n3")
    words = {"maintenance_hosts": HOSTS, "maintenance_reboot": False, "maintenance_tasks": str(tasks)}
    process = plays.start("rolling_maintenance", maintenance_max_unavailable=2, **words)
    seen: list[dict[str, str]] = []

    def third_is_begun() -> bool:
        seen.append(record(sim)["stages"])
        return seen[-1].get("n3", "waiting") != "waiting"

    sim.until(third_is_begun)
    assert seen[-1]["n1"] == "done" != seen[-1]["n2"]
    rest = {"waiting", "done"}
    assert max(len([s for s in stages.values() if s not in rest]) for stages in seen) == 2
    go_on.touch()
    assert process.wait() == 0


@pytest.mark.full
def test_one_node_of_each_zone_is_out(sim, plays, tmp_path) -> None:
    """By a label of the Nodes, which the plan has too. The one that waits for its zone does not hold up that of another
    zone. The first is at work until that has begun. They are empty: nobody waits for a target."""
    go_on, tasks = tmp_path / "go-on", tmp_path / "tasks.yml"
    tasks.write_text(
        f"- ansible.builtin.wait_for: {{path: {go_on}, timeout: 600}}\n"
        "  delegate_to: localhost\n  when: inventory_hostname == 'n1'\n"
    )
    for node, zone in {"n1": "a", "n2": "a", "n3": "b"}.items():
        sim.edit(NODES, node, lambda o, zone=zone: o["metadata"]["labels"].update({"zone": zone}))
    words = {"maintenance_hosts": HOSTS, "maintenance_reboot": False, "maintenance_max_unavailable": 3}
    refused = plays.own("rolling_maintenance", maintenance_max_unavailable_per={"rack": 1}, **words)
    assert refused.returncode != 0
    assert "no value for rack of n1, rack of n2, rack of n3" in refused.stdout
    words |= {"maintenance_max_unavailable_per": {"zone": 1}, "maintenance_tasks": str(tasks)}
    planned = plays.own("rolling_maintenance", "--check", "--forks", "1", **words)
    assert planned.returncode == 0 and "There is no plan" not in planned.stdout, planned.stdout
    assert "The plan takes 2 hosts out together, and Ansible works on 1 at once." in planned.stdout
    process = plays.start("rolling_maintenance", **words)
    sim.until(lambda: record(sim)["stages"].get("n3", "waiting") != "waiting")
    assert is_at(sim, "n2", "waiting") and not is_at(sim, "n1", "done")
    go_on.touch()
    assert process.wait() == 0
    entries = {host["name"]: host for host in record(sim)["hosts"]}
    assert entries["n1"]["since"] <= entries["n2"]["begun"], entries


@pytest.mark.full
def test_a_node_that_others_cordoned_is_out_already(sim, plays) -> None:
    sim.edit(NODES, "n3", lambda o: o["spec"].update(unschedulable=True))
    words = {"maintenance_hosts": "n1", "maintenance_reboot": False}
    done = plays.own("rolling_maintenance", **words)
    assert done.returncode != 0
    assert "n1 was not started: 1 host may be out at once" in done.stdout
    assert "n3 (cordoned by others)" in done.stdout
    assert not sim.find(NODES, "n1")["spec"].get("unschedulable")
    again = plays.own("rolling_maintenance", maintenance_count_others=False, **words)
    assert again.returncode == 0, again.stdout


@pytest.mark.full
def test_a_playbook_whose_roll_is_taken_over_ends(sim, plays) -> None:
    """In mid-drain: its VM waits for a quota until then."""
    sim.add_vm("vm", "n1")
    pods = full_quota(sim)
    words = {"maintenance_hosts": "n1", "maintenance_reboot": False}
    process = plays.start("rolling_maintenance", **words)
    sim.until(lambda: is_at(sim, "n1", "draining"))
    other = plays.start("rolling_maintenance", maintenance_take_over=True, **words)
    assert process.wait(LONGEST) != 0
    sim.edit(QUOTAS, "tight", lambda o: o["spec"]["hard"].update(pods=str(pods + 1)), "default")
    assert other.wait(LONGEST) == 0
    assert is_at(sim, "n1", "done")


@pytest.mark.full
def test_nodes_that_the_inventory_does_not_have_take_vms_and_give_them_back(sim, plays) -> None:
    sim.add_vm("vm", "n1")
    plays.knows_only("n1")
    words = {"maintenance_hosts": "all", "maintenance_reboot": False, "maintenance_move_back": True}
    done = plays.own("rolling_maintenance", **words)
    assert done.returncode == 0, done.stdout
    assert "1 host, 1 VM, by plan " in done.stdout
    assert re.search(r"default/vm -> n[23] moved .*default/vm -> n1 moved [^\n]*roll back 1/1", done.stdout, re.S)
    assert sim.node_of("vm") == "n1" and record(sim)["state"] == "ended"


def test_an_abort_beside_a_living_roll_gives_all_back(sim, plays) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="3000")
    sim.add_vm("other", "n1", migrate_seconds="1")
    process = plays.start("rolling_maintenance", maintenance_hosts="n1,n2", maintenance_reboot=False)
    sim.until(lambda: sim.node_of("other") != "n1")
    # The one that was empty is done.
    assert [text for text in sim.leftovers() if "taint" in text] == ["taint virtops.maintenance/roll on n1"]
    done = plays.own("abort")
    assert done.returncode == 0, done.stdout
    assert process.wait() != 0
    assert record(sim)["state"] == "aborted"
    assert sim.node_of("vm") == "n1"
    assert sim.leftovers() == []
    assert not any(node["spec"].get("unschedulable") for node in sim.all(NODES))


def _agent(sim, value: str) -> None:
    """virt-handler of the node where it runs says whether the guest's agent is connected."""

    def tell(vmi: dict[str, Any]) -> None:
        conditions = vmi["status"].setdefault("conditions", [])
        conditions[:] = [c for c in conditions if c["type"] != "AgentConnected"]
        if value:
            conditions.append({"type": "AgentConnected", "status": value})

    sim.edit(VMIS, "vm", tell, "default")


@pytest.mark.full
def test_no_further_node_begins_while_a_guest_is_silent_that_was_not_before(sim, plays, tmp_path) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1")
    for name in ("one", "two"):  # the plan begins with n1
        sim.add_vm(name, "n2", migrate_seconds="1")
    _agent(sim, "True")
    go_on, tasks = tmp_path / "go-on", tmp_path / "work.yml"
    tasks.write_text(f"- ansible.builtin.wait_for: {{path: {go_on}, timeout: 600}}\n  delegate_to: localhost\n")
    words = {"maintenance_hosts": "n1,n2", "maintenance_reboot": False, "maintenance_tasks": str(tasks)}
    words |= {"maintenance_reboot_timeout": 3}
    process = plays.start("rolling_maintenance", **words)
    sim.until(lambda: is_at(sim, "n1", "at work"))
    _agent(sim, "")
    go_on.touch()
    assert process.wait() != 0
    assert record(sim)["stages"] == {"n1": "failed", "n2": "waiting"}
    assert "GuestAgentSilent VM default/vm" in str(record(sim)["hosts"])
    _agent(sim, "True")
    again = plays.own("rolling_maintenance", **words)
    assert again.returncode == 0, again.stdout
    assert record(sim)["stages"] == {"n1": "done", "n2": "done"}


@pytest.mark.full
def test_vms_go_first_to_nodes_that_need_not_be_emptied_any_more(sim, plays) -> None:
    """Without the roll's taint the scheduler takes the node with the fewest pods, from which they move again."""
    others = {"key": "busy", "effect": "PreferNoSchedule"}
    for node in ("n1", "n2", "n3"):
        sim.edit(NODES, node, lambda node: node["spec"].update(taints=[others]))
    for number, node in enumerate(("n1", "n2", "n2", "n3", "n3", "n3", "n3", "n3")):  # the plan begins with n1
        sim.add_vm(f"vm-{number}", node, migrate_seconds="1")
    done = plays.own("rolling_maintenance", maintenance_hosts="n1,n2", maintenance_reboot=False)
    assert done.returncode == 0, done.stdout
    assert len(sim.all(VMIMS)) == 3, done.stdout
    assert sim.leftovers() == []
    assert sim.find(NODES, "n2")["spec"]["taints"] == [others]


@pytest.mark.full
def test_a_roll_pauses_after_a_node_and_the_same_command_goes_on(sim, plays) -> None:
    for node in ("n1", "n2"):
        sim.add_vm(f"vm-{node}", node, migrate_seconds="1")
    words = {"maintenance_hosts": "n1,n2", "maintenance_reboot": False, "maintenance_pause_after": "n1"}
    first = plays.own("rolling_maintenance", **words)
    assert first.returncode == 0, first.stdout
    assert "Done: n1. Left: n2. No host is out of service." in " ".join(first.stdout.split())
    assert (record(sim)["state"], record(sim)["stages"]) == ("paused", {"n1": "done", "n2": "waiting"})
    assert not sim.find(NODES, "n1")["spec"].get("unschedulable")
    again = plays.own("rolling_maintenance", **words)
    assert again.returncode == 0, again.stdout
    assert (record(sim)["state"], record(sim)["stages"]) == ("ended", {"n1": "done", "n2": "done"})


@pytest.mark.full
def test_a_node_that_would_not_be_through_in_the_window_is_not_begun(sim, plays, tmp_path) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"steps": [{"hosts": ["n1"], "duration": 10**6, "moves": []}]}))
    words = {"maintenance_reboot": False, "maintenance_until": "06:00", "maintenance_plan_file": str(plan)}
    done = plays.own("rolling_maintenance", maintenance_hosts="n1", **words)
    assert done.returncode == 0, done.stdout
    assert "n1 was not started: n1 takes about 16667 min, and the window ends at" in " ".join(done.stdout.split())
    assert record(sim)["state"] == "paused"
    assert not sim.find(NODES, "n1")["spec"].get("unschedulable")
