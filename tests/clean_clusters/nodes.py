"""A cluster without VMs: KubeVirt and nodes."""

from __future__ import annotations

import random
from typing import Any

Obj = dict[str, Any]
STAMP = "2026-01-01T10:00:{:02d}Z"
MODEL = "Skylake-Client-IBRS"
DEDICATED = {"key": "dedicated", "value": "vms", "effect": "NoSchedule"}
ODD = ("cordoned", "down", "tainted", "old", "other", "full", "plain", "none")
KVM = {"devices.kubevirt.io/kvm": "1", "devices.kubevirt.io/tun": "1"}


class Nodes:
    """`objects`: the resource's plural -> its items."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.objects: dict[str, list[Obj]] = {}
        self.uids = 0
        self.dedicated = self.some(0.4)  # all that take VMs are tainted, and all VMs tolerate it
        self.default_strategy = self.dice.choice(["", "LiveMigrate", "LiveMigrateIfPossible"])
        self._kubevirt()
        self._nodes()

    def some(self, chance: float) -> bool:
        return self.dice.random() < chance

    def add(self, plural: str, name: str, space: str, obj: Obj, **meta: Any) -> Obj:
        self.uids += 1
        head = {"name": name, "uid": f"u{self.uids}", "creationTimestamp": STAMP.format(0), **meta}
        if space:
            head["namespace"] = space
        made = {"metadata": head, **obj}
        self.objects.setdefault(plural, []).append(made)
        return made

    # The cluster and its nodes

    def _kubevirt(self) -> None:
        config: Obj = {}
        if self.default_strategy:
            config["evictionStrategy"] = self.default_strategy
        if self.some(0.3):
            config["migrations"] = {"parallelMigrationsPerCluster": self.dice.randint(1, 20)}
        status = {
            "phase": "Deployed",
            "observedKubeVirtVersion": self.dice.choice(["v1.7.0", "v1.8.2", "v1.10.0"]),
            "observedDeploymentID": "d1",
            "targetDeploymentID": "d1",
            "conditions": [cond("Available", "True"), cond("Degraded", "False")],
        }
        self.add("kubevirts", "kubevirt", "kubevirt", {"spec": {"configuration": config}, "status": status})

    def _nodes(self) -> None:
        self._node("n1")
        self._node("n2")
        for number in range(3, self.dice.randint(2, 6) + 1):
            self._odd_node(f"n{number}")

    def _node(self, name: str, **spec: Any) -> Obj:
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubevirt.io/schedulable": "true",
            "machine-type.node.kubevirt.io/q35": "true",
            "cpu-vendor.node.kubevirt.io/Intel": "true",
            f"host-model-cpu.node.kubevirt.io/{MODEL}": "true",
            f"cpu-model-migration.node.kubevirt.io/{MODEL}": "true",
            "cpu-model-migration.node.kubevirt.io/Haswell": "true",
            "cpu-model.node.kubevirt.io/Haswell": "true",
            "host-model-required-features.node.kubevirt.io/vmx": "true",
            "cpu-feature.node.kubevirt.io/vmx": "true",
            "topology.kubernetes.io/zone": "z0",
            "pool": "gold",
        }
        taints = [dict(DEDICATED)] if self.dedicated else []
        if self.some(0.3):
            taints.append({"key": "busy", "effect": "PreferNoSchedule"})
        room = self.dice.choice(["64Gi", "67108864Ki", "68719476736", "64e9", "70G"])
        cpu = self.dice.choice(["64", "63500m"])
        allocatable = {"cpu": cpu, "memory": room, "pods": "110", "ephemeral-storage": "95551679124"}
        allocatable.update(dict.fromkeys(KVM, "1k"), **{"hugepages-2Mi": "0"})
        notes = {"kubevirt.io/heartbeat": STAMP.format(self.dice.randint(0, 59))}
        if self.some(0.2):  # another tool has been here, and is done
            done = "drain-rendered-1"
            mco = "machineconfiguration.openshift.io"
            notes.update({f"{mco}/desiredDrain": done, f"{mco}/lastAppliedDrain": done, f"{mco}/state": "Done"})
        obj = {
            "spec": {"taints": taints, **spec},
            "status": {
                "allocatable": allocatable,
                "conditions": [cond("Ready", "True"), cond("DiskPressure", "False")],
            },
        }
        return self.add("nodes", name, "", obj, labels=labels, annotations=notes)

    def _odd_node(self, name: str) -> None:
        """It takes none, or not all, for a reason of its own."""
        node = self._node(name)
        labels, spec, status = node["metadata"]["labels"], node["spec"], node["status"]
        kind = self.dice.choice(ODD)
        if kind == "cordoned":
            spec["unschedulable"] = True
            spec["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        elif kind == "down":
            status["conditions"] = [cond("Ready", "Unknown")]
            node["metadata"]["annotations"]["kubevirt.io/heartbeat"] = "2025-12-31T00:00:00Z"
        elif kind == "tainted":
            spec["taints"].append({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})
        elif kind == "old":
            for label in [key for key in labels if key.startswith(("cpu-", "host-model"))]:
                del labels[label]
            labels["cpu-vendor.node.kubevirt.io/AMD"] = "true"
        elif kind == "other":
            labels.update({"pool": "silver", "topology.kubernetes.io/zone": "z1"})
        elif kind == "full":
            status["allocatable"]["memory"] = "512Mi"
        elif kind == "none":  # no virt-handler
            labels["kubevirt.io/schedulable"] = "false"


def cond(kind: str, value: str) -> Obj:
    return {"type": kind, "status": value, "reason": "Because", "message": "why"}
