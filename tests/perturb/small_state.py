"""A state of the small world: the fleet, the record on it, and what the process of a run remembers; and its digest.

Two states are one if they differ in names of runs, boots and starts, of which only is read whether they are the same;
in texts for people; and in times that lie in the same steps of the policy (`AGES`).
"""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import start
from fleetsim.copies import copied
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Fate, Machine
from fleetsim.platform import ModelPlatform
from perturb.request import Request, release_left
from perturb.scenarios import FIXED, on

POLICY = on("cold_migrate")
KINDS: dict[str, dict[str, Any]] = {
    "live": {},
    "stop": {"declared_strategy": "None"},
    "cold": FIXED,
    "external": {"declared_strategy": "External"},
}
# s: older than this, or not yet. Back-off, shutdown and unknown, owner, pending, drain, and the engine's last resort.
AGES = (2.0, 15.0, 30.0, 40.0, 200.0, 335.0)
NOT_YET: tuple[Any, ...] = (None, None, {})
_TIMES = {"started", "stop_started", "stop_sent", "stop_asked", "waiting_since", "calm_since", "unread_since"}
_TIMES |= {"refused_since", "ended_at", "detaching_since"}
_NAMES = {"run_id", "stop_run", "restarted_run"}
_BOOTS = {"boot_id", "seen_boot"}
_TEXTS = {"message", "act_message", "back_message", "requester", "playbook"}
_NOT_STATE = {"wall", "started_wall", "blocked", "off_since", "on_since", "seconds", "processed", "runs"} | _TEXTS


def _fate(_vm: str, _attempt: int) -> Fate:
    return Fate()


def _quiet(*_any: Any) -> None:
    return None


_READ: dict[str, NodeRecord] = {}  # what was written or read last


def _keep(text: str, record: NodeRecord) -> NodeRecord:
    if len(_READ) > 4096:
        _READ.clear()
    _READ[text] = record
    return record


class Calm(ModelPlatform):
    """Reads and writes take a moment. `seen`: the fleet as it was before each write, for who wants to kill there."""

    def __init__(self, fleet: Fleet, node: str, seen: list[Fleet] | None = None) -> None:
        super().__init__(fleet, node)
        self.seen = seen
        self.hook = self._count

    def _count(self, what: str) -> None:
        fleet = self.fleet
        until = fleet.clock + 0.005
        if fleet.next_event() > until + 0.001:  # as `advance` does it, where nothing falls due
            fleet._copy(0.005)
            fleet.clock = until
        else:
            fleet.advance(until)
        if self.seen is not None and what.startswith("write"):
            self.seen.append(copied(self.fleet))

    def load(self) -> NodeRecord | None:
        self.hook("read record")
        text = self.own.record
        if text is None:
            return None
        return (_READ.get(text) or _keep(text, NodeRecord.from_json(text))).copy()

    def save(self, record: NodeRecord) -> None:
        super().save(record)
        _keep(self.own.record or "", record.copy())


@dataclass
class World:
    """`number`: of the run that asks, or asks next. `memory`: what the engine remembers between two steps."""

    fleet: Fleet
    intent: str = "drained"
    begun: bool = False
    number: int = 1
    memory: tuple[Any, ...] = NOT_YET
    kinds: tuple[str, str] = ("live", "stop")

    def copy(self, fleet: Fleet | None = None) -> World:
        before, empty, refused = self.memory
        memory = (before, empty, {uuid: set(met) for uuid, met in refused.items()})
        return World(fleet or copied(self.fleet), self.intent, self.begun, self.number, memory, self.kinds)

    def step(self, seen: list[Fleet] | None = None) -> Slice | None:
        """None: there was nothing to restore."""
        platform = Calm(self.fleet, "a", seen)
        request = Request("a", POLICY, Intent(self.intent), f"r{self.number}", begun=self.begun)
        old = platform.load()
        if old is None and request.intent is Intent.ACTIVE:
            release_left(platform)
            self.end()
            return None
        engine = Engine(platform, POLICY, start(platform, request, old))
        engine._before, engine._empty, engine._refused = self.memory
        outcome = engine.step()
        self.begun = True
        self.memory = (engine._before, engine._empty, engine._refused)
        if outcome.ended is SliceEnd.FINAL:
            engine._save()
            self.end()
        return outcome

    def end(self) -> None:
        """Of the process. Whoever asks next is another run."""
        self.begun, self.memory = False, NOT_YET
        self.number += 1

    def wait(self, seconds: float) -> None:
        """Until something happens, or for so long."""
        until = min(self.fleet.clock + seconds, self.fleet.next_event())
        self.fleet.advance(max(until, self.fleet.clock) + 0.001)

    def key(self) -> bytes:
        before, empty, refused = self.memory
        memory = (
            None if before is None else sorted((uuid, where.value) for uuid, where in before.items()),
            empty is not None,
            sorted((uuid, sorted(met)) for uuid, met in refused.items() if met),
        )
        # Version 0 writes the same for the same values, whatever objects they share.
        text = marshal.dumps((_facts(self), memory, self.kinds, self.intent, self.begun), 0)
        return hashlib.blake2b(text, digest_size=12).digest()


class _Names:
    """Names by the order in which they are met."""

    def __init__(self, *first: str) -> None:
        self._known = {"": 0}
        for name in first:
            self.of(name)

    def of(self, name: str) -> int:
        return self._known.setdefault(name, len(self._known))


def _age(seconds: float) -> int:
    """-1: a time that has not come, as those of another boot."""
    return sum(seconds > age for age in AGES) if seconds >= 0 else -1


def _facts(world: World) -> list[Any]:
    fleet = world.fleet
    runs = _Names(f"r{world.number}") if world.begun else _Names()
    starts: dict[str, _Names] = {}
    told: set[tuple[str, int, str]] = set()  # attempts whose outcomes somebody may still read
    facts: list[Any] = []
    for name, machine in fleet.machines.items():
        if machine.record is not None:
            now = fleet.clock - machine.booted_at
            known = _record(machine.record)
            boots = _Names(machine.boot_id)
            facts += (name, known.rest, [_age(now - when) for when in known.times])
            facts += [runs.of(one) for one in known.runs]
            facts += [boots.of(one) for one in known.boots]
            for uuid, instance in known.starts:
                starts[uuid] = _Names(instance)
            told |= known.attempts
    for uuid, move in sorted(fleet.moves.items()):
        facts += (uuid, move.source, move.target, move.stage.value, move.mode.value, move.held, move.ours, move.asked)
        facts += (move.watched, move.attempt, runs.of(move.run_id), _age(fleet.clock - move.since), move.remaining > 0)
    for name, machine in fleet.machines.items():
        facts += (name, machine.up, machine.reachable, sorted(machine.cordons), sorted(machine.watched))
        for kept in (machine.domains, machine.definitions):
            facts.append([_domain(uuid, kept[uuid], starts) for uuid in sorted(kept)])
        facts += (sorted(machine.claims), sorted(machine.slots), sorted(_slots(fleet, machine)))
        for key in sorted(told.intersection(machine.outcomes)):
            outcome = machine.outcomes[key]
            reason = outcome.finding and outcome.finding.reason.value
            facts += (key[0], key[1], runs.of(key[2]), outcome.ok, reason, outcome.at)
        facts.append(sorted((uuid, finding.reason.value) for uuid, finding in machine.stop_errors.items()))
    return facts


def _domain(uuid: str, one: Domain, starts: dict[str, _Names]) -> tuple[Any, ...]:
    spec = one.spec
    names = starts.get(uuid)
    if names is None:
        names = starts[uuid] = _Names()
    return (
        *(uuid, spec.name, spec.memory_mib, spec.declared_strategy, one.state.value, names.of(one.instance)),
        *(one.persistent, one.autostart, one.marked, one.managed_save),
        *(one.off_at is None, one.asked_at is None, one.save_begins is None, one.save_ends is None),
    )


def _slots(fleet: Fleet, machine: Machine) -> Iterator[tuple[Any, ...]]:
    """Those whose claim is there."""
    for key in machine.slots:
        claim = machine.slot_of.get(key)
        if claim is not None and fleet.machines[claim.target].claims.get(key) is claim:
            yield key


@dataclass
class _Record:
    """What the text of a record says. `rest`: what is neither a time nor a name of a run, a boot or a start."""

    times: list[float]
    runs: list[str]
    boots: list[str]
    starts: list[tuple[str, str]]
    attempts: set[tuple[str, int, str]]
    rest: str = ""


@lru_cache(maxsize=4096)
def _record(text: str) -> _Record:
    found = _Record([], [], [], [], set())
    raw = json.loads(text)
    found.rest = repr(_plain(raw, found))
    for uuid, entry in raw["vms"].items():
        found.starts.append((uuid, entry["stop_instance"]))
        found.attempts |= {(uuid, one["number"], one["run_id"]) for one in entry["attempts"]}
    return found


def _plain(value: Any, found: _Record) -> Any:
    if isinstance(value, list):
        return [_plain(one, found) for one in value]
    if not isinstance(value, dict):
        return value
    rest = []
    for key, one in value.items():
        if key in _TIMES:
            rest.append(bool(one))
            found.times += [one] if one else []
        elif key == "tries":
            rest.append([(name, count) for name, (count, _when) in one.items()])
            found.times += [when for _count, when in one.values()]
        elif key in _NAMES:
            found.runs.append(one)
        elif key in _BOOTS:
            found.boots.append(one)
        elif key in ("owner_asked", "stop_instance"):  # only whether; the start itself is in `starts`
            rest.append(bool(one))
        elif key not in _NOT_STATE:
            rest.append((key, _plain(one, found)))
    return rest


def first(one: str = "live", other: str = "stop") -> World:
    """Two hosts, and two VMs of these kinds on the first one."""
    machines = [Machine("a", 16384, link=400.0), Machine("b", 16384, link=400.0)]
    for uuid, kind in (("u1", one), ("u2", other)):
        machines[0].domains[uuid] = defined(uuid, kind)
    fleet = Fleet(machines)
    fleet.fate, fleet.on_change = _fate, _quiet
    return World(fleet, kinds=(one, other))


def defined(uuid: str, kind: str) -> Domain:
    vm = VM(uuid, uuid.replace("u", "vm"), "a", memory_mib=1024, **KINDS[kind])
    return Domain(vm, autostart=True)
