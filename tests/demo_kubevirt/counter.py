"""From the simulated server's own log: what became of each VM and each node during a roll.

It reads changes.jsonl (every object at every change, in order) and the declaration of what may
happen to which VM, which was written before the roll. It shares no code with the collection, nor
with the simulator, and asks nobody.

    counter.py CHANGES.jsonl DECLARATION.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OURS = "virtops.maintenance/"
OVER = ("Succeeded", "Failed")


class Counter:
    """`declared`: VM -> "move" (must never stop), "stop" (may be stopped once per node that is
    drained) or "stay" (nothing may happen to it)."""

    def __init__(self, declared: dict[str, str]) -> None:
        self.declared = declared
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.surprises: list[str] = []
        self.stopped: dict[str, int] = {}
        self.moves: dict[str, list[str]] = {name: [] for name in declared}
        self.emptied: dict[str, bool] = {}  # cordoned nodes: seen empty since?
        self.done: list[str] = []
        self._over: set[str] = set()  # UIDs of instances that are over
        self._began = False

    def feed(self, line: dict[str, Any]) -> None:
        obj = line["object"]
        meta = obj["metadata"]
        key = (obj["kind"], meta.get("namespace", ""), meta["name"])
        before = self.objects.get(key)
        if line["type"] == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        if obj["kind"] == "VirtualMachineInstance" and self._began:
            self._instance(line["type"], obj, before)
        if obj["kind"] == "Node":
            self._node(meta["name"], obj, before)
        if obj["kind"] in ("VirtualMachineInstance", "Pod"):
            self._look()

    def _node(self, name: str, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        now = bool(obj.get("spec", {}).get("unschedulable"))
        was = bool((before or {}).get("spec", {}).get("unschedulable"))
        if now and not was:
            self._began = True
            self.emptied[name] = self._empty(name)
        # Else it is a drain that was taken back: not done.
        if was and not now and self.emptied.pop(name, False):
            self.done.append(name)

    def _look(self) -> None:
        for name, seen in self.emptied.items():
            if not seen and self._empty(name):
                self.emptied[name] = True

    def _empty(self, node: str) -> bool:
        for (kind, _space, _name), obj in self.objects.items():
            if obj.get("status", {}).get("phase") in OVER:
                continue
            if kind == "VirtualMachineInstance" and obj.get("status", {}).get("nodeName") == node:
                return False
            if kind == "Pod" and obj.get("spec", {}).get("nodeName") == node:
                return False
        return True

    def _instance(self, kind: str, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
        over = kind == "DELETED" or obj.get("status", {}).get("phase") in OVER
        if over and uid not in self._over:
            self._over.add(uid)
            self.stopped[name] = self.stopped.get(name, 0) + 1
            if self.declared.get(name) != "stop":
                self.surprises.append(f"{name} was stopped")
        node = obj.get("status", {}).get("nodeName", "")
        old = (before or {}).get("status", {}).get("nodeName", "")
        same = before is not None and before["metadata"]["uid"] == uid
        if same and old and node and old != node:
            self.moves.setdefault(name, []).append(f"{old}>{node}")
            state = obj["status"].get("migrationState") or {}
            if state.get("targetNode") != node or state.get("failed"):
                self.surprises.append(f"{name} is on {node} without a migration to it")
            if self.declared.get(name) == "stay":
                self.surprises.append(f"{name} was moved")

    def end(self) -> None:
        """What must hold when all is over."""
        for name in self.declared:
            here = [o for (k, _space, n), o in self.objects.items() if k == "VirtualMachineInstance" and n == name]
            if not here or here[0].get("status", {}).get("phase") != "Running":
                self.surprises.append(f"{name} does not run at the end")

    def leftovers(self) -> list[str]:
        found = [f"{name} is still cordoned" for name in self.emptied]
        for (kind, _space, name), obj in self.objects.items():
            meta, status = obj["metadata"], obj.get("status", {})
            if kind == "VirtualMachineInstance" and status.get("evacuationNodeName"):
                found.append(f"{name} is marked")
            if kind == "VirtualMachineInstanceMigration" and status.get("phase") not in OVER:
                found.append(f"migration {name} has not ended")
            if kind == "Node":
                notes = {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}
                found += [f"{name} has {key}" for key in notes if key.startswith(OURS)]
                found += [f"{name} has taint {t['key']}" for t in obj["spec"].get("taints") or []]
            if kind == "Lease" and obj["spec"].get("holderIdentity"):
                found.append(f"lease {name} is held")
        return found


def count(changes: Path, declared: dict[str, str]) -> Counter:
    counter = Counter(declared)
    with changes.open(encoding="utf-8") as stream:
        for text in stream:
            if text.endswith("\n"):
                counter.feed(json.loads(text))
    counter.end()
    return counter


def main() -> int:
    declared = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    found = count(Path(sys.argv[1]), declared)
    left = found.leftovers()
    for text in [*found.surprises, *left]:
        print(f"  {text}")
    print(
        json.dumps(
            {
                "nodes": len(found.done),
                "vms": len(declared),
                "stopped_by_surprise": len(found.surprises),
                "leftovers": len(left),
                "moves": sum(len(moves) for moves in found.moves.values()),
                "stopped": sum(found.stopped.values()),
            }
        )
    )
    return 1 if found.surprises or left else 0


if __name__ == "__main__":
    sys.exit(main())
