"""The attach-detach controller: volumes are attached to the nodes of the pods that use them, and detached later.

As the real one: it writes VolumeAttachments and the Node's status.volumesAttached; from a node that is down it takes a
volume after six minutes, or at once where the taint out-of-service says that it is surely off.
"""

from __future__ import annotations

from . import words
from .kinds import ATTACHMENTS, CLAIMS, NODES, PODS
from .store import Change, Obj
from .world import World

DRIVER = "csi.kubesim.example"
_FORCED_AFTER = 360.0
_OFF = "node.kubernetes.io/out-of-service"


class AttachDetachController:
    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        world.on_change(self._changed)

    def _changed(self, change: Change) -> None:
        if change.kind is PODS:
            node = change.obj["spec"].get("nodeName")
            if node:
                self._world.enqueue(self._reconcile, node)

    def _volume(self, namespace: str, claim: str) -> str:
        found = self._store.find(CLAIMS, namespace, claim)
        return str(((found or {}).get("spec") or {}).get("volumeName") or "")

    def _wanted(self, node: str) -> set[str]:
        found = set()
        for pod in self._store.all(PODS):
            if pod["spec"].get("nodeName") != node or words.final(pod):
                continue
            for volume in pod["spec"].get("volumes") or []:
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                found.add(self._volume(pod["metadata"]["namespace"], claim) if claim else "")
        return found - {""}

    def _attached(self, node: str) -> dict[str, str]:
        """Volume -> the name of its attachment."""
        found = [one for one in self._store.all(ATTACHMENTS) if one["spec"]["nodeName"] == node]
        return {one["spec"]["source"]["persistentVolumeName"]: one["metadata"]["name"] for one in found}

    def _reconcile(self, node: str) -> None:
        wanted, attached = self._wanted(node), self._attached(node)
        for volume in sorted(wanted - attached.keys()):
            self._store.create(
                ATTACHMENTS,
                {
                    "metadata": {"name": f"csi-{node}-{volume}"},
                    "spec": {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}},
                    "status": {"attached": True},
                },
            )
        for volume in sorted(attached.keys() - wanted):
            self._world.later(self._world.detach_seconds, self._detach, node, volume)
        self._tell(node)

    def _detach(self, node: str, volume: str) -> None:
        name = self._attached(node).get(volume)
        if name is None or volume in self._wanted(node):
            return
        found = self._store.find(NODES, "", node)
        taints = [taint["key"] for taint in ((found or {}).get("spec") or {}).get("taints") or []]
        if found is not None and not words.is_true(found, "Ready") and _OFF not in taints:
            self._world.later(_FORCED_AFTER, self._remove, node, name)
            return
        self._remove(node, name)

    def _remove(self, node: str, name: str) -> None:
        if self._store.find(ATTACHMENTS, "", name) is not None:
            self._store.delete(ATTACHMENTS, "", name)
        self._tell(node)

    def _tell(self, node: str) -> None:
        told = [{"name": f"kubernetes.io/csi/{DRIVER}^{v}", "devicePath": ""} for v in sorted(self._attached(node))]
        found = self._store.find(NODES, "", node)
        if found is not None and (found.get("status") or {}).get("volumesAttached", []) != told:

            def edit(obj: Obj) -> None:
                obj.setdefault("status", {})["volumesAttached"] = told

            self._store.change(NODES, "", node, edit)
