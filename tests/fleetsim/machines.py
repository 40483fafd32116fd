"""What a model fleet is made of: hosts, their domains, migrations and what shall become of them.

MiB, MiB/s, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    ACTIVE_STATES,
    VM,
    Mode,
    Outcome,
    Reservation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Attempt
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason


class Stage(str, Enum):
    """How far a migration is. STARTING: its holder lives, the hypervisor has no job yet."""

    STARTING = "starting"
    PRECOPY = "precopy"
    POSTCOPY = "postcopy"
    BROKEN = "broken"
    SWITCHING = "switching"


@dataclass(frozen=True)
class Fate:
    """What shall happen to one migration. Nothing set: it succeeds.

    fail_at: the part of its memory after which it fails. hang: no byte moves.
    post_copy: it goes post-copy half way. breaks: its post-copy breaks; heals_after: and goes on.
    left_paused: it fails as it is switched over, and who watches it cannot let the VM run on.
    leftover: the source keeps a definition. refused_by: targets that refuse it, for `refusal`.
    """

    fail_at: float | None = None
    hang: bool = False
    post_copy: bool = False
    breaks: bool = False
    heals_after: float | None = None
    left_paused: bool = False
    leftover: bool = False
    refused_by: tuple[str, ...] = ()
    refusal: Reason = Reason.NameTaken


@dataclass
class Domain:
    """One VM on one host. `spec`: what does not change. shutdown_takes None: it never ends.

    `ask_takes`: how long a request to stop waits until the guest has it, at `asked_at`.
    `save_takes`: how long its memory goes to disk. `save_fails`: and then it does not fit.
    """

    spec: VM
    state: State = State.RUNNING
    persistent: bool = True
    autostart: bool = False
    marked: bool = False
    managed_save: bool = False
    dirty: float = 0.0
    shutdown_takes: float | None = 3.0
    off_at: float | None = None
    ask_takes: float = 0.0
    asked_at: float | None = None
    instance: str = "1"  # another one with each start
    save_takes: float = 0.0
    save_fails: bool = False
    save_waits: float = 0.0  # for others to be saved
    save_begins: float | None = None
    save_ends: float | None = None

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES


@dataclass
class Move:
    """One migration. `held`: a holder enforces its deadlines and will tell how it ended.

    `run_id`, `attempt`: whose it is, in a record. `watched`: its holder did not begin it.
    `ours`: that holder is ours. `asked`: it was asked for by us, not only adopted.
    `suspended`: the holder paused the VM, and resumes it if it stays. `deaf`: which fails.
    """

    vm: str
    source: str
    target: str
    attempt: int
    settings: MigrationSettings
    fate: Fate
    stage: Stage = Stage.STARTING
    held: bool = True
    ours: bool = True
    asked: bool = True
    run_id: str = ""
    watched: bool = False
    suspended: bool = False
    deaf: bool = False
    since: float = 0.0  # of this stage
    total: float = 0.0
    remaining: float = 0.0
    mode: Mode = Mode.PRE_COPY

    def is_another(self, attempt: Attempt) -> bool:
        """Did its holder begin it for another attempt? An adopted one is whatever is under way."""
        if not (self.held and self.ours) or self.watched or attempt.adopted:
            return False
        return (self.run_id, self.attempt) != (attempt.run_id, attempt.number)


@dataclass
class Machine:
    """One host. `other_*`: load that is known only as sums."""

    name: str
    capacity_mib: int
    reserve_mib: int = 0
    link: float = 110.0
    boot: int = 1
    booted_at: float = 0.0
    up: bool = True
    reachable: bool = True
    domains: dict[str, Domain] = field(default_factory=dict)
    claims: dict[tuple[str, str], Reservation] = field(default_factory=dict)
    slots: set[tuple[str, str]] = field(default_factory=set)
    slot_of: dict[tuple[str, str], Reservation] = field(default_factory=dict)  # for which claim
    watched: dict[str, tuple[float, str]] = field(default_factory=dict)  # see owners.Watch
    cordons: set[str] = field(default_factory=set)
    record: str | None = None
    definitions: dict[str, Domain] = field(default_factory=dict)
    outcomes: dict[tuple[str, int, str], Outcome] = field(default_factory=dict)
    stop_errors: dict[str, Finding] = field(default_factory=dict)
    other_mib: int = 0
    other_vms: int = 0
    other_inbound: int = 0
    other_groups: dict[str, int] = field(default_factory=dict)
    roll_rank: int | None = None
    roll_done: bool = False
    expects: frozenset[str] = frozenset()

    @property
    def boot_id(self) -> str:
        return f"{self.name}-boot-{self.boot}"
