"""The cluster of VIRTOPS_KUBECONFIG in place of the simulator, for the tests of tests/kubevirt.

The tests name its nodes n1, n2 and n3. What a test needs that this cluster has not got skips it,
and says so:

- the simulator itself: its log, its clock, faults of the API, other people's rights; also one that
  the test starts for itself, of another version say (see tests/kubevirt/conftest.py)
- VIRTOPS_KNOBS=1: node agents that obey the annotations lab/..., for migrations that fail or hang
- VIRTOPS_GUEST=1: a real guest in the VMs (or agents that stand in for it), for what shuts down.
  VIRTOPS_IMAGE names the container disk that the VMs boot from

Only VMs that the tests made are removed, and where others run on the nodes the tests refuse. What
a test changes of a node is put back: taints, labels, knobs.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from . import words
from .kinds import BY_PLURAL, KUBEVIRTS, NAMESPACES, NODES, PODS, VMIS, VMS, Kind
from .remote import Remote, RemoteError

Obj = dict[str, Any]
EVENTS, PDBS = BY_PLURAL["events"], BY_PLURAL["poddisruptionbudgets"]
WANTED = ("n1", "n2", "n3")
# How many times as fast as real the simulator of the tests is. Here a knob's seconds are real ones: a tenth of them is
# as long for a test, and for what it waits.
SPEED = 10
# These need no agent: without one a migration lasts as long as it lasts.
HARMLESS = {"migrate_seconds", "start_seconds"}
# Of every VM.
WORDS = {"wait", "strategy", "run_strategy", "namespace", "memory", "labels", "grace", "start"}
# On the report of a test that asked the cluster something.
TOUCHED = ("touched", "the given cluster")


class Given(Remote):
    """What Kubesim offers to tests, as far as any cluster can."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._at_first_touch: Callable[[], None] | None = None
        found = {node["metadata"]["name"] for node in self.all(NODES)}
        missing = [name for name in WANTED if name not in found]
        if missing:
            raise RuntimeError(
                f"{path}: the cluster has no node {', '.join(missing)}; it has "
                f"{', '.join(sorted(found))}. The tests need nodes n1, n2 and n3."
            )
        # Where there are more, VMs of the tests stay on these three.
        self._within = WANTED if found - set(WANTED) else ()
        strangers = self.strangers(WANTED)
        if strangers:
            raise RuntimeError(
                f"{path}: VMs that are not the tests' run on n1, n2 or n3: {', '.join(strangers)}. "
                "The tests drain these nodes and make migrations fail; nothing was done."
            )
        self._theirs = self.theirs()
        self._added: list[tuple[Kind, str, str]] = []
        self._edited: dict[str, Obj] = {}  # nodes as they were
        self._settings: Obj | None = None  # KubeVirt's, as they were
        self.clean()  # a run before may have been killed
        self._old = {event["metadata"]["uid"] for event in super().all(EVENTS)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        pytest.skip(f"needs the simulator: {name}")

    def begin(self, at_first_touch: Callable[[], None]) -> None:
        """The test begins: what is asked from now on is asked by it."""
        self._at_first_touch = at_first_touch

    def touch(self) -> None:
        tell, self._at_first_touch = self._at_first_touch, None
        if tell:
            tell()

    def request(self, *args: Any, **more: Any) -> Obj:
        self.touch()
        return super().request(*args, **more)

    def clean(self) -> None:
        """What tests made, and what the product left on the nodes, goes."""
        self._at_first_touch = None  # tidying up is no check
        for name in WANTED:  # first: where agents are down, no VM ends
            self.tidy(name, self._edited.get(name))
        self.remove_vms()
        for kind, namespace, name in reversed(self._added):
            self._delete(kind, namespace, name)
        self.until(self._all_gone, 120.0)
        if self._settings is not None:
            settings, meta = self._settings, self._kubevirt()["metadata"]
            path = self.path_of(KUBEVIRTS, meta["namespace"], meta["name"])
            self._change(path, lambda o: o["spec"].update(configuration=settings))
        self.until(self._all_take_vms, 120.0)  # an agent that was down tells so itself
        self._added, self._edited, self._settings = [], {}, None

    def _all_gone(self) -> bool:
        """Namespaces and pods go slowly, and the next test may want the same names."""
        slow = (o for o in self._added if o[0] in (NAMESPACES, PODS))
        return not any(self.find(kind, name, namespace) for kind, namespace, name in slow)

    def _all_take_vms(self) -> bool:
        nodes = [node for node in self.all(NODES) if node["metadata"]["name"] in WANTED]
        return all(words.labels(node).get("kubevirt.io/schedulable") == "true" for node in nodes)

    def _kubevirt(self) -> Obj:
        return self.all(KUBEVIRTS)[0]

    def configure(self, **configuration: Any) -> None:
        if self._settings is None:
            self._settings = self._kubevirt()["spec"].get("configuration") or {}
        super().configure(**configuration)

    def all(self, kind: Kind) -> list[Obj]:
        """Events only of this test: they outlive what they tell of."""
        found = super().all(kind)
        return [o for o in found if kind is not EVENTS or o["metadata"]["uid"] not in self._old]

    def add(self, plural: str, obj: Obj) -> Obj:
        kind = BY_PLURAL[plural]
        if kind is PODS:
            owners = [owner["kind"] for owner in obj["metadata"].get("ownerReferences") or ()]
            missing = lacks_pod("".join(owners), (obj.get("status") or {}).get("phase", "Running"))
            if missing:
                pytest.skip(missing)
        made = super().add(plural, obj)
        if kind is PDBS:  # before its controller has computed it nothing is allowed
            self.until(lambda: self._judged(made["metadata"]))
        if kind not in (VMS, VMIS):
            meta = made["metadata"]
            self._added.append((kind, meta.get("namespace", ""), meta["name"]))
        return made

    def _judged(self, meta: Obj) -> bool:
        state = (self.find(PDBS, meta["name"], meta["namespace"]) or {}).get("status") or {}
        return bool(state.get("observedGeneration") or state.get("conditions"))

    def kubeconfig(self, path: Path, _token: str = "") -> Path:
        """The one that was given: whose rights it has is not ours to choose."""
        shutil.copyfile(self.path, path)
        return path

    def add_node(self, name: str, **labels: str) -> None:
        missing = lacks_node(name, bool(labels))
        if missing:
            pytest.skip(missing)

    def add_vm(self, name: str, node: str, *, wait: bool = True, **what: Any) -> None:
        missing = lacks(what) or lacks_name(f"{what.get('namespace', 'default')}/{name}", self._theirs)
        if missing:
            pytest.skip(missing)
        what.pop("start", None)
        what |= {key: str(float(what[key]) / SPEED) for key in what if key.endswith("_seconds")}
        what.setdefault("image", os.environ.get("VIRTOPS_IMAGE", ""))
        what.setdefault("within", self._within)
        super().add_vm(name, node, wait=wait, **what)

    def edit(self, kind: Kind, name: str, what: Callable[[Obj], Any], namespace: str = "") -> Obj:
        if kind is VMIS:
            pytest.skip("needs the simulator: it writes what only node agents may write")
        return self._change(self.path_of(kind, namespace, name), lambda o: self._edit(kind, o, what))

    def _edit(self, kind: Kind, found: Obj, what: Callable[[Obj], Any]) -> None:
        before = copy.deepcopy(found)
        what(found)
        if found.get("status") != before.get("status"):
            pytest.skip("needs the simulator: it writes a status, which only its owner may write")
        if _knobs(found) != _knobs(before) and not os.environ.get("VIRTOPS_KNOBS"):
            pytest.skip("needs agents that obey knobs (of a node): VIRTOPS_KNOBS")
        if kind is NODES:
            self._edited.setdefault(found["metadata"]["name"], before)

    def _change(self, path: str, what: Callable[[Obj], Any]) -> Obj:
        """Read, change, write; again where others wrote meanwhile, as a node's agents do."""
        tries = 10
        while True:
            found = self.request("GET", path)
            what(found)
            try:
                return self.request("PUT", path, found)
            except RemoteError as exc:
                tries -= 1
                if exc.code != 409 or not tries:
                    raise


def lacks(what: Mapping[str, Any]) -> str:
    """Why a VM of this kind cannot be had here; empty: it can. `what`: of add_vm."""
    knobs = set(what) - WORDS - HARMLESS
    if knobs and not os.environ.get("VIRTOPS_KNOBS"):
        return f"needs agents that obey knobs ({', '.join(sorted(knobs))}): VIRTOPS_KNOBS"
    if what.get("strategy", "LiveMigrate") not in ("LiveMigrate", "External") and not os.environ.get("VIRTOPS_GUEST"):
        return "needs a real guest, which shuts down when asked: VIRTOPS_GUEST"
    return "needs the simulator: a VM that is not started" if what.get("start", True) is False else ""


def lacks_name(name: str, theirs: Collection[str]) -> str:
    """Why no VM of this name can be had here; empty: it can. `theirs`: see Remote.theirs."""
    return f"needs the simulator: {name} is a VM of others here" if name in theirs else ""


def lacks_node(name: str, labels: bool) -> str:
    """Why such a node cannot be had here; empty: it is there."""
    return "needs the simulator: nodes of its own" if name not in WANTED or labels else ""


def lacks_pod(owner: str, phase: str = "Running") -> str:
    """Why such a pod cannot be had here; empty: it can. A real API takes no status of a test."""
    if phase != "Running":
        return "needs the simulator: a pod whose status the test writes"
    return "needs the simulator: a pod of a DaemonSet that never made it" if owner.startswith("DaemonSet") else ""


def _knobs(obj: Obj) -> dict[str, str]:
    return {k: v for k, v in words.annotations(obj).items() if k.startswith("lab/")}
