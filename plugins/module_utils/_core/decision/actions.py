"""Actions and decisions: what `decide` hands to a platform."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..model.observation import MigrationMethod
from ..model.policy import MigrationSettings
from ..model.record import Hook, NodeRecord
from ..reasons.reason import Finding
from .reconcile import Situation


class Do(str, Enum):
    """The acts that a platform can carry out. Each one adopts what is already so."""

    CORDON = "cordon"
    UNCORDON = "uncordon"  # our own cordon; one of others stays
    FORGET = "forget"  # remove the record and its copies: nothing is ours any more
    MIGRATE = "migrate"  # claimed first; the record is written before the call
    WATCH = "watch"  # a job is under way and nobody enforces its deadlines
    ABORT = "abort"
    RELEASE = "release"  # give the reservation back
    FINISH = "finish"  # at the target: autostart, metadata
    MARK = "mark"  # EvictionRequested, for an owner outside (External)
    UNMARK = "unmark"
    CLEAN_SOURCE = "clean_source"  # it runs there; remove the definition left here
    SHUTDOWN = "shutdown"  # with a target: a cold migration begins, claimed first
    FORCE_OFF = "force_off"
    SAVE = "save"
    UNSAVE = "unsave"  # one that has been ordered and has not begun
    COLD_DEFINE = "cold_define"  # claimed first
    COLD_UNDEFINE = "cold_undefine"
    COLD_START = "cold_start"
    COLD_WITHDRAW = "cold_withdraw"
    COLD_RETURN = "cold_return"  # define here again what its target could not start
    START = "start"
    RESUME = "resume"  # what our migration left paused
    AUTOSTART_OFF = "autostart_off"
    AUTOSTART_ON = "autostart_on"


ENDS = frozenset({Do.SHUTDOWN, Do.FORCE_OFF, Do.SAVE})


@dataclass(frozen=True)
class Action:
    """One thing to do. `vm` is a UUID, empty for actions on the node."""

    do: Do
    node: str
    vm: str = ""
    name: str = ""
    target: str = ""
    attempt: int = 0
    memory_mib: int = 0
    method: MigrationMethod = MigrationMethod.LIVE
    persistent: bool = True
    autostart: bool = False
    priority: int = 0
    settings: MigrationSettings | None = None

    @property
    def needs_claim(self) -> bool:
        """Will it put the VM on the target? Then room is reserved before it is done."""
        cold = self.do in (Do.SHUTDOWN, Do.COLD_DEFINE, Do.COLD_START) and self.target != ""
        return self.do is Do.MIGRATE or cold


@dataclass(frozen=True)
class PendingHook:
    """A hook that the caller has to answer. `vm` is a UUID; `target`: where it goes or went."""

    hook: Hook
    vm: str
    target: str = ""


class NodePhase(str, Enum):
    """Phase of a node. Final: DRAINED (with a certificate), BLOCKED, CORDONED, ACTIVE."""

    DRAINING = "Draining"
    EMPTY = "Empty"  # looks drained; the certificate needs one more full read
    DRAINED = "Drained"
    BLOCKED = "Blocked"
    CORDONED = "Cordoned"
    RESTORING = "Restoring"
    MIGRATING = "Migrating"
    MIGRATED = "Migrated"
    ACTIVE = "Active"


FINAL = frozenset({NodePhase.DRAINED, NodePhase.BLOCKED, NodePhase.CORDONED, NodePhase.ACTIVE} | {NodePhase.MIGRATED})


@dataclass
class Decision:
    """`records` are new objects; `decide` never changes what it was given.

    `judged`: UUID -> which row of the verdict table decided, and from what it was read.
    `read_again`: what was read must be read once more, at once, to be believed.
    `pending_hooks`: what
    has to be answered before it can go on.
    """

    records: dict[str, NodeRecord]
    phases: dict[str, NodePhase]
    actions: list[Action] = field(default_factory=list)
    situations: dict[str, Situation] = field(default_factory=dict)
    judged: dict[str, str] = field(default_factory=dict)
    node_findings: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    pending_hooks: list[PendingHook] = field(default_factory=list)
    read_again: bool = False

    @property
    def final(self) -> bool:
        return all(phase in FINAL for phase in self.phases.values())
