"""The plan of a roll over a cluster's nodes: read over HTTP, predicted, held against a drain."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    MigrationSettings,
    PlacementPolicy,
    Policy,
    PolicyError,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.accuracy import compare
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.speeds import KUBEVIRT
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.text import table
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.plan import options as plan_options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.plan.fleet import read_fleet
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll_fleet import RollOfCluster
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.rules import compile_rules
from ansible_collections.virtops.maintenance.plugins.plugin_utils._plan import SPEC, plan_of
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import written
from kubesim import Kubesim, templates
from kubesim.kinds import NODES, VMIS
from kubesim.reading import row

pytestmark = pytest.mark.full


def small(sim: Kubesim, *names: str) -> None:
    """Nodes that hold 1 GiB of VMs."""
    for name in names:
        sim.edit(NODES, name, lambda node: node["status"]["allocatable"].update(memory="1Gi"))


def plan(
    found: dict[str, Any], roll: list[str], allow_stop: bool = False, rules: Any = (), **more: Any
) -> dict[str, Any]:
    migration = found["migration"]
    policy = Policy(
        limits=Limits(**found["limits"]),
        placement_policy=PlacementPolicy(require_anti_affinity=True),
        allow_stop=allow_stop,
        rules=rules,
        migration=MigrationSettings(bandwidth_mib=migration["bandwidth"]),
    )
    request = request_of(
        found["hosts"],
        found["vms"],
        roll,
        policy,
        speeds=replace(KUBEVIRT, setup=1.0, switch=0.0, overhead=0.0),
        budgets=found["budgets"],
        quotas=found["quotas"],
        **more,
    )
    return plan_roll(request).to_dict()


def test_the_plan_reads_and_writes_nothing(sim, operator) -> None:
    sim.add_vm("vm", "n1", memory="256Mi")
    before = len(sim.log)
    found = read_fleet(operator.auth)
    assert written(sim.log[before:]) == []
    assert len(sim.log) - before < 12  # lists, not a request for each VM
    (vm,) = found["vms"]
    assert (vm["name"], vm["host"], vm["strategy"]) == ("default/vm", "n1", "LiveMigrate")
    assert vm["memory_mib"] >= 256 and vm["sent_mib"] == 256
    assert {host["name"] for host in found["hosts"]} == {"n1", "n2", "n3"}
    assert found["limits"]["cluster"] == 5 and found["limits"]["outbound"] == 2


def test_what_other_pods_request_is_not_free(sim, operator) -> None:
    small(sim, "n1", "n2", "n3")
    sim.add_vm("vm", "n1", memory="512Mi")
    for node in ("n2", "n3"):
        spec = {"nodeName": node, "containers": [templates.container(memory="600Mi")]}
        pod = {"metadata": {"name": f"other-{node}", "namespace": "default"}, "spec": spec}
        sim.add("pods", {**pod, "status": {"phase": "Running"}})
    found = read_fleet(operator.auth)
    assert {h["name"]: h["committed_mib"] for h in found["hosts"]}["n2"] == 600
    assert plan(found, ["n1"])["refusal"]["name"] == "default/vm"


def test_the_scheduler_would_refuse_a_node_and_so_does_the_plan(sim, operator) -> None:
    """A selector, a taint; and what only a cordon of ours or being not Ready keeps away."""
    sim.add_node("n4", pool="gold")
    sim.edit(NODES, "n1", lambda node: node["metadata"]["labels"].update(pool="gold"))
    sim.add_vm("bound", "n1", pool="gold")
    sim.add_vm("free", "n1")
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    sim.edit(NODES, "n2", lambda node: node["spec"].update(taints=[taint]))
    found = read_fleet(operator.auth)
    rows = {vm["name"]: vm for vm in found["vms"]}
    assert set(rows["default/bound"]["refused_by"]) == {"n2", "n3"}
    assert set(rows["default/free"]["refused_by"]) == {"n2"}
    targets = {m["name"]: m["target"] for m in plan(found, ["n1"])["steps"][0]["moves"]}
    assert targets["default/bound"] == "n4" and targets["default/free"] in ("n3", "n4")
    sim.edit(NODES, "n4", lambda node: node["spec"].update(unschedulable=True))
    again = plan(read_fleet(operator.auth), ["n1"])
    assert again["refusal"]["name"] == "default/bound"


def test_a_share_is_of_the_nodes_that_the_roll_counts(sim, operator) -> None:
    """20 % of 10 nodes are 2; with those of the control plane, which run no VMs, it would be 3."""
    for number in range(4, 16):
        sim.add_node(f"n{number}")
    for number in range(11, 16):
        sim.edit(NODES, f"n{number}", lambda node: node["metadata"]["labels"].pop("kubevirt.io/schedulable"))
    sim.edit(NODES, "n4", lambda node: node["metadata"]["labels"].update({"kubevirt.io/schedulable": "false"}))
    found = read_fleet(operator.auth)
    counted = RollOfCluster(Client(operator.auth), "default").fleet().hosts
    assert sorted(host["name"] for host in found["hosts"] if host["runs_vms"]) == sorted(counted)
    asked = {"hosts": found["hosts"], "vms": [], "roll": counted, "max_unavailable": "20%", "platform": "kubevirt"}
    steps = plan_of(ArgumentSpecValidator(SPEC).validate(asked).validated_parameters, {})["steps"]
    assert [len(step["hosts"]) for step in steps] == [2, 2, 2, 2, 2]


def test_vms_that_never_share_a_node_are_planned_apart(sim, operator) -> None:
    for name, node in (("a", "n1"), ("b", "n2")):
        sim.add_vm(name, node, labels={"kind": "db"})
        term = {"labelSelector": {"matchLabels": {"kind": "db"}}, "topologyKey": "kubernetes.io/hostname"}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        sim.edit(
            VMIS,
            name,
            lambda vmi, rule=rule: vmi["spec"].setdefault("affinity", {}).update(podAntiAffinity=rule),
            "default",
        )
    found = read_fleet(operator.auth)
    assert {vm["group"] for vm in found["vms"]} == {"default/kind=db"}
    (move,) = plan(found, ["n1"])["steps"][0]["moves"]
    assert move["target"] == "n3"


def web(sim: Kubesim, least: int, *strategies: str) -> None:
    """VMs a, b, ... on n1, n2, ... of one budget."""
    for number, strategy in enumerate(strategies):
        node = f"n{number % 3 + 1}"
        sim.add_vm("abcdef"[number], node, strategy=strategy, labels={"tier": "web"})
    selector = {"matchLabels": {"tier": "web"}}
    spec = {"minAvailable": least, "selector": selector}
    meta = {"name": "web", "namespace": "default"}
    sim.add("poddisruptionbudgets", {"metadata": meta, "spec": spec})


def test_a_budget_of_vms_that_are_stopped_keeps_nodes_apart(sim, operator) -> None:
    """A migration disturbs no budget, so those of VMs that migrate are not asked."""
    web(sim, 2, "None", "None", "LiveMigrate")
    found = read_fleet(operator.auth)
    (budget,) = found["budgets"]
    names = {vm["uuid"]: vm["name"] for vm in found["vms"]}
    assert budget["name"] == "default/web" and budget["at_once"] == budget["left"] == 1
    assert {names[uuid] for uuid in budget["vms"]} == {"default/a", "default/b"}
    planned = plan(found, ["n1", "n2"], allow_stop=True, max_unavailable=2)
    assert planned["fits"] and sorted(s["hosts"] for s in planned["steps"]) == [["n1"], ["n2"]]
    # A rule that migrates them leaves the budget aside.
    moves = options.rules([{"name": "move", "strategy": "LiveMigrate"}])
    planned = plan(found, ["n1", "n2"], rules=moves, max_unavailable=2)
    assert [sorted(step["hosts"]) for step in planned["steps"]] == [["n1", "n2"]]


def test_a_budget_that_never_allows_it_makes_the_plan_refuse(sim, operator) -> None:
    """As the drain blocks."""
    web(sim, 1, "None")
    planned = plan(read_fleet(operator.auth), ["n1"], allow_stop=True)
    refusal = planned["refusal"]
    assert (refusal["reason"], refusal["name"]) == ("DisruptionBudget", "default/a")
    assert "cannot leave n1" in refusal["sentence"]
    assert "default/web can never allow an eviction: minAvailable 1 of 1" in refusal["sentence"]
    done = operator.drain(allow_stop=True, shutdown_timeout=1.0)
    assert done["phase"] == "Blocked" and row(done, "a")["reason"] == "DisruptionBudget"
    moves = options.rules([{"name": "move", "strategy": "LiveMigrate"}])
    assert plan(read_fleet(operator.auth), ["n1"], rules=moves)["fits"]


def test_the_playbook_refuses_for_a_budget(sim, plays) -> None:
    web(sim, 1, "None")
    done = plays.own("plan", maintenance_hosts="n1", drain_allow_stop=True)
    assert done.returncode != 0
    text = " ".join(done.stdout.split())
    assert "cannot leave n1 (DisruptionBudget). default/web can never allow an eviction" in text


def test_two_budgets_of_one_vm_never_allow_it(sim, operator) -> None:
    web(sim, 1, "None", "None", "None")
    selector = {"matchLabels": {"tier": "web"}}
    meta = {"name": "second", "namespace": "default"}
    spec = {"minAvailable": 1, "selector": selector}
    sim.add("poddisruptionbudgets", {"metadata": meta, "spec": spec})
    planned = plan(read_fleet(operator.auth), ["n1"], allow_stop=True)
    assert "default/second and default/web can never" in planned["refusal"]["sentence"]


def test_a_budget_that_is_used_up_at_the_moment_is_a_warning(sim, operator) -> None:
    web(sim, 1, "None", "None")
    found = read_fleet(operator.auth)
    found["budgets"][0]["left"] = 0
    planned = plan(found, ["n1"], allow_stop=True)
    assert planned["fits"]
    assert "default/web allows no eviction at the moment: default/a on n1" in planned["warnings"][0]


def test_a_vm_that_is_stopped_and_starts_elsewhere_is_as_foreseen(sim, operator, verdicts) -> None:
    sim.add_vm("always", "n1", strategy="None")
    sim.add_vm("manual", "n1", strategy="None", run_strategy="Manual")
    planned = plan(read_fleet(operator.auth), ["n1"], allow_stop=True)
    done = operator.drain(allow_stop=True)
    assert verdicts(done) == {"always": "cold_moved", "manual": "stopped"}
    told = {**planned, "targets": "predicted"}  # as maintenance_plan says it of KubeVirt
    assert [one["as_foreseen"] for one in compare(told, "n1", done["vms"])] == [True, True]
    libvirts = {**planned, "targets": "chosen"}
    assert [one["as_foreseen"] for one in compare(libvirts, "n1", done["vms"])] == [False, True]
    said = [any("where its runStrategy is Always" in line for line in table(one)) for one in (told, libvirts)]
    assert said == [True, False]


def test_a_vm_that_blocks_the_drain_blocks_the_plan(sim, operator) -> None:
    sim.add_vm("stuck", "n1", not_migratable_reason="DisksNotLiveMigratable")
    planned = plan(read_fleet(operator.auth), ["n1"])
    assert planned["refusal"]["reason"] == "DisksNotLiveMigratable"
    assert operator.drain()["phase"] == "Blocked"


def test_the_playbook_plans_a_roll_and_says_what_is_predicted(sim, plays, tmp_path) -> None:
    for node in ("n1", "n2"):
        sim.add_vm(f"on-{node}", node)
    before = len(sim.log)
    file = tmp_path / "plan.json"
    done = plays.own("plan", maintenance_hosts="n1:n2", maintenance_plan_file=str(file))
    assert done.returncode == 0, done.stdout
    assert written(sim.log[before:]) == []
    assert "It fits: 2 hosts in 2 steps, 2 moves of 2 VMs" in done.stdout
    assert "to (predicted)" in done.stdout and "KubeVirt's scheduler chooses" in done.stdout
    assert json.loads(file.read_text(encoding="utf-8"))["targets"] == "predicted"


def test_the_host_with_the_python_package_is_no_node(sim, plays, tmp_path) -> None:
    sim.add_vm("web", "n1")
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    file = tmp_path / "plan.json"
    told = {"maintenance_api_host": "bastion", "maintenance_plan_file": str(file), **here}
    done = plays.own("plan", "-i", "bastion,", **told)
    assert done.returncode == 0, done.stdout
    steps = json.loads(file.read_text(encoding="utf-8"))["steps"]
    assert sorted(node for step in steps for node in step["hosts"]) == ["n1", "n2", "n3"]


def test_the_drain_is_told_beside_the_plan(sim, plays, tmp_path) -> None:
    sim.add_vm("web", "n1")
    told = {"maintenance_hosts": "n1", "maintenance_plan_file": str(tmp_path / "plan.json")}
    assert plays.own("plan", **told).returncode == 0
    done = plays.own("drain", **told)
    assert done.returncode == 0, done.stdout
    text = " ".join(done.stdout.split())
    assert "default/web: moved to n" in text and "planned: moved to n" in text


def test_the_playbook_fails_if_it_does_not_fit(sim, plays) -> None:
    small(sim, "n1", "n2", "n3")
    for node in ("n1", "n2", "n3"):
        sim.add_vm(f"on-{node}", node, memory="700Mi")
    done = plays.own("plan")
    assert done.returncode != 0
    assert "has no target once" in " ".join(done.stdout.split())
    done = plays.own("plan", drain_limits={"inbound": 1})
    assert "drain_limits other than outbound" in " ".join(done.stdout.split())
    more = {"maintenance_placement_profile": "HighNodeUtilization", "maintenance_anti_affinity": "required"}
    done = plays.own("plan", drain_measure_dirty_rate=2, **more)
    text = " ".join(done.stdout.split())
    for word in ("placement_profile (the", "anti_affinity (give", "measure_dirty_rate (only"):
        assert f"drain_{word}" in text


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("on_not_migratable", "save", "there is no save on KubeVirt"),
        ("strategy", "None", "every VMI has one"),
        ("move_inactive", True, "is on no node"),
        ("placement_profile", "HighNodeUtilization", "the scheduler chooses"),
        ("rules", [{"name": "r", "on_not_migratable": "cold_migrate"}], "no cold_migrate"),
    ],
)
def test_what_kubevirt_does_not_know_is_refused(option: str, value: Any, text: str) -> None:
    params = {
        "rules": [],
        "on_not_migratable": "block",
        "strategy": "LiveMigrate",
        "move_inactive": False,
        "placement_profile": "LowNodeUtilization",
    }
    plan_options.check(params)
    with pytest.raises(PolicyError, match=text):
        plan_options.check({**params, option: value})


def test_the_plan_goes_by_kubevirts_settings_and_says_so(sim, plays) -> None:
    """Rules of the shipped sets; a group is kept apart whatever the option says."""
    rules = compile_rules([{"name": "r", "migration": {"auto_converge": True}}])
    made = plan_options.policy(Policy(rules=rules))
    assert made.rules[0].migration is None and made.placement_policy.require_anti_affinity
    assert "(r): KubeVirt migrates with its own" in plan_options.warnings(made)[0]
    assert plan_options.warnings(plan_options.policy(Policy())) == []
    sim.add_vm("db", "n1", labels={"memory-writes": "heavy"})
    asked = {"name": "slowed", "migration": {"auto_converge": True}}
    done = plays.own("plan", maintenance_hosts="n1", maintenance_rules=[asked])
    assert done.returncode == 0, done.stdout
    assert "(slowed): KubeVirt migrates with its own" in " ".join(done.stdout.split())
