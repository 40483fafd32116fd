"""The collection's own playbooks and modules by ansible-playbook, against the simulator."""

from __future__ import annotations

import json

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import written
from kubesim.kinds import NODES
from kubesim.reading import add_pod, take_slots


@pytest.mark.full
def test_drain_and_restore_by_the_collections_playbooks(sim, plays) -> None:
    for number in range(3):
        sim.add_vm(f"vm{number}", "n1")
    done = plays.own("drain", maintenance_hosts="n1")
    assert done.returncode == 0, done.stdout
    assert "default/vm0 -> n" in done.stdout
    assert {sim.node_of(f"vm{number}") for number in range(3)} <= {"n2", "n3"}
    assert sim.find(NODES, "n1")["spec"]["unschedulable"] is True
    again = plays.own("drain", maintenance_hosts="n1")
    assert again.returncode == 0 and "changed=0" in again.stdout, again.stdout
    back = plays.own("restore", maintenance_hosts="n1")
    assert back.returncode == 0, back.stdout
    assert not sim.find(NODES, "n1")["spec"].get("unschedulable")
    assert sim.leftovers() == []


def test_what_blocks_fails_the_playbook_and_says_why(sim, plays) -> None:
    """Where others report success once their waiting is over."""
    sim.add_vm("stuck", "n1", not_migratable_reason="DisksNotLiveMigratable")
    done = plays.own("drain", maintenance_hosts="n1")
    assert done.returncode != 0
    assert "n1 is Blocked, not Drained." in done.stdout
    assert "DisksNotLiveMigratable" in done.stdout
    assert sim.node_of("stuck") == "n1"
    # In words, and not once more as the result of a module.
    assert '"certificate"' not in done.stdout and '"vms"' not in done.stdout
    back = plays.own("restore", maintenance_hosts="n1")
    assert back.returncode == 0
    assert "stuck" not in back.stdout  # nothing was ever done with it


def test_check_mode_writes_nothing(sim, plays) -> None:
    sim.add_vm("vm", "n1")
    before = len(sim.log)
    done = plays.own("drain", "--check", "--diff", maintenance_hosts="n1")
    assert done.returncode == 0, done.stdout
    assert written(sim.log[before:]) == []
    assert "+node n1: cordoned" in done.stdout


@pytest.mark.full
def test_check_mode_tells_times_and_warns_of_what_would_stay(sim, plays) -> None:
    """128 MiB each over 64 MiB/s, two at once, a pod made first for 4 s: 7 s, twice."""
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1")
    sim.add_vm("stuck", "n1", not_migratable_reason="DisksNotLiveMigratable")
    speeds = {"link": 128, "setup": 4, "switch": 1, "overhead": 2}
    sim.configure(migrations={"bandwidthPerMigration": "64Mi"})
    done = plays.own("drain", "--check", maintenance_hosts="n1", maintenance_speeds=speeds)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("about 7.0 s, pause 40 ms") == 3, done.stdout
    assert "n1  about 16 s in total, without default/stuck" in done.stdout
    text = " ".join(done.stdout.split())
    why = "because of default/stuck (DisksNotLiveMigratable)."
    assert f"n1 would not become Drained {why}" in text


@pytest.mark.full
def test_rules_of_the_inventory_are_applied(sim, plays) -> None:
    """A rule may be what keeps a VM from being stopped."""
    sim.add_vm("db", "n1", strategy="None", labels={"tier": "db"})
    sim.add_vm("web", "n1")
    rules = [{"name": "never stop", "when": "labels.tier == 'db'", "allow_stop": False}]
    done = plays.own("drain", maintenance_hosts="n1", maintenance_rules=rules, drain_allow_stop=True)
    assert done.returncode != 0
    assert "StopNotAllowed" in done.stdout
    assert sim.node_of("db") == "n1" and sim.node_of("web") != "n1"
    wrong = [{"name": "typo", "when": "labels.tier = 'db'", "allow_stop": False}]
    done = plays.own("drain", maintenance_hosts="n2", maintenance_rules=wrong)
    assert done.returncode != 0 and "rules[0] (typo)" in done.stdout


@pytest.mark.full
def test_a_warning_names_settings_that_kubevirt_does_not_apply(sim, plays) -> None:
    sim.add_vm("db", "n1", labels={"memory-writes": "heavy"})
    rules = "{{ rules_host_devices + rules_memory_writers }}"
    done = plays.own("drain", "--check", maintenance_hosts="n1", drain_rules=rules)
    assert done.returncode == 0, done.stdout
    text = " ".join(done.stdout.split())
    assert "default/db: auto_converge should be true (rule memory writers, slowed" in text
    assert "Make a MigrationPolicy that selects the VM, with allowAutoConverge: true." in text


@pytest.mark.full
def test_what_has_no_meaning_on_kubevirt_is_refused(sim, plays) -> None:
    sim.add_vm("vm", "n1")
    before = len(sim.log)
    done = plays.own(
        "drain",
        maintenance_hosts="n1",
        drain_migration={"post_copy": True},
        drain_limits={"outbound": 1, "inbound": 3},
        drain_move_inactive=True,
        drain_placement_profile="HighNodeUtilization",
        drain_anti_affinity="required",
        drain_measure_dirty_rate=2,
    )
    assert done.returncode != 0
    text = " ".join(done.stdout.split())
    for word in (
        "drain_migration (make a MigrationPolicy)",
        "drain_move_inactive",
        "drain_limits",
        "drain_placement_profile (the scheduler",
        "drain_anti_affinity (give",
        "drain_measure_dirty_rate (only libvirt",
    ):
        assert word in text
    assert written(sim.log[before:]) == []
    assert sim.node_of("vm") == "n1"


@pytest.mark.full
def test_what_is_not_done_in_time_is_no_success(sim, plays) -> None:
    """k8s_drain says changed=true and exits 0 once its wait is over, with the VM where it was."""
    take_slots(sim)
    sim.add_vm("slow", "n1")
    done = plays.own("drain", maintenance_hosts="n1", drain_timeout=2)
    assert done.returncode != 0
    assert "n1 is Blocked, not Drained." in done.stdout and "WaitingForSlot" in done.stdout
    assert sim.node_of("slow") == "n1" and sim.leftovers() == []


@pytest.mark.full
def test_a_pod_that_the_drain_refuses_is_told_by_the_preflight(sim, plays) -> None:
    """Judged by the same variable as the drain's."""
    sim.add_vm("vm", "n1")
    add_pod(sim, "odd", "n1", owner="")
    before = len(sim.log)
    done = plays.own("drain", maintenance_hosts="n1")
    assert done.returncode != 0
    assert "BLOCKER PodNotManaged pod default/odd: " in " ".join(done.stdout.split())
    assert "n1 is not ready" in done.stdout and written(sim.log[before:]) == []
    done = plays.own("drain", maintenance_hosts="n1", drain_pods={"force": True})
    assert done.returncode == 0, done.stdout
    assert sim.node_of("vm") != "n1" and "PodNotManaged" not in done.stdout


@pytest.mark.full
def test_one_node_that_cannot_be_read_keeps_none_of_the_others(sim, plays, tmp_path) -> None:
    """A damaged record on one node, no rights at all for another one's account."""
    for node in ("n1", "n2", "n3"):
        sim.add_vm(f"vm-{node}", node)
    notes = {"virtops.maintenance/record": "{"}
    sim.edit(NODES, "n2", lambda o: o["metadata"].setdefault("annotations", {}).update(notes))
    sim.api.access.rules["nobody"] = []
    nobody = str(sim.kubeconfig(tmp_path / "nobody", "nobody"))
    info = {
        "virtops.maintenance.kubevirt_node_info": {
            "node": "{{ inventory_hostname }}",
            "kubeconfig": "{{ (inventory_hostname == 'n3') | ternary(nobody, omit) }}",
        },
        "delegate_to": "localhost",
        "register": "node",
    }
    told = {"ansible.builtin.debug": {"msg": "VMS {{ node.vms | map(attribute='name') | list }}"}}
    play = {"hosts": "all", "gather_facts": False, "tasks": [info, told]}
    (tmp_path / "look.yml").write_text(json.dumps([play]), encoding="utf-8")
    done = plays.run(str(tmp_path / "look.yml"), nobody=nobody)
    assert done.returncode != 0 and done.stdout.count("VMS ['default/vm-n1']") == 1, done.stdout
    assert "the record is not readable" in done.stdout
    assert "Not allowed: get nodes" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.full
def test_the_preflight_can_stop_it_before_anything_moves(sim, plays) -> None:
    """Blockers first, a line each, with the remedy."""
    sim.add_vm("stuck", "n1", not_migratable_reason="HostDeviceNotLiveMigratable")
    sim.add_vm("well", "n1")
    sim.edit(NODES, "n1", lambda node: node["spec"].update(unschedulable=True))
    options = {"maintenance_hosts": "n1", "maintenance_preflight_fail_on": "blockers"}
    done = plays.own("drain", **options)
    assert done.returncode != 0
    text = " ".join(done.stdout.split())
    assert text.index("BLOCKER HostDevice") < text.index("WARNING CordonedByOthers node n1")
    assert "VM default/stuck" in text and "-> Remove the device from the VM" in text
    assert "n1 is not ready" in text
    assert sim.node_of("well") == "n1"
    # Told to be no blocker, and the drain says the rest.
    severity = {"HostDeviceNotLiveMigratable": "warning"}
    done = plays.own("drain", maintenance_preflight_severity=severity, **options)
    assert "n1 is Blocked, not Drained." in done.stdout
    assert sim.node_of("well") != "n1"
    done = plays.own("drain", maintenance_preflight_severity={"HostDevice": "warning"}, **options)
    assert "'HostDevice', which is not a preflight code" in " ".join(done.stdout.split())
