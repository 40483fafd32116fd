"""Put what the holder reports into an observation: saves, requests to stop, and its silence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ..._core.decision.strategy import Way
from ..._core.model.observation import Job, Observation, State
from ..._core.model.record import NodeRecord
from ..._core.reasons.reason import Finding, Reason


def note_saves(obs: Observation, record: NodeRecord | None, saves: Mapping[str, str], queued: Collection[str]) -> None:
    """Note saves in `obs`: errors in `stop_errors`; one that goes on or is queued as the VM's job, if it has none yet.

    `saves`: UUID -> the error of the last one; "" while it goes on or is queued. `queued`: UUIDs of those that have not
    begun. The holder keeps an error until it is asked again: that of an earlier run says nothing of this stop.
    """
    entries = record.vms if record else {}
    asked = {
        uuid
        for uuid, entry in entries.items()
        if entry.stop_way == Way.SAVE.value and entry.stop_sent >= entry.stop_started
    }
    for uuid, error in saves.items():
        vm, waits = obs.vms.get(uuid), uuid in queued
        if error and uuid in asked:
            obs.stop_errors[uuid] = Finding(Reason.StopFailed, f"save: {error}")
        elif not error and vm is not None and vm.active and vm.job is None:
            obs.vms[uuid] = replace(vm, job=Job(outgoing=False, saving=not waits, queued=waits))


def note_stops(obs: Observation, record: NodeRecord | None, stops: Mapping[str, Mapping[str, Any]]) -> None:
    """Note requests to stop in `obs`: errors in `stop_errors`, and in `unsent` those that the holder does not know to
    be sent, which are sent again. `stops`: UUID -> `sent`, `error`."""
    asked = {u for u, e in record.vms.items() if e.stop_requests} if record else set()
    obs.unsent = frozenset(u for u in asked if not stops.get(u, {}).get("sent"))
    for uuid in asked:
        error = stops.get(uuid, {}).get("error")
        if error and record is not None and record.vms[uuid].stop_way != Way.SAVE.value:
            obs.stop_errors[uuid] = Finding(Reason.StopFailed, f"shutdown: {error}")


def note_never(obs: Observation, never: Mapping[str, str]) -> None:
    """Migrations under way that do not converge as they are: UUID -> the numbers."""
    for uuid, numbers in never.items():
        vm = obs.vms.get(uuid)
        if vm is not None and vm.job is not None and vm.job.outgoing:
            obs.vms[uuid] = replace(vm, job=replace(vm.job, finding=Finding(Reason.NotConverging, numbers)))


def note_silence(obs: Observation, node: str, silent: str) -> None:
    """The holder may have any VM whose migration shows no job: of those nothing is concluded.

    What shows one it is taken to look after. The claims stay.
    """
    obs.full, obs.silent = False, silent
    obs.nodes[node].message = "; ".join(filter(None, (obs.nodes[node].message, silent)))
    for uuid, vm in obs.vms.items():
        if vm.job is None:
            obs.vms[uuid] = replace(vm, state=State.UNKNOWN)
        elif vm.job.outgoing:
            obs.held |= {uuid}
