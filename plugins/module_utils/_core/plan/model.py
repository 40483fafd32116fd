"""The words of the plan of a roll: what goes in, what comes out. Plain data.

Memory in MiB, CPU in thousandths of one, durations in seconds, times from the beginning of the
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..model.observation import VM, Node
from ..model.policy import Policy
from ..reasons.reason import Platform
from .transfers import Speeds


@dataclass(frozen=True)
class Budget:
    """At most `at_once` of these VMs (UUIDs) may be moved or stopped in one step.

    `stops_only`: a VM that is migrated does not count. `never`: why it can allow no stop at all, in
    words. `left`: stops that it allows at the moment; None: not known.
    """

    name: str
    vms: frozenset[str]
    at_once: int = 1
    stops_only: bool = False
    never: str = ""
    left: int | None = None


@dataclass(frozen=True)
class Quota:
    """One that has no room for another pod of these VMs (UUIDs), and `why` in words."""

    name: str
    vms: frozenset[str]
    why: str


@dataclass(frozen=True)
class RollRequest:
    """A fleet and what is to be done with it.

    nodes: every host. vms: every VM, by UUID. todo: hosts of the roll, in the order of the list.
    max_unavailable: hosts that may be out at once. max_unavailable_per: the same of hosts with the same value of a
    label, the rack for example; groups: host -> label -> value. dirty: UUID -> MiB/s. sizes: UUID -> MiB that a
    migration sends if nothing is written meanwhile; else the VM's memory. hot: UUID -> MiB that it
    writes over and over, where that was measured. platform: whose words a refusal has. move_back:
    after the roll VMs go back to where they were.
    """

    nodes: Mapping[str, Node]
    vms: Mapping[str, VM]
    todo: tuple[str, ...]
    policy: Policy = field(default_factory=Policy)
    max_unavailable: int = 1
    max_unavailable_per: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    speeds: Speeds = field(default_factory=Speeds)
    dirty: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    hot: Mapping[str, float] = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()
    quotas: tuple[Quota, ...] = ()
    platform: Platform = Platform.LIBVIRT
    move_back: bool = False


@dataclass(frozen=True)
class PlannedMove:
    """The planned way of one VM in one step.

    way: migrate, shutdown, save, cold_migrate, external, off; swap: moved out of the way of
    another one, before the step. why: who decided, and the reason when it is not simply migrated.
    start, duration None: not to be foreseen. pause_ms None: it stays off, or is not known.
    """

    vm: str
    name: str
    way: str
    why: str
    source: str
    target: str
    order: int
    memory_mib: int
    start: float | None = None
    duration: float | None = None
    pause_ms: float | None = None
    sent_mib: float = 0.0
    reason: str = ""
    swap_for: str = ""


@dataclass(frozen=True)
class OwnersMove:
    """A VM that its owner has to move (External). place: where room is counted for it."""

    vm: str
    name: str
    host: str
    place: str
    memory_mib: int


@dataclass(frozen=True)
class PlanStep:
    """Hosts that are emptied together. spare_mib: room that is left on all other hosts while they
    are out; largest_mib: on the one that has most of it, which is `largest_on`. fits_if: what
    owners have to move, or the step does not fit. spare_cpu_milli None: CPU is not counted."""

    number: int
    hosts: tuple[str, ...]
    moves: tuple[PlannedMove, ...]
    duration: float
    spare_mib: int
    largest_mib: int
    largest_on: str
    second_moves: int = 0
    begins: float = 0.0
    fits_if: tuple[OwnersMove, ...] = ()
    spare_cpu_milli: int | None = None


@dataclass(frozen=True)
class Refusal:
    """Why the roll does not fit. `sentence` says it all; the rest is for machines. `others`: what else does not, a
    sentence each: VMs of this host with another reason, and the other hosts that are left."""

    step: int
    host: str
    vm: str
    name: str
    memory_mib: int
    missing_mib: int | None
    sentence: str
    reason: str
    detail: str
    cpu_milli: int = 0
    missing_cpu_milli: int | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The whole roll. `refusal` None: every step was played through on the model and fits. `stops`: of VMs that
    stay where they are. `back`: of VMs that go back to where they were after the last step, which takes
    `back_seconds`; `duration` is of all."""

    steps: tuple[PlanStep, ...]
    refusal: Refusal | None
    left: tuple[str, ...]
    moves: int
    vms_moved: int
    duration: float
    warnings: tuple[str, ...] = ()
    stops: int = 0
    back: tuple[PlannedMove, ...] = ()
    back_seconds: float = 0.0

    @property
    def fits(self) -> bool:
        return self.refusal is None

    @property
    def moves_per_vm(self) -> float:
        return round(self.moves / self.vms_moved, 3) if self.vms_moved else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "fits": self.fits,
            "refusal": None if self.refusal is None else asdict(self.refusal),
            "fits_if": [asdict(move) for step in self.steps for move in step.fits_if],
            "steps": [_step(step) for step in self.steps],
            "hosts_left": list(self.left),
            "moves": self.moves,
            "vms_moved": self.vms_moved,
            "moves_per_vm": self.moves_per_vm,
            "stops": self.stops,
            "moves_back": [_move(move) for move in self.back],
            "back_duration": round(self.back_seconds, 1),
            "duration": round(self.duration, 1),
            "warnings": list(self.warnings),
        }


def _step(step: PlanStep) -> dict[str, Any]:
    row = asdict(step)
    row["hosts"] = list(step.hosts)
    row["duration"], row["begins"] = round(step.duration, 3), round(step.begins, 3)
    row["moves"] = [_move(move) for move in step.moves]
    row["fits_if"] = [asdict(move) for move in step.fits_if]
    return row


def _move(move: PlannedMove) -> dict[str, Any]:
    row = asdict(move)
    for key in ("start", "duration", "sent_mib"):
        if row[key] is not None:
            row[key] = round(row[key], 3)
    return row
