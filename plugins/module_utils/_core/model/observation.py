"""The words of the core: Node, VM, Migration, Observation. Plain data, no behaviour to speak of.

Memory is in MiB, CPU in thousandths of one, sizes in bytes, durations in seconds unless the name
says otherwise.
Times are seconds of the observed host's boot-time clock; wall time is only for people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..reasons.reason import Finding, Platform
from .constraints import NO_CONSTRAINTS, Constraints, Taint


class EvictionStrategy(str, Enum):
    """KubeVirt's eviction strategies (kubevirt.io/api/core/v1 EvictionStrategy)."""

    NONE = "None"
    LIVE_MIGRATE = "LiveMigrate"
    LIVE_MIGRATE_IF_POSSIBLE = "LiveMigrateIfPossible"
    EXTERNAL = "External"


class OnNotMigratable(str, Enum):
    """The choices for a VM that should migrate and cannot."""

    BLOCK = "block"
    SHUTDOWN = "shutdown"
    SAVE = "save"
    COLD_MIGRATE = "cold_migrate"
    SKIP = "skip"


class MigrationMethod(str, Enum):
    """KubeVirt's words: is storage shared (LiveMigration) or copied (BlockMigration)?"""

    LIVE = "LiveMigration"
    BLOCK = "BlockMigration"


# What everybody has to know of a VM in this mode.
IN_POST_COPY = "in post-copy: its memory is on both hosts, so touch neither"


class Mode(str, Enum):
    PRE_COPY = "PreCopy"
    POST_COPY = "PostCopy"
    PAUSED = "Paused"


class Phase(str, Enum):
    """Phases of a migration; those of KubeVirt's VMIM that exist here."""

    PENDING = "Pending"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class AbortStatus(str, Enum):
    NONE = ""
    ABORTING = "Aborting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class State(str, Enum):
    """State of a VM as one host reports it."""

    ABSENT = "absent"
    SHUTOFF = "shutoff"
    RUNNING = "running"
    PAUSED = "paused"
    INCOMING = "incoming"  # the receiving side of a migration, not running yet
    POSTCOPY = "postcopy"  # target: running while memory still arrives
    POSTCOPY_SOURCE = "postcopy_source"  # source: stopped, memory still leaves
    POSTCOPY_FAILED = "postcopy_failed"  # either side: libvirt's connection broke in post-copy
    CRASHED = "crashed"
    UNKNOWN = "unknown"  # the host could not be read

    @property
    def words(self) -> str:
        """The state in the words of `virsh domstate --reason`."""
        return _WORDS.get(self, self.value)


_WORDS = {
    State.POSTCOPY: "running (post-copy)",
    State.POSTCOPY_SOURCE: "paused (post-copy)",
    State.POSTCOPY_FAILED: "paused (post-copy failed)",
}

ACTIVE_STATES: frozenset[State] = frozenset(
    {State.RUNNING, State.PAUSED, State.INCOMING, State.POSTCOPY, State.POSTCOPY_SOURCE}
    | {State.POSTCOPY_FAILED, State.CRASHED}
)
# On the target of a migration that goes on.
ARRIVING = frozenset({State.INCOMING, State.POSTCOPY})


def is_active(state: State) -> bool:
    """Whether it may be running. A VM that cannot be read counts: it is not known to be off."""
    return state in ACTIVE_STATES or state is State.UNKNOWN


@dataclass(frozen=True)
class Job:
    """A migration job as the source's hypervisor reports it. Sizes in bytes, rates in bytes/s.

    Where the platform has a work object for it: `work` is its id, `phase` the platform's word
    for how far it is, `ours`: made for a request of ours (so it is ours to withdraw), `finding`:
    what it waits for. `saving`: its memory goes to disk, and then it is off. `queued`: that was
    ordered, waits for its turn, and can still be withdrawn. `target`: a node that the platform chose.
    """

    outgoing: bool = True
    saving: bool = False
    queued: bool = False
    work: str = ""
    target: str = ""
    phase: str = ""
    ours: bool = False
    finding: Finding | None = None
    mode: Mode = Mode.PRE_COPY
    elapsed: float = 0.0
    processed: int = 0
    total: int = 0
    remaining: int = 0
    rate: int = 0
    dirty_rate: int = 0
    iteration: int = 0


@dataclass(frozen=True)
class VM:
    """A VM as seen on one host.

    `findings`: why it cannot migrate from here to anywhere.
    `cold_findings`: why it cannot be moved while it is off, to anywhere.
    `save_findings`: why it cannot be saved.
    `shutdown_findings`: why it is not off after its guest was asked to power off.
    `resumable`: it stands paused as after a suspend, and the platform can let it run on.
    `paused_by`: what paused it, in words; empty: it is not paused, or it is not known.
    `crashed`: it is off because its hypervisor process failed, not because anybody stopped it.
    `refused_by`: target node -> why not to that one (only nodes that refuse).
    `cold_refused_by`: the same while it is off; None: the same reasons.
    `compared`: target node -> what of machine type and CPU could not be compared there, in words; empty: nothing. Only
    of targets whose hypervisor is older.
    `migratable` None: not known yet.
    `known` False: it is here, and what it is could not be read. Of persistent, autostart, strategy, marks and all else
    that only its definition tells, nothing is said then; but for the autostart of one that is off.
    `document`: what rules see (JSON-like).
    `owner`: who moves it where its strategy is External, for people; empty: not known.
    `cpu_milli`: what it requests, where CPU is counted.
    `takes`: what else it takes of its node, that is counted: a size of huge pages (MiB), a device (how many).
    `constraints`: what it requires of its node.
    `resident_mib`: what it uses of its memory; 0: not known.
    `control_node`: why it is taken for the machine that runs the maintenance; empty: it is not.
    `restarted`: it is not the instance that was last seen; it was started anew.
    `kept_off`: it is off and its owner wants it so, whoever stopped it.
    `stopping`: is a stop of it under way, whoever asked for one; None: a guest that was asked cannot be told apart.
    `instance`: which start of it this is, where the platform tells it apart; empty: it does not.
    `next_start`: how what it starts with next differs from what runs now; empty: in nothing that matters.
    `unshown`: what of it can be known only when the drain looks, in sentences.
    `served_at`: servers of its disks that are given by name, so that each host may find another one.
    """

    uuid: str
    name: str
    node: str
    state: State = State.RUNNING
    memory_mib: int = 0
    cpu_milli: int = 0
    declared_strategy: str | None = None
    group: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    persistent: bool = True
    autostart: bool = False
    managed_save: bool = False
    marked: bool = False  # carries our EvictionRequested mark
    resumable: bool = False
    paused_by: str = ""
    crashed: bool = False
    method: MigrationMethod = MigrationMethod.LIVE
    migratable: bool | None = True
    findings: tuple[Finding, ...] = ()
    cold_findings: tuple[Finding, ...] = ()
    save_findings: tuple[Finding, ...] = ()
    shutdown_findings: tuple[Finding, ...] = ()
    refused_by: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    cold_refused_by: Mapping[str, tuple[Finding, ...]] | None = None
    compared: Mapping[str, str] = field(default_factory=dict)
    job: Job | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    constraints: Constraints = NO_CONSTRAINTS
    resident_mib: int = 0
    control_node: str = ""
    known: bool = True
    restarted: bool = False
    kept_off: Finding | None = None
    next_start: str = ""
    stopping: bool | None = None
    instance: str = ""
    unshown: tuple[str, ...] = ()
    served_at: tuple[str, ...] = ()
    takes: Mapping[str, int] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return is_active(self.state)


@dataclass
class Node:
    """A host with the aggregates that placement needs.

    `capacity_mib` is declared, never measured free memory. `committed_mib` is the sum of the
    maximum memories of its active VMs and of the reservations on it; `reserved_mib` is the
    part of the reservations, which will become VMs or go away.
    `cpu_milli`: what may be requested of it, `committed_cpu_milli`: what is. None: CPU is not
    counted.
    `spare`: what is free now of what VMs take beside these (`takes`). None: not known, and not counted.
    `gone`: there is none of this name any more.
    `roll_rank`: position in the roll; a lower rank is done earlier. None: not in the roll.
    `roll_done`: its maintenance is over.
    `expects`: VMs (UUIDs) that the plan of the roll wants there. They go there if they still can.
    `inbound_from`: nodes whose drains have VMs on their way there.
    `our_cordon`: is a cordon of ours among what keeps VMs away? None: not known.
    `version`: of its hypervisor. A VM never migrates to an older one. Empty: not known.
    """

    name: str
    reachable: bool = True
    gone: bool = False
    cordoned: bool = False
    our_cordon: bool | None = None
    capacity_mib: int = 0
    reserve_mib: int = 0
    committed_mib: int = 0
    reserved_mib: int = 0
    inbound: int = 0
    inbound_from: frozenset[str] = frozenset()
    outbound: int = 0
    vm_count: int = 0
    group_counts: dict[str, int] = field(default_factory=dict)
    roll_rank: int | None = None
    roll_done: bool = False
    expects: frozenset[str] = frozenset()
    boot_id: str = ""
    message: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    version: tuple[int, ...] = ()
    cpu_milli: int | None = None
    committed_cpu_milli: int = 0
    spare: Mapping[str, int] | None = None

    @property
    def room_mib(self) -> int:
        return self.capacity_mib - self.reserve_mib - self.committed_mib

    @property
    def cpu_room(self) -> float:
        return math.inf if self.cpu_milli is None else self.cpu_milli - self.committed_cpu_milli

    def has_cpu(self, milli: int, booked: int = 0) -> bool:
        """Whether it has CPU for one more VM. One that requests none always fits."""
        return not milli or self.cpu_room - booked >= milli

    def lacks(self, takes: Mapping[str, int], booked: Mapping[str, int] | None = None) -> dict[str, int]:
        """How much is missing there of what a VM takes beside memory and CPU. `booked`: by others."""
        if not takes or self.spare is None:
            return {}
        missing = {what: value + (booked or {}).get(what, 0) - self.spare.get(what, 0) for what, value in takes.items()}
        return {what: value for what, value in missing.items() if value > 0}


def amounts(takes: Mapping[str, int]) -> str:
    """In words, each with " and " before it."""
    units = {what: " MiB of" if what.startswith("hugepages") else "" for what in takes}
    words = {what: "pod" if (what, value) == ("pods", 1) else what for what, value in takes.items()}
    return "".join(f" and {value}{units[what]} {words[what]}" for what, value in sorted(takes.items()))


@dataclass(frozen=True)
class Sighting:
    """A VM that was seen on a node other than the draining one.

    `restarted`: it is not the instance that ran on the draining node; it was started anew.
    `crashed`: it is off because its process failed; of one that was started anew: the one before was.
    `paused_by`: of VM.
    `unplaced`: why it runs nowhere: no node takes it, or it has not started yet.
    """

    node: str
    state: State
    autostart: bool = False
    persistent: bool = True
    marked: bool = False
    job: Job | None = None
    crashed: bool = False
    restarted: bool = False
    unplaced: Finding | None = None
    paused_by: str = ""


@dataclass(frozen=True)
class Reservation:
    """An exclusive claim of one VM on one target. `owner` is the source node.

    `note`: whose it is and what is to be done, for people. `stuck`: it does not go by waiting.
    `starts`: it comes from nowhere: a VM that is being started there.
    """

    vm: str
    target: str
    owner: str
    memory_mib: int
    note: str = field(default="", compare=False)
    stuck: bool = field(default=False, compare=False)
    starts: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.note or f"{self.vm} from {self.owner}"


@dataclass(frozen=True)
class Outcome:
    """The holder's note at the end of one attempt.

    `at`: the node where the VM was read to run; empty: not known. `paused`: it stayed at its
    source, paused for the migration, and could not be resumed. `steps`: what was done so that it comes to its end.
    `writes`: bytes in a second, of one that did not converge.
    """

    vm: str
    attempt: int
    ok: bool
    finding: Finding | None = None
    target: str = ""
    mode: Mode = Mode.PRE_COPY
    processed: int = 0
    seconds: float = 0.0
    downtime_ms: int | None = None
    work: str = ""  # id of the platform's work object
    paused: bool = False
    at: str = ""
    steps: Sequence[str] = ()
    writes: float = 0.0


@dataclass
class Observation:
    """The state of the world now. Each observe makes a new one; nothing in it is remembered.

    `vms`: on the draining nodes, by UUID. `sightings`: by UUID, on the other nodes, for VMs
    of the draining nodes and for VMs that the record names. `claims`: reservations owned by
    the draining nodes. `inbound`: reservations on the draining nodes by others.
    `held`: UUIDs whose holder is alive. `held_for`: run and number of the attempt, for those that
    it began itself. `held_by`: the pod, of those that have left or are off and whose pod is still here.
    `attached`: volumes of pods that have left, which are still attached to the draining node, in words.
    `silent`: why no holder was heard that is there. `full`: what answers was
    read whole; a node that does not answer is not reachable (see `unread`).
    `stop_errors`: why the last save or request to stop came to nothing, by UUID. `unsent`: asked for by us to be asked
    to stop, and the guest is not known to have got a request.
    `complete`: what is in no list does not exist, so no node is missing from what was read.
    `ended`: what others did to a VM that is off or gone (stopped it, deleted it), by UUID.
    `ending`: VMs on the draining nodes that others are ending right now, and how, by UUID.
    `not_asked`: hosts that were left out (see `which_hosts`); for all else they did not answer.
    `platform`: whose words a result has.
    """

    nodes: dict[str, Node]
    vms: dict[str, VM]
    sightings: dict[str, list[Sighting]] = field(default_factory=dict)
    claims: dict[str, Reservation] = field(default_factory=dict)
    inbound: list[Reservation] = field(default_factory=list)
    outcomes: dict[tuple[str, int], Outcome] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    held_for: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    held_by: Mapping[str, str] = field(default_factory=dict)
    attached: tuple[str, ...] = ()
    silent: str = ""
    stop_errors: dict[str, Finding] = field(default_factory=dict)
    unsent: frozenset[str] = frozenset()
    complete: bool = False
    ended: dict[str, Finding] = field(default_factory=dict)
    ending: dict[str, Finding] = field(default_factory=dict)
    cluster_in_flight: int = 0  # slots taken in the whole fleet
    slots_of: Mapping[str, int] = field(default_factory=dict)  # node -> slots that it has taken
    full: bool = True
    now: float = 0.0
    wall: str = ""
    not_asked: frozenset[str] = frozenset()
    platform: Platform = Platform.LIBVIRT
