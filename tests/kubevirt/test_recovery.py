"""A node dies. Nothing is started elsewhere without a proof; with one, each VM runs once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.nodes import Watched
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import Kind, Proof
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import AccessDenied, LockHeld
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.names import ROLL
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease import Lock
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import pack
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import RollLease, system_clock
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll_fleet import RollOfCluster
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.recovery import service
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.recovery.service import Request, recover
from ansible_collections.virtops.maintenance.tests.kubevirt.test_attached import vm_with_disk
from ansible_collections.virtops.maintenance.tests.kubevirt.test_node_events import events
from kubesim import nodelife
from kubesim.cluster import Kubesim
from kubesim.kinds import BY_PLURAL, NODES, VMIMS, VMIS, VMS
from kubesim.patience import patience
from kubesim.words import annotations, condition, final

FENCED = Proof(Kind.AGENT, "2026-11-27T14:03:00Z", "fence_lab on ctl", "fence_lab, which read it back as off")
LEASES = BY_PLURAL["leases"]
EXTERNAL = "host.metal3.io/external-remediation"
TAINT, RECORD = nodelife.OUT_OF_SERVICE, "virtops.maintenance/recovery"


class Rescue:
    """Runs slices until they are over, as the action does."""

    def __init__(self, sim: Kubesim, auth: dict[str, Any]) -> None:
        self._sim, self._auth, self.number = sim, auth, 0

    def run(self, proof: Proof | None = None, acts: bool = True, run_id: str = "", **more: Any) -> dict[str, Any]:
        self.number += 1
        run_id = run_id or f"run-{self.number}"
        request = Request(self._auth, "n1", "n1", run_id, "me", "why", 2.0, proof, **more)
        found = recover(request, acts)
        begun = time.monotonic()
        while found["phase"] == "Recovering":
            waited = time.monotonic() - begun
            assert waited < patience(), f"not over: {found}"
            found = recover(replace(request, watched=Watched(**found["watched"], seconds=waited)), acts)
        return found

    def slice(self, proof: Proof | None = None, run_id: str = "run-s", **more: Any) -> dict[str, Any]:
        return recover(Request(self._auth, "n1", "n1", run_id, "me", "why", 0.2, proof, **more), True)


@pytest.fixture
def rescue(sim: Kubesim, operator: Any) -> Rescue:
    return Rescue(sim, operator.auth)


def die(sim: Kubesim, knob: str = "lab/down", until: str = "Unknown", long_ago: bool = True) -> None:
    """`until`: what Kubernetes calls its Ready then. `long_ago`: its virt-handler would have reported again by now."""
    sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update({knob: "true"}))
    sim.until(lambda: (condition(sim.world.store.find(NODES, "", "n1"), "Ready") or {}).get("status") == until)
    if long_ago and knob == "lab/down":
        sim.edit(NODES, "n1", _long_ago)


def _long_ago(obj: dict[str, Any]) -> None:
    ready = next(found for found in obj["status"]["conditions"] if found["type"] == "Ready")
    then = datetime.now(UTC) - timedelta(hours=1)
    obj["metadata"]["annotations"]["kubevirt.io/heartbeat"] = then.strftime("%Y-%m-%dT%H:%M:%SZ")
    ready["lastTransitionTime"] = (then + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def back(sim: Kubesim, boots: bool) -> None:
    def up(obj: dict[str, Any]) -> None:
        obj["metadata"]["annotations"].pop("lab/down")
        if boots:
            obj["status"]["nodeInfo"]["bootID"] += "+"

    sim.edit(NODES, "n1", up)
    sim.until(lambda: (condition(sim.world.store.find(NODES, "", "n1"), "Ready") or {}).get("status") == "True")


def taints(sim: Kubesim) -> set[str]:
    return {taint["key"] for taint in sim.find(NODES, "n1")["spec"].get("taints") or []}


def untouched(sim: Kubesim, *vms: str) -> bool:
    """Nothing says that the node is off, and its VMs are where they were."""
    there = [sim.find(VMIS, name) for name in vms]
    return TAINT not in taints(sim) and all(v["status"]["nodeName"] == "n1" and not final(v) for v in there)


def rows(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {vm["name"].split("/")[1]: (vm["verdict"], vm["message"]) for vm in found["vms"]}


def test_a_node_that_died_is_recovered_once_it_is_proven_to_be_off_and_returns(sim, rescue) -> None:
    sim.add_vm("always", "n1")
    sim.add_vm("rerun", "n1", run_strategy="RerunOnFailure")
    sim.add_vm("manual", "n1", run_strategy="Manual")
    sim.add_vm("moving", "n1", migrate_seconds="3000")
    sim.add_vm("other", "n2", migrate_seconds="3000")
    other = sim.find(VMIS, "other")["metadata"]["uid"]
    for name, more in (("moving", {}), ("other", {"addedNodeSelector": {"kubernetes.io/hostname": "n1"}})):
        meta = {"generateName": "by-hand-", "namespace": "default", "labels": {"kubevirt.io/vmi-name": name}}
        sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": name, **more}})
    sim.until(lambda: all(m.get("status", {}).get("phase") == "Running" for m in sim.world.store.all(VMIMS)))
    assert rescue.run(FENCED)["phase"] == "Alive"  # a proof of a node that lives is none
    assert untouched(sim, "always", "rerun", "manual", "moving")

    die(sim, long_ago=False)
    found = rescue.run()
    assert (found["phase"], found["looks"], found["may_be_fenced"]) == ("Unproven", "ProbablyDead", True), found
    assert untouched(sim, "always", "rerun", "manual", "moving") and found["found_dead"]
    assert re.search(r"its virt-handler reported at \S+Z, \d+ of its \d+ pods are Ready", found["message"]), found
    foreseen = rescue.run(FENCED, acts=False)
    assert set(rows(foreseen)) == {"always", "rerun", "manual", "moving"} and untouched(sim, "always")

    found = rescue.run(FENCED)
    told = rows(found)
    assert found["phase"] == "Blocked" and found["proof"]["by"] == FENCED.by, found
    assert {name for name, (verdict, _why) in told.items() if verdict == "runs"} == {"always", "rerun", "moving"}
    assert told["manual"][0] == "stays" and "virtctl start manual -n default" in told["manual"][1]
    assert {sim.node_of(name) for name in ("always", "rerun", "moving")} <= {"n2", "n3"}
    assert (sim.node_of("other"), sim.find(VMIS, "other")["metadata"]["uid"]) == ("n2", other)
    sim.until(lambda: all(final(one) for one in sim.world.store.all(VMIMS)))  # from and to the node
    assert sim.leftovers() == [] and TAINT in taints(sim)
    assert sim.find(NODES, "n1")["spec"]["unschedulable"]
    assert rescue.run()["phase"] == "Blocked"  # it is carried on without another proof
    roll = RollOfCluster(Client(rescue._auth), "default")
    assert f"recovered ({Proof.from_dict(found['proof'])}), 3 VMs started elsewhere" in roll.fleet().left["n1"]

    back(sim, boots=True)
    found = rescue.run()
    node = sim.find(NODES, "n1")
    assert found["phase"] == "Returned" and TAINT not in taints(sim), found
    assert not node["spec"].get("unschedulable") and RECORD not in annotations(node)
    assert rescue.run()["phase"] == "Alive"
    noted = [(one["reason"], one["message"]) for one in events(sim) if one["reason"].startswith("Maintenance")]
    assert [one[0].removeprefix("MaintenanceRecovery") for one in noted] == ["Began", "Failed", "Ended"]
    assert "off at 2026-11-27T14:03:00Z, by fence_lab" in noted[0][1] and "of me: why" in noted[0][1]
    assert "Not started elsewhere: default/manual" in noted[1][1] and "back" in noted[2][1]
    assert roll.fleet().left == {}


def test_a_node_that_is_back_with_its_old_boot_was_never_off(sim, rescue) -> None:
    """A BMC that lies. Its guests may run beside those that were started elsewhere: the node keeps its taint."""
    sim.add_vm("vm", "n1")
    die(sim)
    assert rescue.run(FENCED)["phase"] == "Recovered"
    back(sim, boots=False)
    found = rescue.run()
    assert found["phase"] == "Refused" and "it was not off" in found["message"], found
    assert TAINT in taints(sim) and RECORD in annotations(sim.find(NODES, "n1"))


@pytest.mark.parametrize(("knob", "looks"), [("lab/kubelet-down", "KubeletDead"), ("lab/virt-handler-down", "Alive")])
def test_a_node_of_which_one_part_is_silent_is_not_dead(sim, rescue, knob, looks) -> None:
    sim.add_vm("vm", "n1")
    die(sim, knob, "Unknown" if looks == "KubeletDead" else "True")
    if looks == "KubeletDead":
        since = condition(sim.find(NODES, "n1"), "Ready")["lastTransitionTime"]
        sim.until(lambda: annotations(sim.world.store.find(NODES, "", "n1"))["kubevirt.io/heartbeat"] > since)
    found = rescue.run(FENCED)
    assert (found["phase"], found["looks"], found["may_be_fenced"]) == ("Alive", looks, False), found
    assert untouched(sim, "vm")


@pytest.mark.parametrize(
    "confirm",
    ["n2@{dead}", "n1@2026-11-27T14:03:00Z", "n1", "{dead}"],
    ids=["other host", "other hour", "no time", "no host"],
)
def test_the_word_of_a_person_is_of_this_node_and_of_this_death(sim, rescue, confirm) -> None:
    sim.add_vm("vm", "n1")
    die(sim)
    dead = rescue.run()["found_dead"]
    with pytest.raises(PolicyError):
        rescue.run(confirm=confirm.format(dead=dead))
    assert untouched(sim, "vm")
    assert rescue.run(confirm=f"n1@{dead}")["phase"] == "Recovered" and sim.node_of("vm") in ("n2", "n3")


def test_a_node_that_reports_between_the_last_look_and_the_taint_gets_none(sim, rescue, monkeypatch) -> None:
    sim.add_vm("vm", "n1")
    die(sim)
    rescue.run()
    merge = Client.merge

    def late(client: Client, path: str, patch: dict[str, Any]) -> Any:
        if patch.get("spec", {}).get("taints"):
            monkeypatch.setattr(Client, "merge", merge)
            back(sim, boots=False)
        return merge(client, path, patch)

    monkeypatch.setattr(Client, "merge", late)
    found = rescue.run(FENCED)
    assert found["phase"] == "Alive" and untouched(sim, "vm"), found


@pytest.mark.parametrize("at", range(2, 4))
def test_killed_at_any_write_the_same_command_carries_it_on(sim, rescue, monkeypatch, at) -> None:
    """What makes the node out of service, and what is told of it."""
    sim.add_vm("vm", "n1")
    die(sim)
    rescue.run()
    left = [at]

    def ask() -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        rescue.run(FENCED, ask=ask)
    found = rescue.run(FENCED)
    assert found["phase"] == "Recovered" and sim.node_of("vm") in ("n2", "n3"), found
    assert [v["metadata"]["name"] for v in sim.all(VMIS) if not final(v)] == ["vm"] and sim.leftovers() == []
    rescue.run(FENCED)
    noted = [one["reason"] for one in events(sim)]
    assert noted.count("MaintenanceRecoveryEnded") == 1, "by whoever carried it on, and once"


def test_vms_that_somebody_started_are_started_again_where_that_is_asked_for(sim, rescue) -> None:
    for name, strategy in (("manual", "Manual"), ("once", "Once"), ("bare", "")):
        sim.add_vm(name, "n1", run_strategy=strategy)
    die(sim)
    told = rows(rescue.run(FENCED, acts=False, starts=True))
    assert {name: verdict for name, (verdict, _why) in told.items()} == {
        "manual": "waits",
        "once": "waits",
        "bare": "stays",
    }
    assert untouched(sim, "manual", "once", "bare")
    told = rows(rescue.run(FENCED))
    assert {verdict for verdict, _why in told.values()} == {"stays"}
    assert "kubectl delete vmi once -n default" in told["once"][1]

    found = rescue.run(starts=True)
    verdicts = {name: verdict for name, (verdict, _why) in rows(found).items()}
    assert (found["phase"], verdicts) == ("Blocked", {"manual": "runs", "once": "runs", "bare": "stays"})
    uids = [sim.find(VMIS, name)["metadata"]["uid"] for name in ("manual", "once")]
    assert rescue.run(starts=True)["phase"] == "Blocked"
    assert uids == [sim.find(VMIS, name)["metadata"]["uid"] for name in ("manual", "once")]


def test_each_run_watches_for_ten_minutes_whatever_the_heartbeats_say(sim, rescue) -> None:
    sim.add_vm("vm", "n1")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update({"unschedulable": True}))
    die(sim)
    sim.world.heartbeat = 1e9  # no virt-handler reports
    assert rescue.slice(FENCED)["phase"] == "Recovering"
    sim.until(lambda: "nodeName" not in (sim.world.store.find(VMIS, "default", "vm") or {}).get("status", {}))
    foreseen = rescue.run(acts=False)
    assert foreseen["phase"] == "Recovered" and rows(foreseen)["vm"][0] == "waits", foreseen
    found = rescue.slice(watched=Watched(seconds=601.0))
    assert found["phase"] == "Blocked" and "Run recover again to watch it" in rows(found)["vm"][1], found

    late = (datetime.now(UTC) + timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    sim.edit(NODES, "n2", lambda o: o["metadata"]["annotations"].update({"kubevirt.io/heartbeat": late}))
    assert rescue.slice()["phase"] == "Recovering"
    sim.edit(NODES, "n2", lambda o: o["spec"].pop("unschedulable"))
    assert rescue.run(run_id="run-s")["phase"] == "Recovered" and sim.node_of("vm") == "n2"


def test_a_volume_that_is_still_attached_to_the_dead_node_is_waited_for_and_named(sim, rescue) -> None:
    vm_with_disk(sim, "db")
    sim.world.detach_seconds = 1e7
    slow = {"lab/start-seconds": "3000"}
    sim.edit(
        VMS, "db", lambda o: o["spec"]["template"]["metadata"].setdefault("annotations", {}).update(slow), "default"
    )
    die(sim)
    assert rescue.slice(FENCED)["phase"] == "Recovering"
    sim.until(lambda: (sim.world.store.find(VMIS, "default", "db") or {}).get("status", {}).get("nodeName") != "n1")
    sim.until(lambda: (sim.world.store.find(VMIS, "default", "db") or {}).get("status", {}).get("phase") == "Scheduled")
    verdict, text = rows(rescue.slice())["db"]
    assert verdict == "waits" and "pv-db of default/db is still attached to n1" in text, text
    found = rescue.slice(watched=Watched(seconds=601.0))
    assert found["phase"] == "Blocked" and "Check the VolumeAttachment" in rows(found)["db"][1], found


def test_a_node_whose_kubelet_renews_its_lease_lives(sim, rescue) -> None:
    """A report has the time of the node's clock. As long as a later one may come, nothing is done; then one whose clock
    was ahead may be dead."""
    sim.add_vm("vm", "n1")
    die(sim)

    def renewed(ahead: int) -> dict[str, Any]:
        then = datetime.now(UTC) + timedelta(minutes=ahead)
        return {"renewTime": then.strftime("%Y-%m-%dT%H:%M:%S.000000Z")}

    sim.add("leases", {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": renewed(5)})
    first = rescue.slice(FENCED)
    assert (first["phase"], first["looks"], first["may_be_fenced"]) == ("Recovering", "NotKnown", False), first
    later = rescue.slice(FENCED, watched=Watched(**first["watched"], seconds=139.0))
    assert (later["phase"], later["watched"]) == ("Recovering", first["watched"]) and untouched(sim, "vm")
    sim.edit(LEASES, "n1", lambda o: o["spec"].update(renewed(6)), "kube-node-lease")
    found = rescue.slice(FENCED, watched=Watched(**later["watched"], seconds=20.0))
    assert found["phase"] == "Alive" and "has renewed its Lease" in found["message"], found
    assert untouched(sim, "vm")
    now = rescue.slice()["watched"]
    dead = rescue.slice(watched=Watched(**now, seconds=141.0))
    assert (dead["phase"], dead["may_be_fenced"]) == ("Unproven", True) and "the kubelet's Lease is" in dead["message"]


def test_of_two_that_recover_a_node_one_has_its_lease_until_it_is_over(sim, rescue, operator, monkeypatch) -> None:
    monkeypatch.setattr(service, "_SPARE", -1e3)
    sim.add_vm("vm", "n1")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update({"unschedulable": True}))
    die(sim)
    drain = Lock(Client(operator.auth), "default", "n1", "run-d 1", 35)
    drain.take(0.0, dict)
    with pytest.raises(LockHeld, match="run-d 1 is working on the node right now"):
        rescue.slice(FENCED)
    assert untouched(sim, "vm")
    drain.release()

    assert rescue.slice(FENCED)["phase"] == "Recovering"
    with pytest.raises(LockHeld, match="run-s recover is working on the node right now"):
        rescue.slice(FENCED, "run-t")
    assert rescue.slice(watched=Watched(seconds=601.0))["phase"] == "Blocked"
    sim.edit(NODES, "n2", lambda o: o["spec"].pop("unschedulable"))
    assert rescue.run()["phase"] == "Recovered"
    assert not [one for one in sim.all(LEASES) if one["metadata"]["name"].endswith("n1")]


def test_a_node_that_a_roll_has_is_left_to_it(sim, rescue, operator, monkeypatch) -> None:
    sim.add_vm("vm", "n1")
    die(sim)
    made = Roll("r", "us", "", "", "2026-03-01T10:00:00Z", {"n1": HostEntry("n1", Stage.DRAINING)})
    assert RollLease(Client(operator.auth), "default").write(made, None)

    def lives(_seconds: float) -> None:
        made.beat += 1
        new = {ROLL: pack(made.to_json())}
        sim.edit(LEASES, "virtops-roll", lambda o: o["metadata"]["annotations"].update(new), "default")

    monkeypatch.setattr(service, "system_clock", lambda: replace(system_clock(), sleep=lives))
    with pytest.raises(RollRefused, match="n1 belongs to roll r"):
        rescue.slice(FENCED)
    assert untouched(sim, "vm")
    rescue.slice(FENCED, roll_run="us")  # the roll recovers it itself
    assert not untouched(sim, "vm")


MACHINE = {"name": "m1", "namespace": "openshift-machine-api"}
REMEDIES = Path(__file__).resolve().parents[2] / "docs" / "kubevirt-clusterrole-recovery.yml"


def unhealthy(node: str, **made: str) -> dict[str, Any]:
    """A NodeHealthCheck that has this node, with a remediation."""
    remediation = {"resource": {"kind": "SelfNodeRemediation", "name": node}, "started": "2026-11-27T14:03:00Z", **made}
    return {
        "metadata": {"name": "workers"},
        "status": {"unhealthyNodes": [{"name": node, "remediations": [remediation]}]},
    }


@pytest.mark.parametrize(
    ("where", "found", "named"),
    [
        ("list fenceagentsremediations", ([{"metadata": {"name": "n1"}}], "1"), "FenceAgentsRemediation n1 is already"),
        ("list nodehealthchecks", ([unhealthy("n1")], "1"), "NodeHealthCheck workers is already"),
        ("find machines/m1", {"metadata": {**MACHINE, "deletionTimestamp": "2026-11-27T14:03:00Z"}}, "Machine m1"),
        ("find machines/m1", {"metadata": {**MACHINE, "annotations": {EXTERNAL: ""}}}, "MachineHealthCheck"),
    ],
    ids=["medik8s", "NodeHealthCheck", "a Machine that is replaced", "a Machine whose host is rebooted"],
)
def test_a_node_that_an_operator_recovers_is_left_to_it(sim, rescue, monkeypatch, where, found, named) -> None:
    sim.add_vm("vm", "n1")
    of_machine = {"machine.openshift.io/machine": "openshift-machine-api/m1"}
    sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update(of_machine))
    die(sim)
    rescue.run()
    call, part = where.split()
    asked: Callable[..., Any] = getattr(Client, call)
    monkeypatch.setattr(Client, call, lambda self, path, *more: found if part in path else asked(self, path, *more))
    result = rescue.run(FENCED)
    assert result["phase"] == "Refused" and named in result["message"], result
    assert untouched(sim, "vm")


@pytest.mark.parametrize("installed", [True, False])
def test_an_operator_that_may_not_be_read_is_told_and_one_that_is_not_installed_is_not(
    sim, rescue, monkeypatch, installed
) -> None:
    """RBAC is asked first: where there is no such kind the answer is 403, too."""
    sim.add_vm("vm", "n1")
    die(sim)
    real = {call: getattr(Client, call) for call in ("find", "list")}

    def denied(self: Client, path: str, *more: Any) -> Any:
        if "nodehealthchecks" in path:
            raise AccessDenied(403, "not yours", "list", "nodehealthchecks")
        return real["list"](self, path, *more)

    def found(self: Client, path: str) -> Any:
        group = path == "/apis/remediation.medik8s.io/v1alpha1"
        return ({"kind": "APIResourceList"} if installed else None) if group else real["find"](self, path)

    monkeypatch.setattr(Client, "list", denied)
    monkeypatch.setattr(Client, "find", found)
    result = rescue.slice(FENCED)
    told = [text for text in result["warnings"] if "whether an operator is already recovering n1" in text]
    assert bool(told) == installed and not untouched(sim, "vm")
    assert not installed or "nodehealthchecks" in told[0]


@pytest.mark.parametrize("check", [unhealthy("n2"), unhealthy("n1", timedOut="2026-11-27T14:13:00Z")])
def test_an_operator_that_has_another_node_or_has_given_up_is_no_hindrance(sim, rescue, monkeypatch, check) -> None:
    sim.add_vm("vm", "n1")
    die(sim)
    asked: Callable[..., Any] = Client.list
    mine = ([check], "1")
    monkeypatch.setattr(Client, "list", lambda self, p, *m: mine if "nodehealthchecks" in p else asked(self, p, *m))
    assert rescue.run(FENCED)["phase"] == "Recovered"


def test_what_is_asked_about_operators_is_what_their_role_grants(sim, rescue, monkeypatch) -> None:
    wanted, real = set(), {call: getattr(Client, call) for call in ("find", "list")}

    def asks(call: str, verb: str, at: int) -> Callable[..., Any]:
        def ask(self: Client, path: str, *more: Any) -> Any:
            group, resource = path.split("/")[2], path.split("/")[at]
            if "medik8s" in group or "machine" in group:
                wanted.add((group, resource, verb))
            return real[call](self, path, *more)

        return ask

    monkeypatch.setattr(Client, "find", asks("find", "get", -2))
    monkeypatch.setattr(Client, "list", asks("list", "list", -1))
    of_machine = {"machine.openshift.io/machine": "openshift-machine-api/m1"}
    sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update(of_machine))
    die(sim)
    rescue.run()
    rescue.run(FENCED)
    rules = yaml.safe_load(REMEDIES.read_text(encoding="utf-8"))["rules"]
    assert wanted == {(rule["apiGroups"][0], rule["resources"][0], rule["verbs"][0]) for rule in rules}
