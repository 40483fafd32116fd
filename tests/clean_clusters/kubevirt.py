"""VMs of a clean cluster, their pods, quotas and budgets."""

from __future__ import annotations

from typing import Any

from .nodes import KVM, STAMP, Nodes, Obj, cond

SPACES = ("default", "shop", "team-a")
NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}


class Clean(Nodes):
    """One of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for number in range(self.dice.randint(1, 8)):
            self._vm(f"vm{number}", "n1")
        for number in range(self.dice.randint(0, 4)):
            self._elsewhere(number)
        for space in SPACES:
            self._quotas(space)
            self._budgets(space)

    # VMs

    def _vm(self, name: str, node: str, **more: Any) -> Obj:
        space = self.dice.choice(SPACES)
        labels = {"app": name, "tier": "web", "kubevirt.io/nodeName": node}
        spec, status, selector = (self._spec(), self._status(node), {"kubevirt.io/schedulable": "true"})
        if more.get("strategy"):
            spec["evictionStrategy"] = more["strategy"]
        self._wishes(spec, selector)
        self._disks(name, spec, status)
        owner = []
        if more.get("bare") or self.some(0.1):
            pass
        else:
            vm = {"spec": {"running": True} if self.some(0.1) else {"runStrategy": "Always"}}
            vm["status"] = {"printableStatus": "Running", "ready": True}
            made = self.add("virtualmachines", name, space, vm)
            owner = [{"kind": "VirtualMachine", "name": name, "uid": made["metadata"]["uid"]}]
        body = {"spec": spec, "status": status}
        vmi = self.add("virtualmachineinstances", name, space, body, labels=labels, ownerReferences=owner)
        self._pod(vmi, selector, node, "Running")
        if self.some(0.3):  # where it came from
            self._pod(vmi, selector, self.dice.choice(["n1", "n2"]), "Succeeded", migration="m-old")
            self._migration(f"{name}-old", vmi, self.dice.choice(["Succeeded", "Failed"]))
        return vmi

    def _spec(self) -> Obj:
        memory = self.dice.choice(["1Gi", "1536Mi", "2G", "1073741824"])
        cpu = self.dice.choice([{}, {"model": "host-model"}, {"model": "Haswell"}])
        spec: Obj = {"domain": {"memory": {"guest": memory}, "cpu": {"cores": 1, **cpu}, "resources": {}}}
        if self.default_strategy and self.some(0.5):
            return spec  # the cluster's
        spec["evictionStrategy"] = self.dice.choice(["LiveMigrate", "LiveMigrateIfPossible"])
        return spec

    def _status(self, node: str) -> Obj:
        conditions = [cond("Ready", "True"), cond("LiveMigratable", "True")]
        if self.some(0.5):
            conditions += [cond("AgentConnected", "True"), cond("StorageLiveMigratable", "False")]
        if self.some(0.2):
            conditions.append(cond("Paused", "False"))
        status: Obj = {"phase": "Running", "nodeName": node, "conditions": conditions}
        if self.some(0.2):
            done = {"backupName": "nightly", "completed": True, "endTimestamp": STAMP.format(1)}
            status["changedBlockTracking"] = {"state": "Enabled", "backupStatus": done}
        if self.some(0.3):  # it has moved before
            status["migrationState"] = {"migrationUid": "gone", "completed": True, "endTimestamp": STAMP.format(1)}
        return status

    def _wishes(self, spec: Obj, selector: dict[str, str]) -> None:
        """Selectors, affinity, tolerations: n2 meets them."""
        if self.some(0.3):
            spec["nodeSelector"] = {"pool": "gold"}
        if spec["domain"]["cpu"].get("model") == "Haswell":
            selector["cpu-model.node.kubevirt.io/Haswell"] = "true"
        elif self.some(0.2):  # started on an older host, moved here
            selector["cpu-model-migration.node.kubevirt.io/Haswell"] = "true"
        selector.update(spec.get("nodeSelector") or {}, **{"kubernetes.io/arch": "amd64"})
        terms = self.dice.choice(
            [
                [expr("topology.kubernetes.io/zone", "In", "z0", "z9")],
                [expr("pool", "NotIn", "silver"), expr("never", "DoesNotExist")],
                [expr("kubernetes.io/hostname", "In", "n1", "n2")],
            ]
        )
        preferred = {"weight": 1, "preference": {"matchExpressions": [expr("x", "Exists")]}}
        affinity: Obj = {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}
        if self.some(0.4):
            wrong = {"matchExpressions": [expr("pool", "In", "nowhere")]}
            required = {"nodeSelectorTerms": [wrong, {"matchExpressions": terms}]}
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
        spec["affinity"] = {"nodeAffinity": affinity}
        tolerations = [dict(NOT_READY, tolerationSeconds=300)]
        if self.dedicated:
            tolerations.append(
                self.dice.choice(
                    [
                        {"operator": "Exists"},
                        {"key": "dedicated", "operator": "Exists"},
                        {"key": "dedicated", "value": "vms", "effect": "NoSchedule"},
                        {"key": "dedicated", "operator": "Equal", "value": "vms"},
                    ]
                )
            )
        spec["tolerations"] = tolerations

    def _disks(self, name: str, spec: Obj, status: Obj) -> None:
        """Claims that are shared; with a small disk of no claim, KubeVirt says BlockMigration."""
        spec["volumes"] = [{"name": "root", "dataVolume": {"name": f"{name}-root"}}]
        modes = self.dice.choice([["ReadWriteMany"], ["ReadWriteOnce", "ReadWriteMany"]])
        told = [{"name": "root", "persistentVolumeClaimInfo": {"claimName": f"{name}-root", "accessModes": modes}}]
        if self.some(0.4):
            spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
            told.append({"name": "data", "persistentVolumeClaimInfo": {"claimName": "data", "accessModes": modes}})
        status["migrationMethod"] = "LiveMigration"
        if self.some(0.5):
            small = self.dice.choice([{"cloudInitNoCloud": {"userData": "x"}}, {"containerDisk": {"image": "i"}}])
            spec["volumes"].append({"name": "small", **small})
            told.append({"name": "small"})
            status["migrationMethod"] = "BlockMigration"
        status["volumeStatus"] = told

    def _pod(self, vmi: Obj, selector: dict[str, str], node: str, phase: str, migration: str = "") -> None:
        meta = vmi["metadata"]
        labels = {**meta["labels"], "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": meta["uid"]}
        if migration:
            labels["kubevirt.io/migrationJobUID"] = migration
        requests = {"cpu": "100m", "memory": self.dice.choice(["1400Mi", "2254857830"]), **KVM}
        log = {"cpu": "5m", "memory": "35M"}
        spec = {
            "nodeName": node,
            "nodeSelector": dict(selector),
            "tolerations": list(vmi["spec"]["tolerations"]),
            "containers": [{"name": "compute", "resources": {"requests": requests, "limits": dict(KVM)}}],
            "initContainers": [{"name": "log", "restartPolicy": "Always", "resources": {"requests": log}}],
        }
        status = {"phase": phase, "conditions": [cond("Ready", "True" if phase == "Running" else "False")]}
        self.uids += 1
        name = f"virt-launcher-{meta['name']}-{self.uids}"
        body = {"spec": spec, "status": status}
        self.add("pods", name, meta["namespace"], body, labels=labels, annotations={"kubevirt.io/domain": meta["name"]})

    def _migration(self, name: str, vmi: Obj, phase: str) -> None:
        entered = [{"phase": phase, "phaseTransitionTimestamp": STAMP.format(1)}]
        body = {
            "spec": {"vmiName": vmi["metadata"]["name"]},
            "status": {"phase": phase, "phaseTransitionTimestamps": entered},
        }
        self.add("virtualmachineinstancemigrations", name, vmi["metadata"]["namespace"], body)

    def _elsewhere(self, number: int) -> None:
        """None of the drain's business: VMs of other nodes, in any state, and other pods."""
        kind = self.dice.choice(["stays", "moves", "ended", "pod"])
        name = f"other{number}"
        if kind == "pod":
            pod = {"spec": {"nodeName": "n1", "containers": [{"name": "c"}]}, "status": {"phase": "Running"}}
            made = self.add("pods", name, "kube-system", pod, labels={"app": "dns"})
            owner = {"kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
            made["metadata"]["ownerReferences"] = [owner]  # else the drain refuses it
            return
        vmi = self._vm(name, "n2", strategy=self.dice.choice(["None", "External", "LiveMigrate"]))
        if kind == "moves":
            self._migration(name, vmi, self.dice.choice(["Running", "TargetReady", "Pending"]))
        elif kind == "ended":
            vmi["status"]["phase"] = "Succeeded"
            vmi["status"]["nodeName"] = "n1"
            for pod in self.objects["pods"]:
                if pod["metadata"]["labels"].get("kubevirt.io/created-by") == vmi["metadata"]["uid"]:
                    pod["status"]["phase"] = "Succeeded"

    # Quotas and budgets

    def _quotas(self, space: str) -> None:
        if self.some(0.5):
            hard = {"pods": "100", "count/pods": "1k", "requests.memory": "500Gi", "limits.memory": "1Gi"}
            hard.update({"requests.cpu": "50", "requests.storage": "0", "persistentvolumeclaims": "0"})
            hard["requests.devices.kubevirt.io/kvm"] = self.dice.choice(["50", "1e2"])
            quota: Obj = {"spec": {"hard": hard}}
            if self.some(0.7):
                used = dict.fromkeys(hard, "0")
                quota["status"] = {"hard": dict(hard), "used": {**used, "pods": "20", "limits.memory": "1Gi"}}
            self.add("resourcequotas", "roomy", space, quota)
        for name, scope in (
            ("jobs", {"scopes": ["Terminating"]}),
            ("best", {"scopes": ["BestEffort"]}),
            ("critical", selected("PriorityClass", "In", "system-critical")),
            ("no-affinity-across", selected("CrossNamespacePodAffinity", "Exists")),
        ):
            if self.some(0.2):
                self.add("resourcequotas", name, space, {"spec": {"hard": {"pods": "0"}, **scope}})

    def _budgets(self, space: str) -> None:
        """One that selects VMs allows; others select none, or other pods."""
        live = [p for p in self.objects["pods"] if p["metadata"]["namespace"] == space]
        pods = [p for p in live if p["metadata"]["labels"].get("tier") == "web"]
        if len(pods) > 2 and self.some(0.7):
            status = {"expectedPods": len(pods), "currentHealthy": len(pods), "desiredHealthy": 1}
            spec = {"selector": {"matchLabels": {"tier": "web"}}, "minAvailable": 1}
            body = {"spec": spec, "status": {**status, "disruptionsAllowed": len(pods) - 1}}
            self.add("poddisruptionbudgets", "web", space, body)
        if self.some(0.5):
            spec = {"selector": {"matchLabels": {"app": "dns"}}, "maxUnavailable": 1}
            self.add("poddisruptionbudgets", "dns", space, {"spec": spec, "status": {"disruptionsAllowed": 0}})
        if self.some(0.3):
            self.add("poddisruptionbudgets", "nothing", space, {"spec": {"minAvailable": "100%"}})


def expr(key: str, operator: str, *values: str) -> Obj:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def selected(scope: str, operator: str, *values: str) -> Obj:
    found = {"scopeName": scope, "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [found]}}
