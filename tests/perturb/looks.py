"""Looks that do not see what is: they are late, or one VM cannot be read in them.

What cannot be read looks as on libvirt (`_libvirt/observe`). KubeVirt's lists are there whole, or late, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Observation, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from perturb.judge import state_in
from perturb.play import Perturbed, Play, fault
from perturb.request import Point
from perturb.watch import ACTIVE


@fault("stale")
def _stale(play: Play, platform: Perturbed, _what: str) -> None:
    """This read answers as it was at the point `arg`."""
    platform.see(play.copies[play.arg])


@fault("stale_all")
def _stale_all(play: Play, platform: Perturbed, _what: str) -> None:
    """All of this observation is as it was at the point `arg`."""
    platform.see(play.copies[play.arg], all_of_it=True)


@fault("unseen")
def _unseen(play: Play, _platform: Perturbed, _what: str) -> None:
    """What it would have seen now is over before it looks. `arg`: how many events later."""
    play.pass_events(play.arg)


@fault("slow_look")
def _slow_look(play: Play, platform: Perturbed, _what: str) -> None:
    """This look asks the other hosts first, and this one when `arg` events later: what moves meanwhile is seen at
    neither."""
    platform.slow = play.arg
    platform._order = [*(name for name in platform._order if name != platform.node), platform.node]


@fault("unreadable")
def _unreadable(play: Play, platform: Perturbed, _what: str) -> None:
    """One VM cannot be read, and all else is. `arg`: which; what of it (see `parts`); and for how many seconds, 0: in
    this look."""
    uuid, what, seconds = play.arg
    until = play.fleet.clock + seconds

    def blur(obs: Observation) -> None:
        if play.fleet.clock > until:
            play.blur = None
        if not seconds or play.blur is not None:
            _without(obs, platform.node, uuid, what)

    play.blur = blur


def parts(point: Point, uuid: str, hosts: str, fresh: bool) -> Iterator[str]:
    """What of the VM may be unreadable in a look that begins at this point. `fresh`: what it is (its definition, how
    it is moved) is not known from an earlier look of the slice."""
    here = state_in(point.state, uuid, hosts[0])
    if here in ACTIVE:
        yield "job"
    if here and fresh:
        yield "facts"
        if here in ACTIVE:
            yield "both"
    if any(state_in(point.state, uuid, name) in ACTIVE for name in hosts[1:]):
        yield "there"
        if fresh:
            yield "arrival"


def _without(obs: Observation, node: str, uuid: str, what: str) -> None:
    vm = obs.vms.get(uuid)
    if what in ("there", "arrival"):
        obs.full = obs.full and uuid not in obs.sightings
        seen = obs.sightings.pop(uuid, [])
        if what == "there":
            obs.sightings[uuid] = [replace(one, state=State.UNKNOWN, job=None) for one in seen]
        return
    if vm is None:
        return
    if what in ("facts", "both"):
        why = (Finding(Reason.MigratableNotKnown, "a lock"),)
        vm = replace(
            vm,
            known=False,
            persistent=True,
            marked=False,
            managed_save=False,
            declared_strategy=None,
            migratable=None,
            findings=why,
            cold_findings=why,
            save_findings=why,
            autostart=vm.autostart and not vm.active,
            document={"name": vm.name, "uuid": uuid},
        )
    if what in ("job", "both") and vm.active:
        vm = replace(vm, state=State.UNKNOWN, job=None)
        obs.full = False
        obs.nodes[node].message = f"{vm.name}: its job cannot be read: a lock"
    obs.vms[uuid] = vm


@fault("silent_agent")
def _silent_agent(play: Play, platform: Perturbed, _what: str) -> None:
    """The migration agent is there and answers nothing. `arg`: for how many seconds, 0: in this look."""
    seconds = play.arg
    until = play.fleet.clock + seconds

    def blur(obs: Observation) -> None:
        if play.fleet.clock > until:
            play.blur = None
        if seconds and play.blur is None:
            return
        obs.full, obs.silent, obs.held_for, obs.stop_errors = False, "the agent does not answer", {}, {}
        obs.held = frozenset(u for u, vm in obs.vms.items() if vm.job is not None and vm.job.outgoing)
        obs.unsent = frozenset(u for u, d in platform.own.domains.items() if d.asked_at)
        for uuid, vm in obs.vms.items():
            if vm.job is None or vm.job.queued:  # what libvirt does itself, it tells
                obs.vms[uuid] = replace(vm, state=State.UNKNOWN, job=None)

    play.blur = blur
