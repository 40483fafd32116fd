"""What is run: small fleets with VMs of each kind, and the commands on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    OnNotMigratable,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Hooks,
    Limits,
    MigrationSettings,
    Policy,
    Rule,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Fate, Machine, Move
from perturb.play import Command, Play

POLICY = Policy(
    limits=Limits(cluster=3, outbound=2, inbound=2),
    migration=MigrationSettings(completion_timeout_per_gib=60, progress_timeout=20),
    max_attempts=3,
    backoff=2.0,
    allow_stop=True,
    shutdown_timeout=15.0,
    external_timeout=30.0,
    unknown_timeout=15.0,
    pending_timeout=40.0,
    drain_timeout=200.0,
)
# What is `web` has a hook before and one after.
_WEB = Rule("web", lambda document: bool(document.get("web")), hooks=Hooks("out.yml", "in.yml"))
HOOKED = replace(POLICY, rules=(_WEB,))
_OF_SPEC = ("declared_strategy", "migratable", "findings", "document", "stopping")
DEVICE = (Finding(Reason.HostDeviceNotLiveMigratable, "a card"),)
FIXED: dict[str, Any] = {"migratable": False, "findings": DEVICE}
DRAIN, RESTORE = Command("drained"), Command("active")


@dataclass(frozen=True)
class Scenario:
    """`vms`: on host a. `commands`: in order; from `begin` on they are perturbed, those before it have made the fleet.
    `cut`: at this point the command is killed, which is no fault but the scenario. `seconds`: of a slice."""

    name: str
    vms: tuple[dict[str, Any], ...]
    commands: tuple[Command, ...] = (DRAIN,)
    policy: Policy = POLICY
    hosts: str = "ab"
    fate: Fate = field(default_factory=Fate)
    external: bool = False
    begin: int = 0
    cut: int = 0
    seconds: float = 4.0
    carried: bool = False  # see Play
    busy: float = 0.0  # s, for which others have all slots

    def play(self, **more: Any) -> Play:
        machines = [Machine(name, 16384, link=400.0) for name in self.hosts]
        for number, about in enumerate(self.vms, 1):
            uuid = f"u{number}"
            spec = {k: about[k] for k in about if k in _OF_SPEC}
            rest = {k: about[k] for k in about if k not in spec}
            machines[0].domains[uuid] = Domain(VM(uuid, f"vm{number}", "a", memory_mib=1024, **spec), **rest)
        fleet = Fleet(machines)
        fleet.abort_takes = 0.3
        if self.busy:
            _take_all_slots(fleet, self.policy.limits.cluster, self.busy)
        fate = self.fate
        fleet.fate = lambda _vm, attempt: fate if attempt == 1 else Fate()
        more["tick"] = owner_moves if self.external else None
        return Play(fleet, self.policy, cut=self.cut, seconds=self.seconds, carried=self.carried, **more)


def _take_all_slots(fleet: Fleet, most: int, seconds: float) -> None:
    taken = {(f"other{number}", "z") for number in range(most)}
    for machine in fleet.machines.values():
        machine.slots |= taken
        fleet.at(fleet.clock + seconds, lambda machine=machine: machine.slots.difference_update(taken))


def owner_moves(play: Play) -> None:
    """The owner of an External VM migrates it once it is marked, some seconds later."""
    fleet = play.fleet
    for uuid, domain in fleet.machines["a"].domains.items():
        if domain.marked and domain.state is State.RUNNING and uuid not in fleet.moves:
            domain.marked = False
            move = Move(uuid, "a", "b", 1, MigrationSettings(), Fate(), asked=False, held=False)
            move.ours = False
            fleet.at(fleet.clock + 3.0, lambda move=move: _migrate(fleet, move))


def _migrate(fleet: Fleet, move: Move) -> None:
    domain = fleet.machines[move.source].domains.get(move.vm)
    if domain is not None and domain.state is State.RUNNING:
        fleet.migrate(move)


def on(kind: str, **more: Any) -> Policy:
    return replace(POLICY, on_not_migratable=OnNotMigratable(kind), **more)


LIVE: dict[str, Any] = {"autostart": True}
TRANSIENT: dict[str, Any] = {"persistent": False}
NONE: dict[str, Any] = {"declared_strategy": "None", "autostart": True}
IF_POSSIBLE: dict[str, Any] = {"declared_strategy": "LiveMigrateIfPossible", **FIXED}
OFF: dict[str, Any] = {"state": State.SHUTOFF, "autostart": True}
EXTERNAL: dict[str, Any] = {"declared_strategy": "External"}
DEAF: dict[str, Any] = {**NONE, "shutdown_takes": None}  # its guest ignores the power button
LATE: dict[str, Any] = {"shutdown_takes": 25.0}  # its guest acts when nobody waits for it any more

_KINDS: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any]]] = {
    "live": ((LIVE, TRANSIENT), {}),
    "postcopy": ((LIVE,), {"fate": Fate(post_copy=True)}),
    "leftover": ((LIVE,), {"fate": Fate(leftover=True)}),
    "fails_first": ((LIVE,), {"fate": Fate(fail_at=0.5)}),
    "stop": ((NONE, {**NONE, "persistent": False, "autostart": False}), {}),
    "stop_shown": (({**NONE, "stopping": False}, {**NONE, "stopping": False, "shutdown_takes": 25.0}), {}),
    "if_possible": ((IF_POSSIBLE,), {}),
    "save": (({**FIXED, "autostart": True, "save_takes": 5.0},), {"policy": on("save")}),
    "cold": (({**FIXED, "autostart": True}, {**FIXED, "persistent": False}), {"policy": on("cold_migrate")}),
    "late": (({**NONE, **LATE},), {}),
    "late_cold": (({**FIXED, **LATE, "autostart": True},), {"policy": on("cold_migrate")}),
    # One move takes longer than any of them may wait for its turn.
    "long": ((LIVE,), {"fate": Fate(fail_at=0.9), "policy": replace(POLICY, pending_timeout=2.0)}),
    "long_cold": (({**FIXED, "shutdown_takes": 4.0},), {"policy": on("cold_migrate", pending_timeout=2.0)}),
    "external": ((EXTERNAL, LIVE), {"external": True}),
    "off": ((OFF,), {}),
    "off_stop": (({**OFF, "declared_strategy": "None"},), {}),
    "off_cold": (({**OFF, **FIXED},), {"policy": on("cold_migrate")}),
    "off_moves": ((OFF,), {"policy": replace(POLICY, move_inactive=True)}),
}


_TELLING = (
    "migrate",
    "shutdown",
    "save",
    "cold_define",
    "cold_undefine",
    "cold_start",
    "finish",
    "mark",
    "clean_source",
)


def _scenarios() -> Iterator[Scenario]:
    """Of each kind: there and back; a drain that is cut after one of its acts, and the restore; one VM's migration."""
    for kind, (vms, more) in _KINDS.items():
        round_trip = Scenario(f"round-{kind}", vms, (DRAIN, RESTORE), **more)
        yield round_trip
        for act, at in _acts(round_trip).items():
            after = 2 if act == "migrate" else 1  # in it the reservation is read once more
            yield replace(round_trip, name=f"abort-{kind}-{act}", begin=1, cut=at + after)
        yield Scenario(f"check-{kind}", vms, (replace(DRAIN, check=True),), **more)
    forced = (
        (DEAF, {**DEAF, "persistent": False, "autostart": False, "ask_takes": 20.0}),
        replace(POLICY, force_stop=True),
    )
    not_saved = ({**FIXED, "save_takes": 5.0, "save_fails": True},), on("save", force_stop=True)
    for kind, (vms, policy) in {"force": forced, "force_save": not_saved}.items():
        yield Scenario(f"drain-{kind}", vms, (DRAIN,), policy)
    for kind in ("live", "postcopy", "leftover", "fails_first", "cold", "late_cold"):
        vms, more = _KINDS[kind]
        one, back = Command("migrated", only="u1"), Command("active", only="u1")
        alone = Scenario(f"one-{kind}", vms, (one,), **more)
        yield alone
        for act in {"live": ("migrate",), "cold": ("shutdown",), "late_cold": ("shutdown",)}.get(kind, ()):
            at = _acts(alone)[act] + (2 if act == "migrate" else 1)
            yield replace(alone, name=f"abort-one-{kind}-{act}", commands=(one, back), begin=1, cut=at)
    (saved,), more = _KINDS["save"]
    yield Scenario("takeover-save", (saved, {**saved, "save_waits": 5.0}), (DRAIN,), seconds=1.0, **more)
    yield Scenario("drain-left_paused", (LIVE,), (DRAIN,), fate=Fate(left_paused=True))
    for kind in ("live", "stop", "cold", "late", "late_cold"):
        vms, more = _KINDS[kind]
        yield Scenario(f"takeover-{kind}", vms, (DRAIN,), seconds=1.0, **more)
    for kind in ("live", "stop", "cold"):
        vms, more = _KINDS[kind]
        yield Scenario(f"again-{kind}", vms, (DRAIN, DRAIN), begin=1, **more)
        drain_b, restore_b = Command("drained", "b"), Command("active", "b")
        yield Scenario(f"roll-{kind}", vms, (DRAIN, RESTORE, drain_b, restore_b), **more)


def _hooked() -> Iterator[Scenario]:
    """VMs with hooks: there and back; cut after the tasks of a `before`; a restore that was cut when
    it had asked. And a VM whose `before` is due when nothing else is, in a run that is handed its record."""
    web: dict[str, Any] = {"document": {"web": True}}
    whole = Scenario("round-hooked", ({**LIVE, **web}, {**NONE, **web}), (DRAIN, RESTORE), HOOKED)
    yield whole
    yield replace(whole, name="abort-hooked-before", begin=1, cut=_acts(whole)["before"] + 1)
    asks = _acts(whole, 2)["after"]
    yield replace(whole, name="resumed-hooked", commands=(DRAIN, RESTORE, RESTORE), begin=2, cut=asks)
    yield Scenario("round-handed", ({**LIVE, **web},), (DRAIN, RESTORE), HOOKED, carried=True, busy=2.5)


def _acts(scenario: Scenario, commands: int = 1) -> dict[str, int]:
    """The acts and tasks of its first commands on VMs that say how far it is -> number of the last point of each; and
    of the last one at which a VM moves."""
    play = scenario.play(recording=True)
    for command in scenario.commands[:commands]:
        play.command(command)
    words = [(point.what.split(), number) for number, point in enumerate(play.points, 1)]
    said = [(w, n) for w, n in words if w[0] == "task" or (w[0] == "write" and w[1] in _TELLING)]
    found = {what[1]: number for what, number in said}
    moving = [number for number, point in enumerate(play.points, 1) if point.moving]
    return {**found, **({"moving": moving[-1]} if moving else {})}


SCENARIOS: list[Scenario] = [*_scenarios(), *_hooked()]
BY_NAME: dict[str, Scenario] = {scenario.name: scenario for scenario in SCENARIOS}
make: Callable[[str], Scenario] = BY_NAME.__getitem__
