"""Whole rolls on the fleet in memory: playbooks, each with a worker for each host, and the record that they share.

What the modules and actions call is called here as they do it: `options.answer_of` in slices, `host.acts` act by act,
`owner.check_host` and `check_write` around the slices of a drain and a restore. Each read and write of the record,
each write of a drain, each act on a host and each pause is a point. A worker is a generator, so at each point another
one, or another playbook, may go on.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Intent,
    RecordError,
    Superseded,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.wall import FORMAT
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import owner, record, stages
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.host import Act, Asked, acts
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.options import ROLL_SPEC, answer_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import check_owner, start
from fleetsim.platform import OURS, ModelPlatform
from perturb.judge import plain
from perturb.play import SLICES, Endless, Killed
from perturb.request import Request, release_left
from perturb.roll_world import Store, World
from perturb.scenarios import POLICY

Found = dict[str, Any]
Steps = Generator[None, None, Found]
GOES_DOWN, IS_DOWN = 4.0, 20.0  # s after a reboot was asked for
PATIENCE = 300
_ENDS_SLICE = (owner.RollRefused, owner.RollTakenOver, owner.RollUnreadable, PolicyError, RecordError, Superseded)


@dataclass
class Playbook:
    """One ansible-playbook. `seen_dead`: others see at once that it has ended."""

    world: World
    run: str
    hosts: tuple[str, ...]
    take_over: bool = False
    lives: bool = True
    over: bool = False
    seen_dead: bool = True
    workers: dict[str, Steps] = field(default_factory=dict)
    results: list[Found] = field(default_factory=list)
    answer: Found = field(default_factory=dict)
    began: bool = False

    def __post_init__(self) -> None:
        self.world.playbooks.append(self)
        self.store = Store(self.world, self)
        ended = {p.run for p in self.world.playbooks}
        self.clock = record.Clock(
            lambda: self.world.fleet.clock,
            lambda: datetime.fromtimestamp(self.world.fleet.clock, UTC).strftime(FORMAT),
            self.sleep,
            lambda: self.lives,
            lambda process: process in ended and self._is_dead(process),
        )

    def _is_dead(self, process: str) -> bool:
        return any(p.run == process and not p.lives and p.seen_dead for p in self.world.playbooks)

    def sleep(self, seconds: float) -> None:
        self.world.at("wait", self)
        self.world.pass_time(seconds)

    # The playbooks

    def to_the_end(self, steps: Steps) -> Found:
        """Nobody else goes on meanwhile, but for what happens by itself."""
        for _number in range(SLICES * 10):
            try:
                next(steps)
            except StopIteration as end:
                self.over, self.answer = True, end.value
                return self.answer
            except Killed:
                self.lives, self.over, self.answer = False, True, {"killed": True}
                return self.answer
        raise Endless(f"{self.run} does not end: {self.world.text}")

    def main(self) -> Steps:
        """The playbook rolling_maintenance."""
        asked = {"hosts": [*self.hosts], "roll_id": self.run, "take_over": self.take_over}
        asked |= {"max_unavailable": str(self.world.most_out), "playbook": self.run}
        begun = yield from self.of_roll("begun", **asked)
        if begun.get("failed"):
            return begun
        self.began = True
        order = begun["order"]
        if begun["to_plan"]:
            planned = yield from self.of_roll("planned", hosts=order, seconds={})
            order = planned.get("order", order)
        self.workers = {name: self.host(name) for name in order}
        while self.workers:
            for name in [*self.workers]:
                if name in self.workers:  # another one may have let it go on, to its end
                    self.go_on(name)
                yield
        return (yield from self.of_roll("ended"))

    def go_on(self, name: str) -> None:
        """One step of the worker of this host."""
        try:
            next(self.workers[name])
        except StopIteration as end:
            del self.workers[name]
            self.results.append(end.value)

    def abort(self) -> Steps:
        """The playbook abort."""
        found = yield from self.of_roll("aborting", playbook=self.run)
        if found.get("failed") or found["answer"] != "go":
            return found
        for name in found["order"]:
            restored = yield from self.drain(name, Intent.ACTIVE)
            if restored.get("phase") == "Active":
                yield from self.of_roll("noted", roll_host=name, stage="given back")
        return (yield from self.of_roll("aborted"))

    # One host

    def host(self, name: str) -> Steps:
        """As in "Maintain one host" of the playbook, with its rescue."""
        found = yield from self._host(name)
        if found.get("failed") and found.get("error") != owner.RollTakenOver.__name__:
            yield from self.of_roll("noted", roll_host=name, stage="failed", why=str(found.get("msg")))
        return found

    def _host(self, name: str) -> Steps:
        roll = self.world.roll
        rebooting = roll is not None and name in roll.hosts and roll.hosts[name].stage is record.Stage.REBOOTING
        out = yield from self.step("out", name, work=True, rebooting=rebooting, healthy_within=PATIENCE)
        if "work" in out.get("next", ()) and not out.get("failed"):
            self.world.at(f"work {name}", self)
            self.world.act_on("work", name)
            if self.world.fails == (self.run, name):
                return {"failed": True, "msg": f"a task of the user fails on {name}"}
            self.world.work_on(name)
            self.world.pass_time(3.0)
            yield
            self.world.at(f"worked {name}", self)
            out = yield from self.step("empty", name, steps=out["steps"], turn=out["turn"])
        if out.get("failed") or out.get("answer") in ("done", "closed"):
            return out
        if "reboot" in out.get("next", ()):
            still = yield from self.step("reboots", name, turn=out["turn"])
            if still.get("failed"):
                return still
            yield from self.reboot(name) if still["next"] else ()
        return (yield from self.step("back", name, turn=out["turn"], healthy_within=PATIENCE))

    def reboot(self, name: str) -> Steps:
        """As ansible.builtin.reboot: ask it, then wait until it is another boot."""
        fleet, machine = self.world.fleet, self.world.fleet.machines[name]
        self.world.at(f"reboot {name}", self)
        self.world.act_on("reboot", name)
        before = machine.boot_id
        fleet.at(fleet.clock + GOES_DOWN, partial(self._goes_down, name))
        until = fleet.clock + PATIENCE
        while (machine.boot_id == before or not machine.up) and fleet.clock < until:
            yield
            self.sleep(2.0)
        return {}

    def _goes_down(self, name: str) -> None:
        if OURS not in self.world.fleet.machines[name].cordons:
            self.world.say(f"{name} goes down for its reboot, and is in service")
        self.world.fleet.crash(name, IS_DOWN)

    def step(self, state: str, name: str, **more: Any) -> Steps:
        """The action maintenance_host."""
        steps = acts(Asked(state, name, now=self.clock.now, reboot="always", **more))
        found: Found | None = None
        while True:
            try:
                act = next(steps) if found is None else steps.send(found)
            except StopIteration as end:
                return dict(end.value)
            if act.after:
                self.sleep(act.after)
            found = yield from self._carry_out(act, name)

    def _carry_out(self, act: Act, name: str) -> Steps:
        if act.kind == "roll":
            request = {key: value for key, value in act.options.items() if key != "state"}
            return (yield from self.of_roll(act.options["state"], **request))
        if act.kind == "preflight":
            yield
            self.world.at(f"preflight {name}", self)
            ready = self.world.fleet.machines[name].up and not self.world.not_ready
            return {"findings": [], "node_blockers": [] if ready else [f"{name} NodeNotReady it is down"]}
        if act.kind in ("drain", "restore"):
            return (yield from self.drain(name, Intent.DRAINED if act.kind == "drain" else Intent.ACTIVE))
        return {}

    def of_roll(self, state: str, **request: Any) -> Steps:
        """The action maintenance_roll: its module, until it is final."""
        reach_for, playbook = request.pop("reach_for", 0), request.pop("playbook", self.run)
        params = {key: spec.get("default") for key, spec in ROLL_SPEC.items()}
        params |= {**request, "state": state, "roll_run": self.run, "slice": 1, "playbook": playbook}
        host, until = params["roll_host"], self.clock.now() + reach_for
        while host and not self.world.fleet.machines[host].up and self.clock.now() < until:
            yield
            self.sleep(5.0)
        while True:
            yield
            try:
                found = answer_of(params, self.store, self.clock, partial(self._boot_id, host))
            except _ENDS_SLICE as exc:
                return {"failed": True, "msg": str(exc), "error": type(exc).__name__}
            if found["ended"] != "out_of_time":
                return dict(found)
            params["watch"] = {**found["watch"], "alone_for": 0.0}

    def _boot_id(self, host: str) -> str:
        self.world.at(f"read boot of {host}", self)
        return self.world.fleet.machines[host].boot_id

    # A drain or a restore, in slices: see run/service of libvirt

    def drain(self, name: str, intent: Intent) -> Steps:
        begun, run_id = False, f"{self.run}-{name}-{intent.value}-{self.world.count}"
        for _number in range(SLICES):
            yield
            request = Request(name, POLICY, intent, run_id, begun=begun)
            try:
                found = self._slice(request)
            except _ENDS_SLICE as exc:
                return {"failed": True, "msg": str(exc), "error": type(exc).__name__}
            begun = True
            if found["phase"] in ("Drained", "Active", "Blocked"):
                return {**found, "failed": found["phase"] == "Blocked", "vms": [*found["vms"].values()]}
        raise Endless(f"{intent.value} of {name} does not end")

    def _slice(self, request: Request) -> Found:
        node, drains = request.node, request.intent is Intent.DRAINED
        platform = ModelPlatform(self.world.fleet, node)
        platform.hook = partial(self._before, False)
        of_roll = owner.calling_off(
            lambda: self._check_host(node, request.begun, drains), partial(self._call_off, platform, request)
        )
        if not drains and not request.begun:
            self._seen(node, record.Stage.RESTORING)
        platform.hook = partial(self._before, of_roll)
        platform.sleep = self.sleep
        old = platform.load()
        check_owner(old, request)
        if old is None and not drains:
            release_left(platform)
            return {"phase": "Active", "vms": {}}
        engine = Engine(platform, POLICY, start(platform, request, old))

        def call_off(let_finish: bool) -> None:
            platform.hook = partial(self._before, False)
            engine.call_off(let_finish)

        outcome = owner.calling_off(lambda: engine.run(platform.now() + 4.0, longest_wait=1.0), call_off)
        found = plain(outcome)
        if found["phase"] == "Drained":
            self._seen(node, record.Stage.EMPTY)
        return found if outcome.ended is SliceEnd.FINAL else {**found, "phase": "under way"}

    def _before(self, of_roll: bool, what: str) -> None:
        """Before each read and write of a drain. Only the writes are points."""
        if not what.startswith("write"):
            self.world.pass_time(0.005)
            return
        self.world.at(what, self)
        if not of_roll:
            return
        try:
            owner.check_write(self.store, self.run)
        except owner.RollUnreadable:
            self._believed()

    # What libvirt's `records/roll` does where most of the quorum hosts are silent: those that answer are
    # believed, and what was seen is written again. On KubeVirt the client asks again.

    def _believed(self) -> record.Roll | None:
        roll = self.world.roll
        return roll and owner.check_run(roll, self.run, record.State.ABORTING)

    def _check_host(self, node: str, begun: bool, drains: bool) -> bool:
        try:
            return owner.check_host(self.store, node, self.run, self.clock, begun, drains)
        except owner.RollUnreadable:
            why = owner.refusal(self.world.roll, node, self.run, drains)
            if why:
                raise owner.RollRefused(why) from None
            return self.world.roll is not None and self.world.roll.run == self.run

    def _seen(self, node: str, stage: record.Stage) -> None:
        until = self.clock.now() + record.NOTE_PATIENCE
        while True:
            try:
                return stages.note_seen(self.store, node, self.run, stage, self.clock)
            except owner.RollUnreadable:
                roll = self.world.roll
                if roll is None or roll.run != self.run or self.clock.now() >= until:
                    return None
                self.sleep(3.0)

    def _call_off(self, platform: ModelPlatform, request: Request, let_finish: bool) -> None:
        old = platform.load()
        check_owner(old, request)
        if old is not None and request.begun:
            Engine(platform, POLICY, start(platform, request, old)).call_off(let_finish)
