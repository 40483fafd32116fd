"""VMs that are not on the node any more: where they are, and how their attempts ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..._core.model.observation import VM, Observation, Outcome, Sighting, State
from ..._core.model.record import Attempt, VMRecord
from ..._core.reasons.reason import Finding, Reason
from ..api.client import Client
from ..api.errors import AccessDenied
from ..api.watches import Watches
from ..objects import facts, names
from ..records.node_record import Instance
from ..requests import migration_api
from . import deletion

Obj = dict[str, Any]
_HINT = "virtops.maintenance/told-by-migration"
_ASK_AGAIN = 1.0
# So long after the switch-over KubeVirt has closed the migration object.
_CLOSES = 2.0
# Seconds after its end for which a migration tells where its VM is. So the slices of a short drain
# make no request more for those that have moved.
_MIGRATION_TELLS = 60.0
ANYWHERE = ""  # the node that stands for what the scheduler finds


def _past(entry: VMRecord, now: float) -> bool:
    """Is what its last migration told too old to be believed?"""
    last = entry.last
    return last is not None and last.ended and not 0 <= now - last.ended_at < _MIGRATION_TELLS


class DepartedVMs:
    """Reads VMIs, and VMs where there is no VMI, by name."""

    def __init__(
        self, client: Client, node: str, watches: Watches, instances: Callable[[], dict[str, Instance]]
    ) -> None:
        self._client = client
        self._node = node
        self._watches = watches
        self._instances = instances
        self._asked: dict[str, float] = {}  # uuid -> when (this slice's clock)
        self._departed: dict[str, tuple[Obj | None, Obj | None]] = {}  # uuid -> its VMI, its VM
        self._events: dict[str, str] = {}
        # UID of an instance that has ended -> when it was first asked for, when last, and whether it crashed
        self._crashes: dict[str, tuple[float, float, bool]] = {}
        self._failed: dict[str, float] = {}  # UID of a migration that is Failed -> since when (this slice's clock)
        self._left: dict[str, float] = {}  # UID of a migration -> since when its VM is not here (this slice's clock)
        self._listed = False  # those that moved, in this slice

    def locate(self, entries: Mapping[str, VMRecord], fresh: bool, now: float) -> None:
        """Read their VMIs, and where there is none or it has ended, their VMs.

        `fresh`: by reading all of them anew, those that we signed with one request. Else what
        their migrations say is enough, while these are under way and shortly after; of the rest
        one such request in a slice tells. `now`: the platform's clock.
        """
        if fresh:
            self._departed.clear()
            self._asked.clear()
        known = self._instances()
        moved: dict[tuple[str, str], Obj] = {}
        if fresh or not self._listed:
            departed = [entry for uuid, entry in entries.items() if not self._settled(uuid)]
            if any(fresh or _past(entry, now) for entry in departed):
                moved, self._listed = self._moved(), True
        for uuid, entry in entries.items():
            found = known.get(uuid)
            if found is None or self._settled(uuid):
                continue
            vmi = None
            if fresh or _past(entry, now):
                vmi = moved.get((found.namespace, found.name))
            if vmi is None and not fresh:
                vmi = self._vmi_from_migration(found, entry, now)
                if vmi is None and not self._due(uuid):
                    continue
            if vmi is None:
                vmi = self._client.find(names.kubevirt(found.namespace, "virtualmachineinstances", found.name))
            vm = None
            moving = vmi is not None and _HINT in vmi
            if vmi is not None and not moving and facts.identity(vmi) != uuid:
                vmi = None  # another VM has its name by now
            if not moving and (vmi is None or facts.phase(vmi) != "Running"):
                vm = self.machine(uuid)
            self._departed[uuid] = (vmi, vm)

    def read(self) -> list[Obj]:
        """The VMIs of those that left, as far as they were read themselves."""
        return [vmi for vmi, _vm in self._departed.values() if vmi is not None and _HINT not in vmi]

    def _settled(self, uuid: str) -> bool:
        vmi, _vm = self._departed.get(uuid, (None, None))
        return vmi is not None and facts.phase(vmi) == "Running"

    def _due(self, uuid: str) -> bool:
        """Asked for once in a while: no watch reports it."""
        now = time.monotonic()
        if now - self._asked.get(uuid, -1e9) < _ASK_AGAIN:
            return False
        self._asked[uuid] = now
        return True

    def _moved(self) -> dict[tuple[str, str], Obj]:
        """All VMIs that a run of ours moved from this node."""
        label = f"{names.FROM_NODE}={names.label(self._node)}"
        found, _version = self._client.list(f"{names.KUBEVIRT}/virtualmachineinstances", label)
        return {facts.key(vmi): vmi for vmi in found}

    def _vmi_from_migration(self, found: Instance, entry: VMRecord, now: float) -> Obj | None:
        """The VMI as the migration of this run reports it; it left our watch with the switch-over.

        Never as one from before reports it: since then the VM may have been stopped.
        """
        moves = self._watches.migrations_of(found.namespace, found.name)
        if not moves or facts.phase(moves[-1]) in ("", "Pending", "Failed"):
            return None
        if entry.last is None or entry.last.work != moves[-1]["metadata"]["uid"]:
            return None
        if _past(entry, now):
            return None
        left = self._left.setdefault(moves[-1]["metadata"]["uid"], time.monotonic())
        if facts.phase(moves[-1]) == "Running" and time.monotonic() - left > _CLOSES:
            return None  # its object would have ended by now: the VMI tells more
        state = facts.status(moves[-1]).get("migrationState") or {}
        over = facts.phase(moves[-1]) == "Succeeded" and bool(state.get("targetNode"))
        done = facts.phase(moves[-1]) == "Succeeded"
        if done and not over and not moves[-1]["metadata"].get("finalizers"):
            return None  # KubeVirt would have copied the state before it let go of it
        meta = {"namespace": found.namespace, "name": found.name, "uid": found.uid}
        status = {
            "phase": "Running" if over else "Scheduled",
            "nodeName": state.get("targetNode") or ANYWHERE,
            "migrationState": state,
        }
        return {"metadata": meta, "spec": {}, "status": status, _HINT: True}

    def machine(self, uuid: str) -> Obj | None:
        """The VirtualMachine; None where there is none, or another one has its name."""
        found = self._instances()[uuid]
        if found.bare:
            return None
        path = names.kubevirt(found.namespace, "virtualmachines", found.name)
        vm = self._client.find(path)
        return vm if vm is not None and vm["metadata"]["uid"] == uuid else None

    def starts_again(self, uuid: str, vmi: Obj) -> bool:
        """Will KubeVirt by itself start anew what has ended?"""
        vm = self.machine(uuid)
        ended = facts.phase(vmi) if facts.final(vmi) else "Succeeded"
        return vm is not None and facts.restarts(vm, ended) and not self.namespace_ends(facts.key(vmi)[0])

    def namespace_ends(self, namespace: str) -> bool:
        """Is it being deleted? Nothing is made in it any more, and its pods go before its VMs. Without the right to
        read it: not known, so no."""
        try:
            found = self._client.find(f"{names.CORE}/namespaces/{namespace}")
        except AccessDenied:
            return False
        return found is not None and facts.deleted(found)

    def add_sighting(self, obs: Observation, uuid: str, entry: VMRecord) -> None:
        """Put it into the observation."""
        known = self._instances().get(uuid)
        vmi, vm = self._departed.get(uuid, (None, None))
        if known is None:
            return
        anew = vmi is not None and vmi["metadata"]["uid"] != known.uid
        if vmi is not None and not facts.final(vmi):
            place = facts.status(vmi).get("nodeName") or ANYWHERE
            state = State.RUNNING if facts.phase(vmi) == "Running" else State.INCOMING
            starts = anew and state is State.INCOMING
            unplaced = facts.not_started(vmi, vm) if starts else None
            crashed = anew and not entry.asked_to_stop and self.crashed(known)
            obs.sightings[uuid] = [Sighting(place, state, crashed=crashed, restarted=anew, unplaced=unplaced)]
            return
        if uuid in self._departed and deletion.is_deleted(vmi, vm, known.bare):
            obs.ended[uuid] = deletion.deleted_finding(known)
            return
        if vmi is None and vm is None:
            return
        stopped = deletion.stopped_finding(vm) if vm is not None else None
        if stopped is not None:
            obs.ended[uuid] = stopped
        ended = facts.phase(vmi) if vmi is not None else "Succeeded"
        if vm is not None and facts.restarts(vm, ended) and not self.namespace_ends(known.namespace):
            why = facts.not_started(None, vm)
            obs.sightings[uuid] = [Sighting(ANYWHERE, State.INCOMING, restarted=True, unplaced=why)]
            return
        obs.vms[uuid] = VM(
            uuid=uuid,
            name=entry.name,
            node=self._node,
            state=State.SHUTOFF,
            memory_mib=entry.memory_mib,
            persistent=known.kept,
            kept_off=stopped if vm is not None and facts.kept_off(vm) else None,
        )

    def crashed(self, known: Instance) -> bool:
        """Did its QEMU die? Phase Failed is also what a pod that was collected leaves, and the instance
        may be gone by now: virt-handler's event tells, which it sends after the phase."""
        now = time.monotonic()
        first, asked, told = self._crashes.get(known.uid, (now, -1e9, False))
        if not told and asked - first < facts.REASON_COMES and now - asked >= _ASK_AGAIN:
            old = {"metadata": {"namespace": known.namespace, "name": known.name, "uid": known.uid}}
            texts = [str(event.get("message", "")) for event in migration_api.events(self._client, old)]
            told = any(text.endswith("crashed.") for text in texts)
            self._crashes[known.uid] = first, now, told
        return told

    def crash_may_be_told(self, known: Instance, vmi: Obj) -> bool:
        """It has just failed, and no event says yet that it crashed."""
        first, _asked, told = self._crashes.get(known.uid, (-1e9, 0.0, False))
        past = time.time() - facts.seconds(facts.entered(vmi)) > facts.REASON_COMES
        return not (told or past) and time.monotonic() - first < facts.REASON_COMES

    # How attempts ended

    def add_outcome(self, obs: Observation, uuid: str, entry: VMRecord, vmi: Obj | None) -> None:
        """Put into the observation how the last attempt ended, if it has."""
        last = entry.last
        if last is None or last.ended:
            return
        at = (uuid, last.number)
        known = self._instances().get(uuid)
        reported = self._refused(uuid, entry, last, vmi)
        if reported and uuid in obs.held:
            return  # it may be under way all the same
        if reported:
            finding = Finding(Reason(reported[0]), reported[1])
            obs.outcomes[at] = Outcome(uuid, last.number, False, finding)
            return
        here = vmi or self._departed.get(uuid, (None, None))[0]
        migration = self._attempt(uuid, entry)
        if migration is None:
            if last.work and uuid in obs.vms:
                text = "Its migration was withdrawn." if last.abort_requested else "Its migration object is gone."
                obs.outcomes[at] = Outcome(uuid, last.number, False, Finding(Reason.AbortRequested, text))
            return
        work, mode = migration["metadata"]["uid"], facts.mode_of(here or {}, migration)
        gone = uuid not in obs.vms and uuid not in obs.held
        anew = here is not None and known is not None and here["metadata"]["uid"] != known.uid
        failed = facts.phase(migration) == "Failed"
        failed |= anew and facts.phase(migration) != "Succeeded"
        if failed and self._reason_is_coming(here, migration):
            return
        if failed and (uuid in obs.vms or gone):
            finding = facts.why_failed(here, migration, self._event(migration))
            obs.outcomes[at] = Outcome(uuid, last.number, False, finding, mode=mode, work=work)
        elif gone:
            seconds = facts.took(migration, here)
            if known is not None:
                known.handed_off = facts.handed_off(here, migration)
            obs.outcomes[at] = Outcome(uuid, last.number, True, mode=mode, seconds=seconds, work=work)

    def _reason_is_coming(self, vmi: Obj | None, migration: Obj) -> bool:
        """Why it failed is waited for, but not for long: some never say."""
        since = self._failed.setdefault(migration["metadata"]["uid"], time.monotonic())
        past = time.time() - facts.seconds(facts.ended(migration)) > facts.REASON_COMES
        late = past or time.monotonic() - since > facts.REASON_COMES
        return facts.reason_is_coming(vmi, migration) and not late

    def _refused(self, uuid: str, entry: VMRecord, last: Attempt, vmi: Obj | None) -> list[str] | None:
        """Why its request was refused: reason, message. None: it was not, or it worked."""
        known, number = self._instances().get(uuid), str(last.number)
        if known is None or number not in known.refused:
            return None
        marked = vmi is not None and known.asked and facts.mark(vmi) == self._node
        if marked or self._attempt(uuid, entry) is not None:
            del known.refused[number]
        return known.refused.get(number)

    def _attempt(self, uuid: str, entry: VMRecord) -> Obj | None:
        """The migration object of the last attempt."""
        last, known = entry.last, self._instances().get(uuid)
        if known is None:
            return None
        used = {a.work for a in entry.attempts if a.work and a is not last}
        for migration in self._watches.migrations_of(known.namespace, known.name):
            uid = migration["metadata"]["uid"]
            if last is not None and last.work:
                if uid == last.work:
                    return migration
            elif uid not in used and uid[:8] not in known.old:
                return migration
        return self._deleted_since(uuid, last, known) if last is not None else None

    def _deleted_since(self, uuid: str, last: Attempt, known: Instance) -> Obj | None:
        """The migration object that moved the VM and is gone, as the VMI remembers it."""
        vmi = self._departed.get(uuid, (None, None))[0]
        state = (facts.status(vmi).get("migrationState") or {}) if vmi is not None else {}
        uid = str(state.get("migrationUid") or "")
        if not uid or not state.get("completed") or state.get("failed"):
            return None
        if uid != last.work if last.work else uid[:8] in known.old:
            return None
        return {"metadata": {"uid": uid}, "status": {"phase": "Succeeded", "migrationState": state}}

    def _event(self, migration: Obj) -> str:
        """The text of its FailedMigration event: before the hand-off the only reason."""
        uid = migration["metadata"]["uid"]
        if uid not in self._events:
            self._events[uid] = migration_api.why_failed(self._client, migration)
        return self._events[uid]
