"""The Node and its VMs, as the core asks for them; and the writes to the Node."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..._core.recovery.nodes import Guest, GuestNow, NodeRecovery, NodeSeen, read, why_it_stays
from ..api.client import Client
from ..api.errors import KubeError, NodeUnknown
from ..objects import facts, names, nodes
from ..observe.attachments import Attachments
from ..placement.targets import claims as claims_of
from ..preflight.cluster import now_of
from ..requests.start import start
from ..waiting.volume_claims import not_shared

Obj = dict[str, Any]
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_TAINT = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
# Operators that recover a node by themselves, by an object of its name.
_OPERATORS = {
    "FenceAgentsRemediation": "fence-agents-remediation.medik8s.io/v1alpha1/fenceagentsremediations",
    "SelfNodeRemediation": "self-node-remediation.medik8s.io/v1alpha1/selfnoderemediations",
}
# It has the remediations that it made of each node in its status.
_CHECKS = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
# What the Machine API of OpenShift works on: a MachineHealthCheck deletes the Machine, or marks it for its host.
_MACHINES, _MACHINE = "/apis/machine.openshift.io/v1beta1", "machine.openshift.io/machine"
_EXTERNAL = "host.metal3.io/external-remediation"
_KUBELETS = names.leases("kube-node-lease")
_ON = "remediation.medik8s.io/node-name"
_TRIES = 5  # while others write the Node at the same time


class DeadNode:
    """Raises KubeError, NodeUnknown, RecordError."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        self.obj: Obj = {}
        self.taken_out = False  # by this run
        self.unread: list[str] = []  # what of other operators could not be read
        self._attachments = Attachments(client, name)

    def read(self) -> NodeSeen:
        """How it looks now."""
        every, _version = self._client.list(f"{names.CORE}/nodes")
        found = next((node for node in every if node["metadata"]["name"] == self.name), None)
        if found is None:
            raise NodeUnknown(names.no_node(self.name, every))
        self.obj = found
        ready = facts.condition(found, "Ready") or {}
        at = str(ready.get("lastTransitionTime") or "")
        return NodeSeen(
            name=self.name,
            ready=str(ready.get("status") or "Unknown"),
            since=facts.seconds(at),
            at=at,
            beat=facts.seconds(facts.annotations(found).get("kubevirt.io/heartbeat")),
            newest=now_of(every),
            lease=self._lease(),
            **self._pods(),
            boot_id=str((facts.status(found).get("nodeInfo") or {}).get("bootID") or ""),
        )

    def _found(self, path: str) -> Obj | None:
        """None: there is none, or it may not be read."""
        self._client.optional.add(path)
        try:
            return self._client.find(path)
        except KubeError:
            return None

    def _lease(self) -> float:
        """When its kubelet renewed its Lease; 0: it has none, or it may not be read."""
        lease = self._found(f"{_KUBELETS}/{self.name}") or {}
        return facts.seconds((lease.get("spec") or {}).get("renewTime"))

    def _pods(self) -> dict[str, int]:
        """How many pods the node has (`pods`), and how many of them are Ready (`pods_ready`). It is only reported: {}
        if they cannot be listed."""
        try:
            pods, _version = self._client.list(f"{names.CORE}/pods", "", f"spec.nodeName={self.name}")
        except KubeError:
            return {}
        live = [pod for pod in pods if facts.phase(pod) not in ("Succeeded", "Failed")]
        ready = [pod for pod in live if (facts.condition(pod, "Ready") or {}).get("status") == "True"]
        return {"pods": len(live), "pods_ready": len(ready)}

    @property
    def notes(self) -> dict[str, str]:
        return facts.annotations(self.obj)

    @property
    def tainted(self) -> bool:
        return any(taint.get("key") == OUT_OF_SERVICE for taint in self._taints())

    def _taints(self) -> list[Obj]:
        return (self.obj.get("spec") or {}).get("taints") or []

    def note(self, known: NodeRecovery) -> None:
        """Keep it on the Node."""
        self._write({"annotations": {names.RECOVERY: known.to_json()}}, {})

    def note_told(self, phase: str) -> None:
        """Note in the record, read anew, which phase was told by an Event. If the Node changes each time, it is not
        noted, and told once more."""
        for _try in range(_TRIES):
            with suppress(KubeError):
                self.read()
                known = read(self.notes, names.RECOVERY)
                if known is not None:
                    self.note(replace(known, told=phase))
                return

    def take_out(self, known: NodeRecovery) -> None:
        """The record, the cordon and the taint in one write, of the Node as it was read: what it changed since, its
        kubelet's word above all, is seen first (409)."""
        spec: Obj = {"taints": [taint for taint in self._taints() if taint.get("key") != OUT_OF_SERVICE] + [_TAINT]}
        known.cordoned = known.cordoned or not nodes.cordoned(self.obj)
        self._write({"annotations": {names.RECOVERY: known.to_json()}}, {**spec, "unschedulable": True})
        self.taken_out = True

    def give_back(self, known: NodeRecovery) -> None:
        spec: Obj = {"taints": [taint for taint in self._taints() if taint.get("key") != OUT_OF_SERVICE]}
        if known.cordoned:
            spec["unschedulable"] = None
        self._write({"annotations": {names.RECOVERY: None}}, spec)

    def forget(self) -> None:
        self._write({"annotations": {names.RECOVERY: None}}, {})

    def _write(self, metadata: Obj, spec: Obj) -> None:
        patch = {"metadata": {"resourceVersion": self.obj["metadata"]["resourceVersion"], **metadata}}
        self.obj = self._client.merge(names.node(self.name), {**patch, **({"spec": spec} if spec else {})})

    def operators(self) -> list[str]:
        """The operators that are already recovering the node. One that may not be read is in `unread`."""
        found = self._machine()
        for kind, path in _OPERATORS.items():
            found += [
                f"{kind} {one['metadata']['name']}"
                for one in self._listed(f"/apis/{path}")
                if self.name in (one["metadata"]["name"], facts.annotations(one).get(_ON))
            ]
        checks = [one for one in self._listed(_CHECKS) if self._is_remediated(one)]
        return found + [f"NodeHealthCheck {one['metadata']['name']}" for one in checks]

    def _is_remediated(self, check: Obj) -> bool:
        """Whether an operator that has not given up remediates it."""
        nodes_of = facts.status(check).get("unhealthyNodes") or ()
        here = [made for one in nodes_of if one.get("name") == self.name for made in one.get("remediations") or ()]
        return any(not made.get("timedOut") for made in here)

    def _listed(self, path: str) -> list[Obj]:
        """None: it is not installed, or may not be read."""
        self._client.optional.add(path)
        try:
            return list(self._client.list(path)[0])
        except KubeError as exc:
            group, _slash, resource = path.rpartition("/")
            if exc.code != 404 and self._found(group) is not None:  # the API tells everybody what is installed
                self._not_read(resource, exc)
            return []

    def _not_read(self, what: str, exc: KubeError) -> None:
        text = f"It is not known whether an operator is already recovering {self.name}: {exc} ({what})."
        self.unread.append(f"{text} Bind the account to docs/kubevirt-clusterrole-recovery.yml.")

    def _machine(self) -> list[str]:
        namespace, _slash, name = facts.annotations(self.obj).get(_MACHINE, "").partition("/")
        if not name:
            return []
        path = f"{_MACHINES}/namespaces/{names.one(namespace)}/machines/{names.one(name)}"
        self._client.optional.add(path)
        try:
            machine = self._client.find(path)
        except KubeError as exc:
            self._not_read("machines", exc)
            return []
        busy = machine is not None and (facts.deleted(machine) or _EXTERNAL in facts.annotations(machine))
        return [f"The Machine API (MachineHealthCheck, Machine {name})"] if busy else []

    # Its VMs

    def guests(self) -> list[Guest]:
        """The VMs whose instance is on the node."""
        every, _version = self._client.list(f"{names.KUBEVIRT}/virtualmachineinstances")
        here = [one for one in every if facts.status(one).get("nodeName") == self.name and not facts.final(one)]
        return [Guest(*facts.key(vmi), vmi["metadata"]["uid"], *self._stays(vmi)) for vmi in here]

    def _stays(self, vmi: Obj) -> tuple[str, str]:
        """Why nothing starts it again, and its run strategy."""
        namespace, name = facts.key(vmi)
        owned, made = facts.owner(vmi) is not None, bool(facts.maker(vmi))
        vm = self._client.find(names.kubevirt(namespace, "virtualmachines", name)) if owned and not made else None
        restarts = vm is None or facts.restarts(vm, "Failed")
        strategy = facts.run_strategy(vm.get("spec") or {}) if vm else ""
        return why_it_stays(namespace, name, not owned and not made, restarts, strategy), strategy

    def start(self, guest: Guest) -> None:
        """Start the VM, if its VirtualMachine still exists. Why it cannot be started is read later, from its status.
        Raises KubeError."""
        vm = self._client.find(names.kubevirt(guest.namespace, "virtualmachines", guest.name))
        if vm is not None:
            start(self._client, vm)

    def guests_now(self, vms: list[Guest]) -> list[GuestNow]:
        """Read what became of these VMs. Raises KubeError."""
        every, _version = self._client.list(f"{names.KUBEVIRT}/virtualmachineinstances")
        by_key = {facts.key(vmi): vmi for vmi in every}
        attached = self._attached()
        return [self._guest(vm, by_key.get((vm.namespace, vm.name)), attached) for vm in vms]

    def _attached(self) -> dict[tuple[str, str], str]:
        """(namespace, claim) -> the volume that is still attached to the node, in words. It is only reported: {} if
        that cannot be read."""
        try:
            return dict(self._attachments.attached(self.obj))
        except KubeError:
            return {}

    def _guest(self, vm: Guest, vmi: Obj | None, attached: dict[tuple[str, str], str]) -> GuestNow:
        if vmi is not None and vmi["metadata"]["uid"] == vm.uid:
            if not facts.final(vmi):
                return GuestNow(vm, old=True)
            vmi = None  # what KubeVirt leaves of one that nothing starts again
        if vmi is not None and facts.phase(vmi) == "Running":
            return GuestNow(vm, at=str(facts.status(vmi).get("nodeName") or ""))
        waits = vmi is not None and attached and not_shared(self._client, vmi)
        claims = claims_of(vmi) if vmi is not None and waits else []
        held = tuple(attached[vm.namespace, claim] for claim in claims if (vm.namespace, claim) in attached)
        machine = self._client.find(names.kubevirt(vm.namespace, "virtualmachines", vm.name))
        if machine is None and vmi is None:
            return GuestNow(vm, gone=not vm.stays)
        off = vmi is None and machine is not None and not facts.status(machine).get("stateChangeRequests")
        return GuestNow(vm, waits=facts.not_started(vmi, machine).message, held=held, off=off)
