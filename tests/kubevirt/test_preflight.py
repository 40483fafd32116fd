# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight over HTTP: each code that a cluster can have is planted once and found, nothing
is written, and a cluster in which all is well has none."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import OnNotMigratable
from ansible_collections.virtops.maintenance.plugins.module_utils._core.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight_catalogue import (
    CHECKS,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight_words import (
    Check,
    Platform,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import (
    Intent,
    NodeRecord,
    RecordError,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import (
    auth,
    names,
    options,
    preflight_asks,
    runs_us,
    service,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.errors import (
    NodeUnknown,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.pods import PodOptions
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight import (
    preflight,
)
from kubesim import Kubesim
from kubesim.kinds import KINDS, KUBEVIRTS, NODES, PODS, VMIS
from kubesim.reading import add_budget, add_pod

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "docs" / "kubevirt-clusterrole.yml"
TOKEN = "maintenance"
STOPS = {"on_not_migratable": OnNotMigratable.SHUTDOWN, "allow_stop": True}


class Still:
    """A cluster that stands still: objects are put into it, and no controller touches them."""

    def __init__(self, sim: Kubesim, tmp: Path) -> None:
        self.sim = sim
        self.tmp = tmp
        sim.call(sim.world.store.listeners.clear)
        for name in ("n1", "n2", "n3"):
            sim.add_node(name)
        rules = yaml.safe_load(ROLE.read_text(encoding="utf-8"))["rules"]
        sim.api.access.rules[TOKEN] = rules
        self.auth = auth.settings({"kubeconfig": str(sim.kubeconfig(tmp / "config", TOKEN))}, {})

    def vm(self, name: str = "vm", node: str = "n1", space: str = "default", **more: Any) -> None:
        """A VM that runs and can migrate. `more`: vmi, pod, vm: merged into these objects;
        strategy, run_strategy."""
        meta: dict[str, Any] = {"name": name, "namespace": space}
        run_strategy = more.get("run_strategy", "Always")
        owner: list[dict[str, Any]] = []
        if run_strategy:
            vm = {"metadata": dict(meta), "spec": {"runStrategy": run_strategy}, "status": {}}
            made = self.sim.add("virtualmachines", merged(vm, more.get("vm", {})))
            owner = [{"kind": "VirtualMachine", "name": name, "uid": made["metadata"]["uid"]}]
        vmi = {
            "metadata": {
                **meta,
                "labels": {"kubevirt.io/nodeName": node, "app": name},
                "ownerReferences": owner,
            },
            "spec": {
                "evictionStrategy": more.get("strategy", "LiveMigrate"),
                "domain": {"memory": {"guest": "1Gi"}, "cpu": {"model": "host-model"}},
            },
            "status": {
                "phase": "Running",
                "nodeName": node,
                "conditions": [{"type": "LiveMigratable", "status": "True"}],
                "migrationMethod": "LiveMigration",
            },
        }
        made = self.sim.add("virtualmachineinstances", merged(vmi, more.get("vmi", {})))
        requests = {"memory": "1200Mi", "cpu": "100m"}
        pod = {
            "metadata": {
                "name": f"virt-launcher-{name}-x",
                "namespace": space,
                "labels": {
                    "app": name,
                    "kubevirt.io": "virt-launcher",
                    "kubevirt.io/created-by": made["metadata"]["uid"],
                },
                "annotations": {"kubevirt.io/domain": name},
            },
            "spec": {
                "nodeName": node,
                "nodeSelector": {"kubevirt.io/schedulable": "true"},
                "containers": [{"name": "compute", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.sim.add("pods", merged(pod, more.get("pod", {})))

    def migration(self, name: str, phase: str, since: str = "", **notes: str) -> None:
        entered = {"phase": phase, "phaseTransitionTimestamp": since or "2099-01-01T00:00:00Z"}
        meta = {"name": name, "namespace": "default", "annotations": notes}
        meta["labels"] = {"kubevirt.io/vmi-name": "vm"}
        status = {"phase": phase, "phaseTransitionTimestamps": [entered]}
        self.sim.add(
            "virtualmachineinstancemigrations",
            {"metadata": meta, "spec": {"vmiName": "vm"}, "status": status},
        )

    def node(self, name: str, **changes: Any) -> None:
        self.sim.edit(NODES, name, lambda o: o.update(merged(o, changes)))

    def kubevirt(self, **changes: Any) -> None:
        self.sim.edit(KUBEVIRTS, "kubevirt", lambda o: o.update(merged(o, changes)), "kubevirt")

    def look(self, severity: dict[Check, Any] | None = None, **policy: Any) -> dict[str, Any]:
        pods = policy.pop("pods", PodOptions())
        request = service.Request(
            self.auth, "n1", Policy(**policy), Intent.DRAINED, "preflight", pods=pods
        )
        before = self.versions()
        try:
            return preflight(request, severity or {})
        finally:
            assert self.versions() == before, "the preflight wrote"

    def told(self, **policy: Any) -> dict[Check, dict[str, Any]]:
        return {Check(row["code"]): row for row in self.look(**policy)["findings"]}

    def versions(self) -> dict[str, str]:
        return {
            f"{kind.plural} {obj['metadata'].get('namespace')}/{obj['metadata']['name']}": obj[
                "metadata"
            ]["resourceVersion"]
            for kind in KINDS
            for obj in self.sim.all(kind)
        }


def merged(base: Any, more: Any) -> Any:
    """Mappings are merged, everything else is replaced."""
    if not isinstance(base, dict) or not isinstance(more, dict):
        return more
    return {**base, **{key: merged(base.get(key), value) for key, value in more.items()}}


@pytest.fixture
def still(tmp_path: Path) -> Iterator[Still]:
    with Kubesim() as sim:
        yield Still(sim, tmp_path)


def condition(kind: str, value: str, reason: str = "", message: str = "why") -> dict[str, Any]:
    return {"type": kind, "status": value, "reason": reason, "message": message}


def taint(key: str) -> dict[str, Any]:
    return {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}


def budget(still: Still, name: str, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "vm"}}
    meta = {"name": name, "namespace": "default"}
    still.sim.add(
        "poddisruptionbudgets", {"metadata": meta, "spec": {"selector": selector, **spec}}
    )


# Planting: each puts one thing into a cluster with one VM. It may return the policy.

Plant = Callable[[Still], Any]


def cannot(reason: str) -> Plant:
    told = condition("LiveMigratable", "False", reason)
    return lambda still: still.vm(vmi={"status": {"conditions": [told]}})


def vmi(run: Any = None, **changes: Any) -> Plant:
    def plant(still: Still) -> Any:
        still.vm(vmi=changes)
        return run

    return plant


def node(**changes: Any) -> Plant:
    def plant(still: Still) -> None:
        still.vm()
        still.node("n1", **changes)

    return plant


def others(**changes: Any) -> Plant:
    def plant(still: Still) -> None:
        still.vm()
        still.node("n2", **changes)
        still.node("n3", **changes)

    return plant


def kubevirt(**changes: Any) -> Plant:
    def plant(still: Still) -> None:
        still.vm()
        still.kubevirt(**changes)

    return plant


def selector(still: Still) -> None:
    still.vm(pod={"spec": {"nodeSelector": {"pool": "gold"}}})


def vendor(still: Still) -> None:
    still.vm()
    still.node("n1", metadata={"labels": {"cpu-vendor.node.kubevirt.io/Intel": "true"}})
    for name in ("n2", "n3"):
        still.node(name, metadata={"labels": {"cpu-vendor.node.kubevirt.io/AMD": "true"}})


def cpu_model(still: Still) -> None:
    still.vm()
    still.node("n1", metadata={"labels": {"host-model-cpu.node.kubevirt.io/Skylake": "true"}})


def room(still: Still) -> None:
    still.vm()
    for name in ("n2", "n3"):
        still.node(name, status={"allocatable": {"memory": "1Gi"}})


def too_full(still: Still) -> None:
    """Each of the two fits, both do not."""
    still.vm()
    still.vm("vm2")
    still.node("n2", spec={"unschedulable": True})
    still.node("n3", status={"allocatable": {"memory": "2Gi"}})


def quota(still: Still) -> None:
    still.vm()
    meta = {"name": "small", "namespace": "default"}
    still.sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}})


def copied(still: Still) -> None:
    volumes = [{"name": "data", "emptyDisk": {"capacity": "1Gi"}}]
    status = {"migrationMethod": "BlockMigration"}
    still.vm(vmi={"spec": {"volumes": volumes}, "status": status})


def blocking_budget(still: Still) -> Any:
    still.vm(strategy="None")
    budget(still, "all-of-them", minAvailable=1)
    return {"allow_stop": True}


def stays_off(still: Still) -> Any:
    still.vm(strategy="None", run_strategy="Manual")
    return {"allow_stop": True}


def skipped(still: Still) -> Any:
    cannot("DisksNotLiveMigratable")(still)
    return {"on_not_migratable": OnNotMigratable.SKIP}


def starting(still: Still) -> None:
    meta = {"labels": {"kubevirt.io/nodeName": ""}}
    still.vm(vmi={"metadata": meta, "status": {"phase": "Scheduling", "nodeName": ""}})


def snapshot(still: Still) -> None:
    still.vm(vm={"status": {"snapshotInProgress": "before-update"}})


def in_flight(still: Still) -> None:
    still.vm()
    still.migration("by-hand", "Running")


def inbound(still: Still) -> None:
    still.vm("vm", "n2")
    uid = still.sim.find(VMIS, "vm")["metadata"]["uid"]
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid}
    labels["kubevirt.io/migrationJobUID"] = "m"
    meta = {"name": "virt-launcher-vm-y", "namespace": "default", "labels": labels}
    spec, status = {"nodeName": "n1"}, {"phase": "Running"}
    still.sim.add("pods", {"metadata": meta, "spec": spec, "status": status})


def stuck(still: Still) -> None:
    """Two of them: that is all that may leave a node at once."""
    still.vm()
    for name in ("m1", "m2"):
        still.migration(name, "TargetReady", since="2020-01-01T00:00:00Z")


def record(still: Still) -> None:
    still.vm()
    text = NodeRecord("n1", "r1", requester="ann", started_wall="2026-01-01").to_json()
    still.node("n1", metadata={"annotations": {names.RECORD: text}})


def descheduler(still: Still) -> None:
    still.vm()
    meta = {"name": "d", "namespace": "kube-system", "labels": {"app": "descheduler"}}
    still.sim.add("pods", {"metadata": meta, "spec": {}, "status": {"phase": "Running"}})


def updater(still: Still) -> None:
    still.vm()
    still.migration("update-1", "Pending", **{names.UPDATE: ""})


def silent(still: Still) -> None:
    still.vm()
    notes = {"kubevirt.io/heartbeat": "2020-01-01T00:00:00Z"}
    still.node("n1", metadata={"annotations": notes})


def webhook(still: Still) -> None:
    still.vm()
    still.sim.world.virt_api_down = True


def no_right(still: Still) -> None:
    still.vm()
    rules = still.sim.api.access.rules[TOKEN]
    still.sim.api.access.rules[TOKEN] = [r for r in rules if "pods/eviction" not in r["resources"]]


def unread(still: Still) -> None:
    still.vm()
    rules = still.sim.api.access.rules[TOKEN]
    still.sim.api.access.rules[TOKEN] = [r for r in rules if "resourcequotas" not in r["resources"]]


def settings(still: Still) -> Any:
    still.vm()
    rules = [{"name": "slowed", "migration": {"auto_converge": True}}]
    return {"rules": options.rules(rules)}


def eviction_fails(still: Still) -> None:
    still.vm()
    still.sim.api.faults.plan(500, matches=lambda _method, path: path.endswith("/eviction"))


def pod(**more: Any) -> Plant:
    """Another pod on the node; see add_pod."""

    def plant(still: Still) -> None:
        still.vm()
        add_pod(still.sim, "odd", "n1", **more)

    return plant


def ending_pod(still: Still) -> None:
    pod()(still)
    stamp = {"deletionTimestamp": "2099-01-01T00:00:00Z"}
    still.sim.edit(PODS, "odd", lambda o: o["metadata"].update(stamp), "default")


def never_computed(still: Still) -> None:
    pod(owner="Database/orders", labels={"app": "odd"})(still)
    add_budget(still.sim, "percent", None, app="odd")


PLANTS: dict[Check, Plant] = {
    **{
        Check(reason.value): cannot(reason.value)
        for reason in (
            *(Reason.DISKS, Reason.INTERFACE, Reason.HOTPLUG, Reason.VIRTIOFS, Reason.HOST_DEVICE),
            *(Reason.SEV, Reason.SECURE_EXECUTION, Reason.TDX, Reason.HYPERV_PASSTHROUGH),
            Reason.PERSISTENT_RESERVATION,
        )
    },
    Check.CPU_MODEL: cpu_model,
    Check.NOT_RUNNING_NORMALLY: vmi(
        status={
            "conditions": [
                condition("LiveMigratable", "True"),
                condition("Paused", "True", "PausedIOError"),
            ]
        }
    ),
    Check.NOT_KNOWN_YET: vmi(status={"conditions": []}),
    Check.NO_TARGET: room,
    Check.NO_SELECTOR: selector,
    Check.NO_VENDOR: vendor,
    Check.NOT_TOLERATED: others(**taint("dedicated")),
    Check.LAST_NODE: others(spec={"unschedulable": True}),
    Check.FLEET_TOO_FULL: too_full,
    Check.QUOTA: quota,
    Check.STORAGE_HERE: copied,
    Check.STOP_NOT_ALLOWED: lambda still: still.vm(strategy="None"),
    Check.SKIPPED: skipped,
    Check.EXTERNAL_OWNER: lambda still: still.vm(strategy="External"),
    Check.STAYS_OFF: stays_off,
    Check.DISRUPTION_BUDGET: blocking_budget,
    Check.POD_UNMANAGED: pod(owner=""),
    Check.POD_LOCAL_DATA: pod(empty_dir=True),
    Check.POD_OF_DAEMONSET: pod(owner="DaemonSet/lost"),
    Check.POD_TERMINATING: ending_pod,
    Check.LAST_REPLICA: pod(owner="ReplicaSet/virt-api", labels={"kubevirt.io": "virt-api"}),
    Check.BUDGET_NOT_COMPUTED: never_computed,
    Check.UNMET_SETTINGS: settings,
    Check.STARTING: starting,
    Check.BACKUP: vmi(
        status={
            "changedBlockTracking": {
                "state": "Enabled",
                "backupStatus": {"backupName": "nightly", "startTimestamp": "2026-01-01T00:00:00Z"},
            }
        }
    ),
    Check.SNAPSHOT: snapshot,
    Check.UTILITY_VOLUMES: vmi(spec={"utilityVolumes": [{"name": "scratch", "claimName": "c"}]}),
    Check.IN_FLIGHT: in_flight,
    Check.INBOUND: inbound,
    Check.STUCK: stuck,
    Check.LEFT_MARK: vmi(status={"evacuationNodeName": "n1"}),
    Check.RECORD: record,
    Check.DRAIN_TAINT: node(**taint("kubevirt.io/drain")),
    Check.CORDONED: node(spec={"unschedulable": True}),
    Check.OTHERS: node(**taint("medik8s.io/drain")),
    Check.DESCHEDULER: descheduler,
    Check.UPDATER: updater,
    Check.NODE_NOT_READY: node(status={"conditions": [condition("Ready", "Unknown")]}),
    Check.SILENT: silent,
    Check.UPGRADING: kubevirt(status={"targetDeploymentID": "2"}),
    Check.UNHEALTHY: kubevirt(status={"conditions": [condition("Available", "False")]}),
    Check.NO_CANCEL: kubevirt(status={"observedKubeVirtVersion": "v1.6.2"}),
    Check.WEBHOOK_UNAVAILABLE: webhook,
    Check.API_ERROR: eviction_fails,
    Check.FORBIDDEN: no_right,
    Check.NOT_CHECKED: unread,
}
# Where they are planted instead.
ELSEWHERE = {
    Check.RUNS_THE_MAINTENANCE: "test_our_own_pod_and_our_own_machine",
    Check.UNDECIDED: "rules: tests/unit/plugins/module_utils/_core/test_preflight.py",
}


def test_every_code_of_this_platform_is_planted_here() -> None:
    here = {c for c, info in CHECKS.items() if Platform.KUBEVIRT in info.platforms}
    assert here - set(ELSEWHERE) == set(PLANTS)


@pytest.mark.parametrize("member", PLANTS, ids=lambda member: member.value)
def test_what_is_planted_is_found_and_nothing_is_written(still: Still, member: Check) -> None:
    policy = PLANTS[member](still) or {}
    told = still.told(**policy)
    assert member in told, sorted(told)
    assert told[member]["severity"] in (CHECKS[member].severity.value, "warning")
    assert told[member]["subject"]
    mild = {Check.NOT_KNOWN_YET}  # a blocker by default, but not here
    if member not in mild:
        assert told[member]["severity"] == CHECKS[member].severity.value


def test_the_dry_runs_say_so_and_nothing_else_is_sent(still: Still) -> None:
    for number in range(3):
        still.vm(f"vm{number}")
    assert still.look()["findings"] == []
    posts = [call for call in still.sim.log if call.method != "GET"]
    evictions = [call for call in posts if call.path.endswith("/eviction")]
    assert len(evictions) == 3 and all("dryRun=All" in call.query for call in evictions)
    reviews = [call for call in posts if call.path == preflight_asks.REVIEWS]
    assert len(evictions) + len(reviews) == len(posts)


def test_the_documented_role_grants_every_right_that_is_asked_for() -> None:
    rules = yaml.safe_load(ROLE.read_text(encoding="utf-8"))["rules"]
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    rights = (*preflight_asks.RIGHTS, preflight_asks.EVICTS_PODS, preflight_asks.DELETES_PODS)
    asked = {(right.group, right.resource, right.verb) for right in rights}
    assert asked - granted == set()


def test_a_missing_right_names_verb_and_resource(still: Still) -> None:
    no_right(still)
    row = still.told()[Check.FORBIDDEN]
    assert "create pods/eviction in default (to ask VMs to leave)" in row["message"]


def test_who_may_not_even_look_is_told_what_is_missing(still: Still) -> None:
    still.vm()
    rules = still.sim.api.access.rules[TOKEN]
    still.sim.api.access.rules[TOKEN] = [r for r in rules if "pods" not in r["resources"]]
    told = still.look()
    assert any("list pods" in line for line in told["blockers"])
    assert any("Everything else" in line for line in told["cautions"])


def test_rights_in_the_namespace_of_the_vms_are_enough(still: Still, monkeypatch) -> None:
    """A role binding instead of a cluster role binding."""
    still.vm()
    asked = preflight_asks._allowed

    def only_there(client: Any, right: Any, namespace: str) -> bool:
        return asked(client, right, namespace) and (right.everywhere or namespace == "default")

    monkeypatch.setattr(preflight_asks, "_allowed", only_there)
    assert still.look()["findings"] == []


def test_our_own_pod_and_our_own_machine(still: Still, monkeypatch, tmp_path: Path) -> None:
    firmware = {"spec": {"domain": {"firmware": {"uuid": "11111111-2222-3333-4444-555555555555"}}}}
    still.vm(vmi=firmware)
    assert still.told() == {}
    uuid = "11111111-2222-3333-4444-555555555555"
    monkeypatch.setattr(runs_us, "own_uuid", lambda: uuid)
    row = still.told()[Check.RUNS_THE_MAINTENANCE]
    assert "VM default/vm is the machine" in row["message"]
    assert row["severity"] == "warning"  # the drain moves it last
    monkeypatch.undo()
    (tmp_path / "namespace").write_text("default")
    monkeypatch.setattr(service, "NAMESPACE_FILE", str(tmp_path / "namespace"))
    monkeypatch.setenv("HOSTNAME", "virt-launcher-vm-x")
    assert "This runs in pod" in still.told()[Check.RUNS_THE_MAINTENANCE]["message"]


def test_a_node_that_is_not_there_and_a_record_that_is_not_readable(still: Still) -> None:
    request = service.Request(still.auth, "n9", Policy(), Intent.DRAINED, "preflight")
    with pytest.raises(NodeUnknown, match="no node n9"):
        preflight(request, {})
    still.node("n1", metadata={"annotations": {names.RECORD: "{"}})
    with pytest.raises(RecordError):
        still.look()


def test_the_budget_that_is_never_computed_is_told_beforehand(still: Still) -> None:
    still.vm(strategy="None")
    budget(still, "half", maxUnavailable=1)
    row = still.told(allow_stop=True)[Check.DISRUPTION_BUDGET]
    assert row["severity"] == "blocker"
    assert "half can never allow an eviction: maxUnavailable" in row["message"]
    # A VM that migrates is not held by it.
    still.sim.edit(
        VMIS, "vm", lambda o: o["spec"].update(evictionStrategy="LiveMigrate"), "default"
    )
    assert still.told()[Check.DISRUPTION_BUDGET]["severity"] == "warning"


def test_other_pods_are_judged_by_the_same_options_as_the_drains(still: Still) -> None:
    still.vm()
    add_pod(still.sim, "scratch", "n1", empty_dir=True)
    add_pod(still.sim, "bare", "n1", owner="")
    add_pod(still.sim, "held", "n1", labels={"app": "held"})
    add_pod(still.sim, "elsewhere", "n2", owner="")
    add_budget(still.sim, "strict", 1, app="held")
    told = {row["subject"]: row for row in still.look()["findings"]}
    assert {subject: (row["code"], row["about"]) for subject, row in told.items()} == {
        "pod default/scratch": ("PodHasLocalData", "node"),
        "pod default/bare": ("PodNotManaged", "node"),
        "pod default/held": ("DisruptionBudget", "pod"),
    }
    assert "strict" in told["pod default/held"]["message"]
    allowed = PodOptions(force=True, delete_emptydir_data=True, disable_eviction=True)
    for given in (allowed, PodOptions(selector="kubevirt.io=virt-launcher")):
        assert still.look(pods=given)["findings"] == []


def test_the_other_pods_stay_where_they_are(still: Still) -> None:
    add_pod(still.sim, "web", "n1")
    assert still.look()["findings"] == []
    (asked,) = [c for c in still.sim.log if c.path.endswith("/eviction")]
    assert "dryRun=All" in asked.query and still.sim.find(PODS, "web") is not None


def test_who_may_not_make_other_pods_go_is_told_where(still: Still, monkeypatch) -> None:
    """A role binding in the namespace of the VMs does not do for pods of another one."""
    still.vm(space="shop")
    add_pod(still.sim, "web", "n1")
    asked = preflight_asks._allowed

    def only_there(client: Any, right: Any, namespace: str) -> bool:
        return asked(client, right, namespace) and (right.everywhere or namespace == "shop")

    monkeypatch.setattr(preflight_asks, "_allowed", only_there)
    row = still.told()[Check.FORBIDDEN]
    assert row["message"] == "create pods/eviction in default (to ask the other pods to leave)."
    row = still.told(pods=PodOptions(disable_eviction=True))[Check.FORBIDDEN]
    assert row["message"].startswith("delete pods in default ")


def test_a_quota_counts_what_one_more_pod_asks_for(still: Still) -> None:
    still.vm()
    hard = {"requests.memory": "2Gi", "pods": "9", "limits.cpu": "1"}
    used = {"requests.memory": "1200Mi", "pods": "1", "limits.cpu": "1"}
    meta = {"name": "small", "namespace": "default"}
    spec, status = {"hard": hard}, {"hard": hard, "used": used}
    still.sim.add("resourcequotas", {"metadata": meta, "spec": spec, "status": status})
    told = [row["message"] for row in still.look()["findings"]]
    # It has no limits.cpu, so that one does not count.
    assert len(told) == 1 and "requests.memory" in told[0]


def _clean(still: Still, dice: random.Random) -> None:
    """Everything there is, and nothing in the way."""
    for number in range(dice.randint(1, 8)):
        name = f"vm{number}"
        more: dict[str, Any] = {}
        if dice.random() < 0.3:
            more = {"pod": {"spec": {"nodeSelector": {"pool": "gold"}}}}
        still.vm(name, space=dice.choice(["default", "shop"]), **more)
    gold = dice.choice(["n2", "n3"])
    still.node(gold, metadata={"labels": {"pool": "gold"}})
    labels = {
        "cpu-vendor.node.kubevirt.io/Intel": "true",
        "host-model-cpu.node.kubevirt.io/Skylake": "true",
        "cpu-model-migration.node.kubevirt.io/Skylake": "true",
    }
    for name in ("n1", "n2", "n3"):
        still.node(name, metadata={"labels": labels})
    for space in ("default", "shop"):
        meta = {"name": "roomy", "namespace": space}
        hard = {"pods": "20", "requests.memory": "40Gi"}
        still.sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": hard}})
        app = {"matchLabels": {"app": "vm0"}}
        pdb = {"selector": app, "minAvailable": 1}
        still.sim.add("poddisruptionbudgets", {"metadata": meta, "spec": pdb})
    still.vm("elsewhere", "n2", strategy="None")
    still.migration("done", "Succeeded")


@pytest.mark.parametrize("seed", range(8))
def test_no_false_alarm_on_clean_clusters(still: Still, seed: int) -> None:
    _clean(still, random.Random(seed))
    assert still.look()["findings"] == []


def test_five_hundred_vms_in_three_seconds(still: Still) -> None:
    for number in range(500):
        still.vm(f"vm{number}", space=f"team{number % 5}")
    for number in range(5):
        meta = {"name": "q", "namespace": f"team{number}"}
        spec = {"hard": {"pods": "200", "requests.memory": "400Gi"}}
        still.sim.add("resourcequotas", {"metadata": meta, "spec": spec})
    for name in ("n2", "n3"):
        still.node(name, status={"allocatable": {"memory": "900Gi", "pods": "600"}})
    request = service.Request(still.auth, "n1", Policy(), Intent.DRAINED, "preflight")
    began = time.monotonic()
    told = preflight(request, {})
    took = time.monotonic() - began
    print(f"preflight: vms={told['vms_checked']} seconds={took:.2f}")
    assert told["findings"] == [] and told["vms_checked"] == 500
    assert took <= 3.0
