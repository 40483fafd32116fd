"""A cluster that stands still: what the tests of the preflight plant their troubles in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.pods.filters import PodOptions
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules
from kubesim import Kubesim
from kubesim.kinds import KINDS, KUBEVIRTS, NODES


class Still:
    """A cluster that stands still: objects are put into it, and no controller touches them."""

    def __init__(self, sim: Kubesim, tmp: Path) -> None:
        self.sim = sim
        self.tmp = tmp
        sim.call(sim.world.store.listeners.clear)
        for name in ("n1", "n2", "n3"):
            sim.add_node(name)
        sim.api.access.rules[TOKEN] = documented_rules()
        self.auth = auth.settings({"kubeconfig": str(sim.kubeconfig(tmp / "config", TOKEN))}, {})

    def vm(self, name: str = "vm", node: str = "n1", space: str = "default", **more: Any) -> None:
        """A VM that runs and can migrate. `more`: vmi, pod, vm: merged into these objects;
        strategy, run_strategy."""
        meta: dict[str, Any] = {"name": name, "namespace": space}
        run_strategy = more.get("run_strategy", "Always")
        owner: list[dict[str, Any]] = []
        if run_strategy:
            template = {"spec": {"domain": {"devices": {}}}}
            spec = {"runStrategy": run_strategy, "template": template}
            vm = {"metadata": dict(meta), "spec": spec, "status": {}}
            made = self.sim.add("virtualmachines", merged(vm, more.get("vm", {})))
            uid = made["metadata"]["uid"]
            head = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}
            owner = [{**head, "name": name, "uid": uid}]
        vmi = {
            "metadata": {**meta, "labels": {"kubevirt.io/nodeName": node, "app": name}, "ownerReferences": owner},
            "spec": {
                "evictionStrategy": more.get("strategy", "LiveMigrate"),
                "domain": {"devices": {}, "memory": {"guest": "1Gi"}, "cpu": {"model": "host-model"}},
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
                "containers": [{"name": "compute", "image": "virt-launcher", "resources": {"requests": requests}}],
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
            "virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": "vm"}, "status": status}
        )

    def node(self, name: str, **changes: Any) -> None:
        self.sim.edit(NODES, name, lambda o: o.update(merged(o, changes)))

    def kubevirt(self, **changes: Any) -> None:
        self.sim.edit(KUBEVIRTS, "kubevirt", lambda o: o.update(merged(o, changes)), "kubevirt")

    def forbid(self, resource: str) -> None:
        """Take away all rights that name it."""
        rules = self.sim.api.access.rules[TOKEN]
        self.sim.api.access.rules[TOKEN] = [r for r in rules if resource not in r["resources"]]

    def look(self, severity: dict[Reason, Any] | None = None, **policy: Any) -> dict[str, Any]:
        pods = policy.pop("pods", PodOptions())
        request = service.Request(self.auth, "n1", Policy(**policy), Intent.DRAINED, "preflight", pods=pods)
        before = self.versions()
        try:
            return preflight(request, severity or {})
        finally:
            assert self.versions() == before, "the preflight wrote"

    def told(self, **policy: Any) -> dict[Reason, dict[str, Any]]:
        return {Reason(row["code"]): row for row in self.look(**policy)["findings"]}

    def versions(self) -> dict[str, str]:
        return {
            f"{kind.plural} {obj['metadata'].get('namespace')}/{obj['metadata']['name']}": obj["metadata"][
                "resourceVersion"
            ]
            for kind in KINDS
            for obj in self.sim.all(kind)
        }


def merged(base: Any, more: Any) -> Any:
    """Mappings are merged, everything else is replaced."""
    if not isinstance(base, dict) or not isinstance(more, dict):
        return more
    return {**base, **{key: merged(base.get(key), value) for key, value in more.items()}}


def budget(still: Still, name: str, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "vm"}}
    meta = {"name": name, "namespace": "default"}
    still.sim.add("poddisruptionbudgets", {"metadata": meta, "spec": {"selector": selector, **spec}})
