"""The migration controller: phases of a VirtualMachineInstanceMigration, limits, back-off."""

from __future__ import annotations

import itertools

from . import policies, slots, words
from .admission import VMI, webhook_down
from .answers import ApiError
from .clock import parse
from .kinds import PODS, QUOTAS, VMIMS, VMIS
from .launchers import launcher, text_of
from .store import Change, Obj
from .vms import unfinished
from .world import World

PRIORITY = {"system-critical": 100, "user-triggered": 50, "system-maintenance": 20}
KEPT = 5
_ABORT = "migrationAbortRequested"
_SHUT_DOWN = "Migration failed vmi shutdown during migration."
_ENDED = "Migration failed because target pod shutdown during migration"
_REMOVED = "Migration target pod was removed during active migration."
_NOT_TAKEN = "the server rejected our request due to an error in our request"
UNSCHEDULABLE = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"
PENDING = "kubevirt.io/migrationPendingPodTimeoutSeconds"


class MigrationController:
    """What virt-controller does; the bytes are moved by Handler."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._created: dict[str, int] = {}  # UID -> its place in the order of creation
        self._number = itertools.count()
        self._not_before: dict[str, float] = {}  # UID -> when its abort is taken
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        meta = change.obj["metadata"]
        if change.kind is VMIMS:
            if change.type == "ADDED":
                self._created[meta["uid"]] = next(self._number)
            if change.type != "DELETED":
                self._world.enqueue(self.reconcile, meta["namespace"], meta["name"])
            if change.type == "DELETED" or words.final(change.obj):
                self._world.enqueue(self.all_pending)
        elif change.kind is VMIS and change.type == "DELETED":
            self._world.enqueue(self.orphans, meta["namespace"], meta["name"])
        elif change.kind is VMIS:
            for migration in unfinished(self._world, change.obj):
                name = migration["metadata"]["name"]
                self._world.enqueue(self.reconcile, meta["namespace"], name)
        elif change.kind is PODS:
            job = words.annotations(change.obj).get("kubevirt.io/migrationJobName")
            if job:
                self._world.enqueue(self.reconcile, meta["namespace"], job)
        elif change.kind is QUOTAS:
            self._world.enqueue(self.all_pending)

    def orphans(self, namespace: str, name: str) -> None:
        """Migrations go with their VMI, those that have ended too."""
        for migration in list(self._store.all(VMIMS, namespace)):
            if migration["spec"]["vmiName"] != name:
                continue
            if not words.final(migration):
                self._fail(migration, _SHUT_DOWN)
                self._finish(self._store.get(VMIMS, namespace, migration["metadata"]["name"]))
            if self._store.find(VMIMS, namespace, migration["metadata"]["name"]) is not None:
                self._store.delete(VMIMS, namespace, migration["metadata"]["name"])

    def all_pending(self) -> None:
        """Those that wait for a slot, by their priority, then as they were made."""
        waiting = [m for m in self._store.all(VMIMS) if words.phase(m) == "Pending"]
        waiting.sort(key=self._turn)
        for migration in waiting:
            meta = migration["metadata"]
            self.reconcile(meta["namespace"], meta["name"])

    def _turn(self, migration: Obj) -> tuple[int, int]:
        priority = PRIORITY.get(migration["spec"].get("priority", ""), 0)
        return -priority, self._created[migration["metadata"]["uid"]]

    def reconcile(self, namespace: str, name: str) -> None:
        migration = self._store.find(VMIMS, namespace, name)
        if migration is None or "migration" in self._world.paused:
            return
        if words.final(migration):
            self._finish(migration)
            return
        vmi = self._store.find(VMIS, namespace, migration["spec"]["vmiName"])
        began = words.phase(migration) not in ("", "Pending")
        # One of the same name that runs nowhere yet is another one.
        if vmi is None or words.final(vmi) or (began and not vmi["status"].get("nodeName")):
            self._fail(migration, _SHUT_DOWN)
            return
        if migration["metadata"].get("deletionTimestamp") and self._cancel(migration, vmi):
            return
        step = {
            "": self._begin,
            "Pending": self._pending,
            "Scheduling": self._scheduling,
            "Scheduled": self._hand_over,
        }.get(words.phase(migration), self._handed_over)
        step(migration, vmi)

    # Phases

    def _enter(self, migration: Obj, phase: str) -> None:
        meta, stamp = migration["metadata"], self._world.clock.stamp()
        self._store.change(VMIMS, meta["namespace"], meta["name"], lambda o: words.enter(o, phase, stamp))

    def _condition(self, migration: Obj, kind: str, value: str | None) -> None:
        meta = migration["metadata"]
        self._store.change(VMIMS, meta["namespace"], meta["name"], lambda o: words.set_condition(o, kind, value))

    def _fail(self, migration: Obj, text: str, condition: str = "") -> None:
        """`condition`: set in the same update."""
        self._world.event(migration, "FailedMigration", text, "Warning")
        meta, stamp = migration["metadata"], self._world.clock.stamp()

        def edit(obj: Obj) -> None:
            words.enter(obj, "Failed", stamp)
            if condition:
                words.set_condition(obj, condition, "True")

        self._store.change(VMIMS, meta["namespace"], meta["name"], edit)

    def _source(self, vmi: Obj) -> str:
        node = vmi["status"].get("nodeName")
        pods = [p for p in self._world.pods_of(vmi) if p["spec"].get("nodeName") == node and words.live_pod(p)]
        return str(pods[-1]["metadata"]["name"]) if pods else ""

    def _begin(self, migration: Obj, vmi: Obj) -> None:
        source, stamp = self._source(vmi), self._world.clock.stamp()

        def edit(obj: Obj) -> None:
            words.enter(obj, "Pending", stamp)
            obj["status"]["migrationState"] = {"sourcePod": source}

        meta = migration["metadata"]
        self._store.change(VMIMS, meta["namespace"], meta["name"], edit)

    def _pending(self, migration: Obj, vmi: Obj) -> None:
        meta = migration["metadata"]
        again = (self.reconcile, meta["namespace"], meta["name"])
        if slots.target_pod(self._world, migration) is not None:
            self._condition(migration, "migrationRejectedByResourceQuota", None)
            self._enter(migration, "Scheduling")
            return
        live = [p for p in self._world.pods_of(vmi) if words.live_pod(p)]
        if words.phase(vmi) != "Running" or len(live) > 1:
            self._world.later(1.0, *again)
            return
        wait = slots.backoff(self._world, migration)
        if wait > 0:
            text = f"backoff migrating vmi {meta['namespace']}/{vmi['metadata']['name']}"
            self._world.event(vmi, "MigrationBackoff", text, "Warning")
            self._world.later(min(wait, 0.2), *again)  # looked at, and told, again and again
            return
        if not slots.is_free(self._world, vmi):
            self._world.later(1.0, *again)
            return
        try:
            pod = launcher(self._world, vmi, migration)
        except ApiError as exc:
            text = f"Error creating pod: {text_of(exc)}"
            self._world.event(vmi, "FailedCreate", text, "Warning")
            if "exceeded quota" in text:
                self._condition(migration, "migrationRejectedByResourceQuota", "True")
            self._world.later(5.0, *again)
            return
        text = f"Created migration target pod {pod['metadata']['name']}"
        self._world.event(migration, "SuccessfulCreate", text)
        self._enter(migration, "Scheduling")

    def _scheduling(self, migration: Obj, vmi: Obj) -> None:
        pod = slots.target_pod(self._world, migration)
        if pod is None:
            self._fail(migration, _REMOVED)
            return
        if words.is_true(migration, "migrationRejectedByResourceQuota"):
            self._condition(migration, "migrationRejectedByResourceQuota", None)
        if words.final(pod):
            self._fail(migration, _ENDED)
        elif words.phase(pod) == "Running":
            self._enter(migration, "Scheduled")
        else:
            self._pod_waits(migration, pod)

    def _pod_waits(self, migration: Obj, pod: Obj) -> None:
        notes = words.annotations(migration)
        found = words.condition(pod, "PodScheduled")
        unschedulable = found is not None and found["status"] == "False"
        limit = float(notes.get(UNSCHEDULABLE if unschedulable else PENDING, 300 if unschedulable else 900))
        age = self._world.clock.now() - parse(pod["metadata"]["creationTimestamp"])
        meta = migration["metadata"]
        if age < limit:
            if unschedulable and found is not None:
                text = f"Migration target pod for VMI is currently unschedulable: {found['message']}"
                self._world.event(migration, "migrationTargetPodUnschedulable", text, "Warning")
            self._world.later(min(limit - age, 1.0), self.reconcile, meta["namespace"], meta["name"])
            return
        text = f"Deleted {pod['metadata']['name']}: timeout period exceeded"
        self._world.event(migration, "SuccessfulDelete", text, "Warning")
        self._world.delete_pod(pod)

    def _hand_over(self, migration: Obj, vmi: Obj) -> None:
        pod = slots.target_pod(self._world, migration)
        if pod is None or words.final(pod):
            self._fail(migration, _ENDED if pod is not None else _REMOVED)
            return
        state = {
            "migrationUid": migration["metadata"]["uid"],
            "sourceNode": vmi["status"]["nodeName"],
            "sourcePod": self._source(vmi),
            "targetNode": pod["spec"]["nodeName"],
            "targetPod": pod["metadata"]["name"],
            **policies.settings(self._world, vmi),
        }

        def edit(obj: Obj) -> None:
            obj["status"]["migrationState"] = state
            obj["metadata"].setdefault("labels", {})[words.TARGET_NODE] = state["targetNode"]

        self._store.change(VMIS, vmi["metadata"]["namespace"], vmi["metadata"]["name"], edit)
        text = "Migration target pod is ready for preparation by virt-handler."
        self._world.event(migration, "SuccessfulHandOver", text)
        self._enter(migration, "PreparingTarget")

    def _handed_over(self, migration: Obj, vmi: Obj) -> None:
        state = vmi["status"].get("migrationState") or {}
        if state.get("migrationUid") != migration["metadata"]["uid"]:
            self._fail(migration, "VMI's migration state was taken over by another migration")
        elif state.get("failed"):
            self._fail(migration, "source node reported migration failed")
        elif state.get("completed"):
            if words.phase(migration) == "Running" and not self._kept_open(vmi):
                text = "Source node reported migration succeeded"
                self._world.event(migration, "SuccessfulMigration", text)
                self._enter(migration, "Succeeded")
        elif self._pod_is_down(migration):
            self._target_down(vmi)
            self._fail(migration, _REMOVED if slots.target_pod(self._world, migration) is None else _ENDED)
        elif words.phase(migration) == "PreparingTarget" and state.get("targetNodeAddress"):
            self._enter(migration, "TargetReady")
        elif words.phase(migration) == "TargetReady" and state.get("startTimestamp"):
            self._enter(migration, "Running")

    @staticmethod
    def _kept_open(vmi: Obj) -> bool:
        """The guest has moved, and something of the VMI is not as it will be. One of these
        conditions counts as soon as it is there."""
        on = any(words.is_true(vmi, kind) for kind in ("MigrationRequired", "HotMemoryChange"))
        return on or words.condition(vmi, "HotVCPUChange") is not None

    def _pod_is_down(self, migration: Obj) -> bool:
        pod = slots.target_pod(self._world, migration)
        return pod is None or words.final(pod)

    def _target_down(self, vmi: Obj) -> None:
        stamp = self._world.clock.stamp()
        more = {"completed": True, "failed": True, "failureReason": "Target pod is down"}

        def edit(obj: Obj) -> None:
            state = obj["status"]["migrationState"]
            state.update(endTimestamp=stamp, **more)
            state.setdefault("startTimestamp", stamp)

        self._store.change(VMIS, vmi["metadata"]["namespace"], vmi["metadata"]["name"], edit)
        uid = vmi["status"]["migrationState"]["migrationUid"]
        told = f"VirtualMachineInstance migration uid {uid} failed. reason: {more['failureReason']}"
        self._world.event(vmi, "FailedMigration", told, "Warning")

    # Cancelling, and the end

    def _cancel(self, migration: Obj, vmi: Obj) -> bool:
        """It is being deleted. True: that was all for now."""
        if words.phase(migration) in ("", "Pending", "Scheduling", "Scheduled"):
            pod = slots.target_pod(self._world, migration)
            if pod is not None:
                self._world.delete_pod(pod)
            self._fail(migration, "Migration failed due to being canceled", _ABORT)
            return True
        if words.condition(migration, _ABORT) is None:
            self._condition(migration, _ABORT, "True")
        state = vmi["status"].get("migrationState") or {}
        if words.phase(migration) == "Running" and not state.get("abortRequested"):
            self._signal(migration, vmi)
        return False

    def _signal(self, migration: Obj, vmi: Obj) -> None:
        """Its virt-handler shall abort. A write of the VMI needs virt-api; some are refused at first."""
        meta, now = migration["metadata"], self._world.clock.now()
        wait = float(words.knob("abort-refused", "0", migration, vmi))
        if self._world.virt_api_down or now < self._not_before.setdefault(meta["uid"], now + wait):
            why = _NOT_TAKEN
            if self._world.virt_api_down:
                why = text_of(webhook_down(VMI, "virtualmachineinstances-mutate"))
            text = f"failed to set MigrationState in VMI status. :{why}"
            self._world.event(migration, "FailedAbortMigration", text, "Warning")
            self._world.later(wait or 1.0, self.reconcile, meta["namespace"], meta["name"])
            return

        def edit(obj: Obj) -> None:
            obj["status"]["migrationState"]["abortRequested"] = True

        self._store.change(VMIS, vmi["metadata"]["namespace"], vmi["metadata"]["name"], edit)
        text = "Migration is ready to be canceled by virt-handler."
        self._world.event(migration, "SuccessfulAbortMigration", text)

    def _finish(self, migration: Obj) -> None:
        meta = migration["metadata"]
        if words.FINALIZER not in (meta.get("finalizers") or []):
            self._collect(migration)
            return
        vmi = self._store.find(VMIS, meta["namespace"], migration["spec"]["vmiName"])
        state = (vmi or {}).get("status", {}).get("migrationState") or {}
        if state.get("migrationUid") == meta["uid"] and vmi is not None:
            copied = dict(state)
            self._store.change(
                VMIMS, meta["namespace"], meta["name"], lambda o: o["status"].update(migrationState=copied)
            )

        def release(obj: Obj) -> None:
            obj["metadata"]["finalizers"] = []

        self._store.change(VMIMS, meta["namespace"], meta["name"], release)

    def _collect(self, migration: Obj) -> None:
        """Keep the newest five that ended."""
        meta = migration["metadata"]
        ended = [
            m
            for m in self._store.all(VMIMS, meta["namespace"])
            if m["spec"]["vmiName"] == migration["spec"]["vmiName"] and words.final(m)
        ]
        ended.sort(key=lambda m: m["metadata"]["creationTimestamp"])
        for old in ended[:-KEPT]:
            self._store.delete(VMIMS, meta["namespace"], old["metadata"]["name"])
