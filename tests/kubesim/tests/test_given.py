"""The tests of tests/kubevirt against a given cluster: what they count, and how they leave it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kubesim import Kubesim, ctl, nodes, templates
from kubesim.given import WANTED, Given
from kubesim.kinds import NAMESPACES, NODES, PODS, POLICIES, QUOTAS, VMIS, VMS
from kubesim.reading import add_pod
from kubesim.remote import RemoteError
from kubesim.words import condition

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[3]
# One of each kind: it asks the cluster, starts a simulator, needs its log, asks nobody; needs the simulator in what a
# fixture has made, in what is given to it, in another project; and a name that is taken.
CHOSEN = (
    "test_abort.py::test_someone_elses_cordon_stays",
    "test_preflight_rights.py::test_rights_in_the_namespace_of_the_vms_are_enough",
    "test_drain.py::test_each_vm_is_evicted_once_and_runs_elsewhere",
    "test_rules.py::test_wrong_settings_of_a_rule_are_an_error",
    "test_migration_abort.py::test_an_abort_that_is_never_answered_is_told",
    "test_one_answer.py::test_the_drain_tells_it_too[refused]",
    "test_pipeline.py::test_its_check_is_red_where_the_work_was_not_done",
    "test_versions.py::test_a_refused_cancel_is_not_told_as_restored",
)


@pytest.fixture
def given(tmp_path: Path):
    with Kubesim(scale=20) as sim:
        for name in WANTED:
            sim.add_node(name)
        yield sim, sim.kubeconfig(tmp_path / "kubeconfig")


def test_only_what_touched_the_cluster_is_counted_as_passed_on_it(given) -> None:
    """A VM of others has the name that one test gives to its own."""
    sim, kubeconfig = given
    sim.add_node("n4")
    sim.add("virtualmachines", templates.theirs("theirs", "n4"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-rs"] + [f"tests/kubevirt/{name}" for name in CHOSEN],
        env={**os.environ, "VIRTOPS_KUBECONFIG": str(kubeconfig), "VIRTOPS_KNOBS": "1"},
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    told = re.search(r"integration-kubevirt: (passed=.*)", done.stdout)
    assert told is not None, done.stdout + done.stderr
    counts = dict(part.split("=") for part in told[1].split())
    assert counts == {
        "passed": "1",
        "failed": "0",
        "skipped_simulator": "6",
        "skipped_knobs": "0",
        "skipped_guest": "0",
        "skipped_else": "0",
        "passed_without_it": "1",
    }, done.stdout
    assert "needs the simulator: the test starts one of its own" in done.stdout
    # And that was said before the first of them began.
    told = "integration-kubevirt: 2 tests begin, 6 do not: simulator 6\n"
    assert told in done.stdout
    each = (
        "  needs the simulator: default/theirs is a VM of others here: 1\n    test_versions.py: test_a_refused_cancel_"
    )
    assert done.stdout.index(told) < done.stdout.index(each) < done.stdout.index("100%")


_WRONG = {
    "vm vm n1 migrate_second=3": "there is no option migrate_second (did you mean migrate_seconds?)",
    "vm vm n1 down=true": "there is no option down",  # a node's
    "vm vm n1 migrate_seconds=soon": "migrate_seconds is 'soon': expected a number",
    "vm vm n1 migrate_result=broken": "expected ok, fail, fail:2, hang, crash, target-crash, deadline",
    "vm vm n1 run_strategy=Sometimes": "expected Always, RerunOnFailure, Manual, Once",
    "vm vm n9 migrate_seconds=3": "there is no node n9; the cluster has n1, n2, n3",
    "remove n9": "there is no node n9",
    "state n9": "there is no node n9",
    "fit n9": "there is no node n9",
    "nodes n1": "already exists",
    "vm vm": "vm needs NAME and NODE",
    "vmm vm n1": "there is no command 'vmm'",
}


def test_what_a_shell_cannot_ask_for_is_one_clear_error(given, capsys: pytest.CaptureFixture[str]) -> None:
    """It was taken, and the VM ran elsewhere, or moved as every other; or it was a traceback."""
    sim, kubeconfig = given
    for line, expected in _WRONG.items():
        assert ctl.main([str(kubeconfig), *line.split()]) == 2, line
        told = capsys.readouterr()
        assert expected in told.err and told.err.count("\n") == 1 and not told.out, (line, told)
    assert sim.find(VMIS, "vm") is None
    good = ["migrate_seconds=3", "not_migratable_reason=X", "strategy=None", "dirty_rate=1", "grace=5", "run_strategy="]
    assert ctl.main([str(kubeconfig), "vm", "vm", "n1", *good]) == 0, capsys.readouterr()
    assert sim.find(VMIS, "vm")["spec"]["terminationGracePeriodSeconds"] == 5


def test_help_lists_what_the_agents_obey(capsys: pytest.CaptureFixture[str]) -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "kubesim").glob("*.py"))
    asked = {*re.findall(r"""knob\(\s*"([a-z-]+)", [^)]*(?:vmi|migration|pod)\)""", sources), *nodes.ABLE, "dirty-rate"}
    assert len(asked) > 14
    assert ctl.main(["vm", "--help"]) == 0
    told = capsys.readouterr().out
    assert not [name for name in asked if f"  {name.replace('-', '_')} " not in told]


def test_it_is_left_as_it_was_found(given, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a test has switched the agents of a node off, and where a roll before it was killed."""
    monkeypatch.setenv("VIRTOPS_KNOBS", "1")
    sim, kubeconfig = given
    before = {node["metadata"]["name"]: _kept(node) for node in sim.all(NODES)}
    left = {"key": "virtops.maintenance/roll", "effect": "PreferNoSchedule"}  # by a roll that was killed
    sim.edit(NODES, "n3", lambda o: o["spec"].update(taints=[left]))
    cluster = Given(kubeconfig)
    cluster.add_vm("vm", "n1", migrate_seconds="30")
    # Its clock is the tests': what lasts 3 s for them on their simulator lasts 3 s here.
    assert sim.find(VMIS, "vm")["metadata"]["annotations"]["lab/migrate-seconds"] == "3.0"
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    cluster.edit(NODES, "n2", lambda o: o["spec"].update(taints=[taint]))
    down = {"lab/virt-handler-down": "true", "virtops.maintenance/record": "x"}
    cluster.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update(down))
    sim.until(lambda: _label(sim, "n1") == "false")
    cluster.clean()
    assert {node["metadata"]["name"]: _kept(node) for node in sim.all(NODES)} == before
    assert sim.all(VMS) == []


def test_a_knob_of_a_node_needs_agents_that_obey(given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTOPS_KNOBS", raising=False)
    cluster = Given(given[1])
    down = {"lab/virt-handler-down": "true"}
    with pytest.raises(pytest.skip.Exception, match="needs agents that obey knobs"):
        cluster.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update(down))


def test_a_node_that_its_agents_write_meanwhile_is_edited_all_the_same(given) -> None:
    sim, kubeconfig = given
    cluster, times = Given(kubeconfig), []

    def cordon(node) -> None:
        if not times:  # a heartbeat between our reading and our writing
            sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update(beat="1"))
        times.append(node["metadata"]["resourceVersion"])
        node["spec"].update(unschedulable=True)

    edited = cluster.edit(NODES, "n1", cordon)
    assert len(times) >= 2
    assert edited["spec"]["unschedulable"] is True
    assert edited["metadata"]["annotations"]["beat"] == "1"


def test_what_tests_add_is_complete_and_goes_again_with_its_namespace(given) -> None:
    """An API server refuses an object without a kind, and one for a namespace that is not there."""
    sim, kubeconfig = given
    cluster = Given(kubeconfig)
    selectors = {"virtualMachineInstanceSelector": {"a": "b"}}
    spec = {"selectors": selectors}
    made = cluster.add("migrationpolicies", {"metadata": {"name": "p"}, "spec": spec})
    assert made["kind"] == "MigrationPolicy"
    quota = {"metadata": {"name": "q", "namespace": "far"}, "spec": {"hard": {"pods": "1"}}}
    cluster.add("resourcequotas", quota)
    cluster.add_vm("vm", "n1", namespace="farther")
    for name in ("far", "farther"):
        assert sim.find(NAMESPACES, name) is not None
    cluster.clean()
    assert [sim.find(NAMESPACES, name) for name in ("far", "farther")] == [None, None]
    assert sim.all(QUOTAS) == [] and sim.all(VMS) == [] and sim.all(POLICIES) == []


def test_pods_of_tests_have_an_owner_that_is_there(given) -> None:
    """The garbage collector takes the others within a second."""
    sim, kubeconfig = given
    cluster = Given(kubeconfig)
    add_pod(cluster, "kept", "n1")  # type: ignore[arg-type]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "invented"}
    meta = {"name": "taken", "namespace": "default", "ownerReferences": [owner]}
    spec = {"nodeName": "n1", "containers": [templates.container()]}
    cluster.add("pods", {"metadata": meta, "spec": spec})
    sim.until(lambda: sim.world.store.find(PODS, "default", "taken") is None)
    assert sim.find(PODS, "kept") is not None
    cluster.clean()
    assert sim.all(PODS) == []


def test_no_pod_becomes_a_static_one(given) -> None:
    _sim, kubeconfig = given
    cluster = Given(kubeconfig)
    note = {"kubernetes.io/config.mirror": "x"}
    add_pod(cluster, "static", "n1", owner="", notes=note)  # type: ignore[arg-type]
    add_pod(cluster, "plain", "n1", owner="")  # type: ignore[arg-type]
    with pytest.raises(RemoteError, match="may not add mirror pod annotation") as refused:
        cluster.edit(PODS, "plain", lambda o: o["metadata"].update(annotations=note), "default")
    assert refused.value.code == 422
    cluster.clean()


def test_with_other_nodes_the_vms_of_tests_stay_on_theirs(given) -> None:
    """And VMs of others run elsewhere."""
    sim, kubeconfig = given
    for name in ("n4", "n5"):
        sim.add_node(name)
    sim.add("virtualmachines", templates.theirs("theirs", "n4", "n5"))
    sim.until(lambda: sim.running("theirs"))
    cluster = Given(kubeconfig)
    for node in WANTED:
        cluster.edit(NODES, node, lambda o: o["spec"].update(unschedulable=True))
    with pytest.raises(pytest.skip.Exception, match="default/theirs is a VM of others"):
        cluster.add_vm("theirs", "n1")
    cluster.add_vm("ours", "n1", wait=False)
    sim.until(lambda: _waits(sim, "ours"))
    cluster.clean()
    assert [vm["metadata"]["name"] for vm in sim.all(VMS)] == ["theirs"]


def _waits(sim: Kubesim, name: str) -> bool:
    """No node takes it."""
    vmi = sim.world.store.find(VMIS, "default", name)
    return vmi is not None and condition(vmi, "PodScheduled") is not None


def test_whether_a_vm_can_migrate_is_told_at_any_time(given) -> None:
    sim, _kubeconfig = given
    sim.add_vm("vm", "n1")
    knob = {"lab/not-migratable-reason": "DisksNotLiveMigratable"}
    sim.edit(VMIS, "vm", lambda o: o["metadata"]["annotations"].update(knob), "default")
    sim.until(lambda: _able(sim) == "False")
    sim.edit(VMIS, "vm", lambda o: o["metadata"]["annotations"].pop("lab/not-migratable-reason"), "default")
    sim.until(lambda: _able(sim) == "True")


def _able(sim: Kubesim) -> str:
    found = condition(sim.world.store.get(VMIS, "default", "vm"), "LiveMigratable")
    return str(found["status"]) if found else ""


def _label(sim: Kubesim, name: str) -> str:
    node = sim.world.store.get(NODES, "", name)
    return str(node["metadata"]["labels"]["kubevirt.io/schedulable"])


def _kept(node) -> tuple:
    notes = {k: v for k, v in node["metadata"]["annotations"].items() if "heartbeat" not in k}
    return node["metadata"]["labels"], notes, node["spec"].get("taints") or []
