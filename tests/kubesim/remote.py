"""Any cluster, by its kubeconfig: what tests put into it and read from it.

The same words as Kubesim has, through the API alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kubernetes

from . import templates, words
from .kinds import BY_PLURAL, NAMESPACES, NODES, PODS, VMIMS, VMIS, VMS, Kind
from .patience import patience

Obj = dict[str, Any]
MERGE = "application/merge-patch+json"
_NOTHING: Obj = {"metadata": {}}


class RemoteError(Exception):
    """An answer that is not 2xx."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Remote:
    """A cluster that answers at the address in the kubeconfig."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._client = kubernetes.config.new_client_from_config(str(path))

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Obj:
        """The answer's object. Raises RemoteError."""
        accept = "*/*" if "subresources" in path else "application/json"
        headers = {"Accept": accept, "Content-Type": kind}
        for scheme in self._client.configuration.auth_settings().values():
            if scheme["in"] == "header" and scheme["value"]:
                headers[scheme["key"]] = scheme["value"]
        found = self._client.rest_client.pool_manager.request(
            method,
            self._client.configuration.host + path,
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._client.default_headers, **headers},
        )
        text = found.data.decode()
        if found.status >= 300:
            raise RemoteError(found.status, text)
        return json.loads(text) if text else {}

    @staticmethod
    def path_of(kind: Kind, namespace: str = "", name: str = "") -> str:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        space = f"/namespaces/{namespace}" if namespace and kind.namespaced else ""
        return f"{root}{space}/{kind.plural}" + (f"/{name}" if name else "")

    # Reading

    def find(self, kind: Kind, name: str, namespace: str = "default") -> Obj | None:
        try:
            return self.request("GET", self.path_of(kind, namespace, name))
        except RemoteError as exc:
            if exc.code != 404:
                raise
            return None

    def all(self, kind: Kind) -> list[Obj]:
        items: list[Obj] = self.request("GET", self.path_of(kind))["items"]
        return [{**kind.head, **item} for item in items]

    def running(self, name: str, namespace: str = "default") -> bool:
        vmi = self.find(VMIS, name, namespace)
        return vmi is not None and words.phase(vmi) == "Running"

    def node_of(self, name: str, namespace: str = "default") -> str:
        """Where the VM runs; empty: nowhere."""
        vmi = self.find(VMIS, name, namespace)
        if vmi is None or words.phase(vmi) != "Running":
            return ""
        return str(vmi["status"].get("nodeName", ""))

    def until(self, what: Callable[[], Any], seconds: float | None = None) -> Any:
        seconds = patience() if seconds is None else seconds
        end = time.monotonic() + seconds
        while True:
            found = what()
            if found:
                return found
            if time.monotonic() > end:
                raise TimeoutError(f"not so after {seconds} s")
            time.sleep(0.1)

    def leftovers(self) -> list[str]:
        """Marks, migrations that have not ended, and taints of a roll."""
        return words.leftovers(self.all(VMIS), self.all(VMIMS), self.all(NODES))

    # Writing

    def add(self, plural: str, obj: Obj) -> Obj:
        """Complete, as the API wants it: with apiVersion and kind, in a namespace that is there."""
        kind = BY_PLURAL[plural]
        space = obj["metadata"].get("namespace") or "default"
        if kind.namespaced and self.find(NAMESPACES, space, "") is None:
            self.add("namespaces", {"metadata": {"name": space}})
        return self.request("POST", self.path_of(kind, space), {**kind.head, **obj})

    def patch(self, kind: Kind, name: str, body: Obj, namespace: str = "") -> Obj:
        return self.request("PATCH", self.path_of(kind, namespace, name), body, MERGE)

    def configure(self, **configuration: Any) -> None:
        """spec.configuration of the KubeVirt object."""
        found = self.request("GET", self.path_of(BY_PLURAL["kubevirts"]))["items"][0]
        meta = found["metadata"]
        body = {"spec": {"configuration": configuration}}
        self.patch(BY_PLURAL["kubevirts"], meta["name"], body, meta["namespace"])

    def add_node(self, name: str, **labels: str) -> None:
        """Only where nodes are made by writing them down: on the simulator."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.add("nodes", templates.node(name, stamp, **labels))

    def add_vm(self, name: str, node: str, *, wait: bool = True, **what: Any) -> None:
        """See templates.vm."""
        obj = templates.vm(name, node, **what)
        namespace = obj["metadata"]["namespace"]
        bare = obj["kind"] == VMIS.kind
        self.add("virtualmachineinstances" if bare else "virtualmachines", obj)
        if obj["spec"].get("runStrategy") == "Manual":
            group = "/apis/subresources.kubevirt.io/v1"
            path = f"{group}/namespaces/{namespace}/virtualmachines/{name}/start"
            self.request("PUT", path, {})
        if wait:
            self.until(lambda: self.running(name, namespace))

    def made_here(self) -> dict[tuple[str, str], Kind]:
        """Namespace and name of the VMs and bare instances that tests made."""
        found = {}
        for kind in (VMIS, VMS):
            for obj in self.all(kind):
                if templates.MADE_HERE in words.annotations(obj):
                    found[obj["metadata"]["namespace"], obj["metadata"]["name"]] = kind
        return found

    def theirs(self) -> set[str]:
        """Names of the VMs and bare instances that no test made, as namespace/name."""
        ours = self.made_here()
        every = [o["metadata"] for kind in (VMIS, VMS) for o in self.all(kind)]
        return {f"{m['namespace']}/{m['name']}" for m in every if (m["namespace"], m["name"]) not in ours}

    def strangers(self, nodes: Sequence[str]) -> list[str]:
        """Instances on these nodes that no test made."""
        ours = self.made_here()
        vmis = [v for v in self.all(VMIS) if (v.get("status") or {}).get("nodeName") in nodes]
        keys = [(v["metadata"]["namespace"], v["metadata"]["name"]) for v in vmis]
        return sorted("/".join(key) for key in keys if key not in ours)

    def remove_vms(self) -> None:
        """Those that tests made, and what their migrations left; waits until they are gone."""
        ours = self.made_here()
        for (namespace, name), kind in ours.items():
            self._delete(kind, namespace, name)
        try:
            self.until(lambda: not self.made_here(), 15.0)
        except TimeoutError:
            self._end_guests()
            self.until(lambda: not self.made_here())
        for obj in self.all(VMIMS):
            meta = obj["metadata"]
            if (meta["namespace"], obj["spec"].get("vmiName")) in ours:
                self._delete(VMIMS, meta["namespace"], meta["name"])

    def tidy(self, name: str, was: Obj | None = None) -> None:
        """Nothing of the product and no knob stays on a node. `was`: the node as it was."""
        for lease in (f"virtops-maintenance-{name}", "virtops-roll"):
            self._delete(BY_PLURAL["leases"], "default", lease)
        node = self.request("GET", self.path_of(NODES, name=name))
        notes = [k for k in words.annotations(node) if k.startswith(("virtops.", "lab/"))]
        knobs = {k: v for k, v in words.annotations(was or _NOTHING).items() if k.startswith("lab/")}
        meta: Obj = {"annotations": {**dict.fromkeys(notes), **knobs}}
        spec: Obj = {"unschedulable": None}
        taints = (was or node)["spec"].get("taints") or []
        ours = [taint for taint in taints if taint["key"].startswith("virtops.")]
        if was is not None or ours:
            spec["taints"] = [taint for taint in taints if taint not in ours] or None
        if was is not None:
            meta["labels"] = {**dict.fromkeys(words.labels(node)), **words.labels(was)}
        self.patch(NODES, name, {"metadata": meta, "spec": spec})

    def _end_guests(self) -> None:
        """Those that do not shut down when asked."""
        ours = self.made_here()
        vmis = [v["metadata"] for v in self.all(VMIS)]
        uids = {m["uid"] for m in vmis if (m["namespace"], m["name"]) in ours}
        for pod in self.all(PODS):
            if words.labels(pod).get("kubevirt.io/created-by") in uids:
                meta = pod["metadata"]
                self._delete(PODS, meta["namespace"], meta["name"], {"gracePeriodSeconds": 1})

    def _delete(self, kind: Kind, namespace: str, name: str, body: Any = None) -> None:
        try:
            self.request("DELETE", self.path_of(kind, namespace, name), body)
        except RemoteError as exc:
            if exc.code != 404:
                raise

    def uncordon(self, nodes: Sequence[str] | None = None) -> None:
        """These nodes, all without `nodes`."""
        for node in self.all(NODES):
            name = node["metadata"]["name"]
            if node["spec"].get("unschedulable") and (nodes is None or name in nodes):
                self.patch(NODES, name, {"spec": {"unschedulable": None}})
