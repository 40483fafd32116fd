"""The record of a node: intent, ownership, progress. It lives on the platform.

It is written before the act and read at the start of every slice, so a run may be killed
at any instruction. JSON with a schema version. Something unreadable or newer is an error.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from ..reasons.reason import Finding, Reason
from .observation import Mode

SCHEMA = 1
T = TypeVar("T")


class RecordError(Exception):
    """The record of the node cannot be read. It is never taken for "no record"."""


class Superseded(Exception):
    """Another run took over. Look at that one; this one has stopped, and has undone nothing."""


class Intent(str, Enum):
    """The state that a run wants of the node."""

    DRAINED = "drained"
    CORDONED = "cordoned"
    ACTIVE = "active"
    MIGRATED = "migrated"  # one VM only; the node is not cordoned


class Hook(str, Enum):
    """Which hook of a VM: before anything is done with it, or after that."""

    BEFORE = "before"
    AFTER = "after"


class HookStage(str, Enum):
    """How far a VM is with its hooks: none, `before` asked for (it may have been run), answered; started again by a
    restore, so that an `after` is due."""

    NONE = ""
    ASKED = "asked"
    BEFORE = "before"
    AFTER = "after"
    STARTED = "started"


class Ending(str, Enum):
    """How a VM is accounted for. NONE: not yet."""

    NONE = ""
    MOVED = "moved"
    STOPPED = "stopped"
    SAVED = "saved"
    COLD_MOVED = "cold_moved"
    OFF = "off"  # was not running when it was first seen
    GONE = "gone"  # stopped or undefined by someone else; said so
    BLOCKED = "blocked"
    SKIPPED = "skipped"
    LOST = "lost"
    RESTORED = "restored"


@dataclass
class Attempt:
    """One migration of one VM: the work object. Times: boot-time clock of the source, seconds."""

    number: int
    target: str
    method: str
    started: float
    boot_id: str
    run_id: str = ""
    requester: str = ""  # of that run
    adopted: bool = False  # somebody else asked for it
    wall: str = ""
    mode: str = Mode.PRE_COPY.value
    abort_requested: bool = False
    abort_status: str = ""
    ended: bool = False
    ended_at: float = 0.0
    ok: bool = False
    reason: str = ""
    message: str = ""
    processed: int = 0
    seconds: float = 0.0
    downtime_ms: int | None = None
    work: str = ""  # id of the platform's work object
    gave_up: bool = False  # withdrawn by us: it waited in vain
    steps: list[str] = field(default_factory=list)  # what was done so that it comes to its end
    writes: float = 0.0  # bytes in a second, of one that did not converge

    @property
    def finding(self) -> Finding | None:
        return Finding(Reason(self.reason), self.message) if self.reason else None


@dataclass
class VMRecord:
    """One VM that the run ever saw."""

    uuid: str
    name: str
    memory_mib: int = 0
    persistent: bool = True
    autostart: bool = False
    was_active: bool = True
    way: str = ""
    strategy: str = ""
    decided_by: str = ""
    attempts: list[Attempt] = field(default_factory=list)
    stop_way: str = ""
    stop_started: float = 0.0
    stop_sent: float = 0.0
    stop_asked: float = 0.0  # the guest had a request by then: its time counts from here
    stop_forced: bool = False
    stop_instance: str = ""  # which start of it was asked
    restarted_run: str = ""  # the run in which something started it again after its stop
    stop_run: str = ""  # the run that decided to stop it
    stop_requests: int = 0  # requests of ours that the guest may still act on
    stop_timeout: float = 0.0  # how long it was given for that
    cold_target: str = ""
    ran_there: bool = False  # it was seen to run where it was moved while off: from then on it is its owner's
    back_reason: str = ""  # why its cold move goes back to where it ran
    back_message: str = ""
    disarmed: bool = False  # we switched its autostart off, and it was not seen on since
    start_tries: int = 0
    tries: dict[str, list[float]] = field(default_factory=dict)  # act -> [how often, when]
    paused_by_us: bool = False  # our migration left it paused: it is ours to resume
    seen_boot: str = ""  # the boot of the node in which it was last seen active here
    agent: bool = False  # its guest's agent was connected when it was last seen active here
    waiting_since: float | None = None
    calm_since: float | None = None  # nothing is said to hold it up, or a queue
    unread_since: float | None = None  # it is here and could not be read
    refused_since: float | None = None  # its claims are refused, one after the other
    full_stores: int = 0  # how often all of its targets refused one for want of space
    hook_before: str = ""  # task files, as the rules had them when it was last decided about
    hook_after: str = ""
    hook_stage: str = HookStage.NONE.value
    owner_asked: str = ""  # UTC: when its owner was asked to move it (External), and
    owner_limit: float = 0.0  # how long the owner has for that
    off_since: str = ""  # UTC: when it was asked to stop, and
    on_since: str = ""  # when it was seen to run again
    definition: str = ""  # the digest of its definition, as this node wrote it down
    ending: str = Ending.NONE.value
    at: str = ""
    reason: str = ""
    message: str = ""

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def writes(self) -> float:
        """Bytes in a second, as the last attempt that did not converge learnt it; 0: none was."""
        return next((attempt.writes for attempt in reversed(self.attempts) if attempt.writes), 0.0)

    def end(self, ending: Ending, at: str = "", finding: Finding | None = None, *, keep_waiting: bool = False) -> None:
        """`keep_waiting`: the next step must not begin to wait anew."""
        self.ending = ending.value
        self.at = at
        if not keep_waiting:
            self.waiting_since = self.unread_since = None
        self.note(finding)

    def renew_stop(self) -> None:
        """Whether it is stopped is decided anew. A request cannot be taken back: that the guest
        may still act on it stays known."""
        self.stop_way, self.stop_forced, self.stop_run, self.cold_target = "", False, "", ""
        if not self.stop_requests:
            self.stop_sent = self.stop_timeout = 0.0

    def withdraw_move(self, why: Finding) -> None:
        """Its cold move goes back to where it ran; not asked again before a new run."""
        self.back_reason, self.back_message = why.reason.value, why.message

    @property
    def move_withdrawn(self) -> Finding | None:
        return Finding(Reason(self.back_reason), self.back_message) if self.back_reason else None

    def forget_stop(self) -> None:
        """The stop is over, with all that was asked for it."""
        self.stop_requests = 0
        self.stop_instance = ""
        self.renew_stop()

    def unask(self) -> None:
        """The last request did not reach the guest."""
        self.stop_requests = max(0, self.stop_requests - 1)

    def untry(self, act: str) -> None:
        """It was not tried after all: what it needs first was refused."""
        if act in self.tries:
            self.tries[act][0] -= 1

    @property
    def asked_to_stop(self) -> bool:
        """Did we ask it to stop, in this run or in one before it?"""
        return bool(self.stop_way or self.stop_sent)

    def is_read(self) -> bool:
        """It was read. True: it could not be before, and what it waited for then goes on."""
        if self.unread_since is None:
            return False
        self.unread_since = None
        if self.reason == Reason.MigratableNotKnown.value:
            self.note(None)
        return True

    def note(self, finding: Finding | None) -> None:
        self.reason = finding.reason.value if finding else ""
        self.message = finding.message if finding else ""

    @property
    def finding(self) -> Finding | None:
        return Finding(Reason(self.reason), self.message) if self.reason else None


@dataclass
class NodeRecord:
    """Everything that is recorded of one node's maintenance."""

    node: str
    run_id: str
    intent: str = Intent.DRAINED.value
    requester: str = ""
    reason: str = ""
    started: float = 0.0
    boot_id: str = ""
    started_wall: str = ""
    cordoned_by_us: bool = False
    blocked: str = ""  # UTC: when its last run ended with something in its way
    playbook: str = ""  # the process of its last run, as _playbook/lives notes it
    only: str = ""  # UUID: this VM alone is asked for
    to: str = ""  # with `only`: the target asked for
    waiting_since: float | None = None  # something about the node must be read or must go away
    detaching_since: float | None = None  # nothing but volumes is left
    act_reason: str = ""  # why the last act on the node itself was refused
    act_message: str = ""
    provides: list[str] = field(default_factory=list)  # pools and networks that were active when it began
    runs: list[str] = field(default_factory=list)
    vms: dict[str, VMRecord] = field(default_factory=dict)
    schema: int = SCHEMA

    def learnt(self, uuid: str) -> float:
        """Bytes in a second that a VM may write, as its last migration that did not converge told, or else those of the
        VMs for which the same rule decides; 0: nothing is known."""
        entry = self.vms.get(uuid)
        if entry is None or entry.writes or not entry.decided_by.startswith("rule "):
            return entry.writes if entry is not None else 0.0
        return max(one.writes for one in self.vms.values() if one.decided_by == entry.decided_by)

    def note(self, finding: Finding | None) -> None:
        """Why an act on the node itself was refused; None: it was not."""
        self.act_reason = finding.reason.value if finding else ""
        self.act_message = finding.message if finding else ""

    @property
    def finding(self) -> Finding | None:
        return Finding(Reason(self.act_reason), self.act_message) if self.act_reason else None

    def copy(self) -> NodeRecord:
        """A copy that shares nothing with this one (much quicker than copy.deepcopy)."""
        new = copy.copy(self)
        new.runs, new.provides = list(self.runs), list(self.provides)
        new.vms = {}
        for uuid, entry in self.vms.items():
            vm = new.vms[uuid] = copy.copy(entry)
            vm.attempts = [copy.copy(attempt) for attempt in entry.attempts]
            vm.tries = {key: list(tried) for key, tried in entry.tries.items()}
        return new

    def to_json(self) -> str:
        vms = {uuid: {**vars(vm), "attempts": [vars(a) for a in vm.attempts]} for uuid, vm in self.vms.items()}
        return json.dumps({**vars(self), "vms": vms}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> NodeRecord:
        """Raises RecordError when the text is no record or of a newer schema."""
        try:
            raw: dict[str, Any] = json.loads(text)
            schema = raw["schema"]
        except RecursionError:
            raise RecordError("the record is not readable: nested too deeply") from None
        except (ValueError, KeyError, TypeError) as exc:
            raise RecordError(f"the record is not readable: {exc}") from exc
        if schema != SCHEMA:
            raise RecordError(
                f"the record has schema {schema}, this version reads {SCHEMA}: "
                "use the version of the collection that wrote it"
            )
        try:
            vms = {
                uuid: known(VMRecord, {**vm, "attempts": [known(Attempt, a) for a in vm["attempts"]]})
                for uuid, vm in raw["vms"].items()
            }
            record = known(cls, {**raw, "vms": vms})
            _check(record)
            return record
        except (TypeError, KeyError, AttributeError, ValueError) as exc:
            raise RecordError(f"the record is not readable: {exc}") from exc


def known(kind: type[T], raw: Mapping[str, Any]) -> T:
    """Raises RecordError for a field of a later version: what it means to a VM, nobody here can know."""
    unknown = sorted(set(raw).difference(about.name for about in fields(kind)))  # type: ignore[arg-type]
    if unknown:
        raise RecordError(
            f"the record has {', '.join(unknown)}, which this version does not know: "
            "use the version of the collection that wrote it"
        )
    return kind(**raw)


# What a field may hold, by how it is written in the classes.
_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "None": (type(None),),
    "list": (list,),
    "dict": (dict,),
    "Mapping": (dict,),
}


def check(*parts: Any) -> None:
    """Raises ValueError for what no run writes. Else it would fail somewhere in a decision."""
    for part in parts:
        for about in fields(part):
            value = getattr(part, about.name)
            if not any(_fits(value, kind) for kind in str(about.type).split(" | ")):
                raise ValueError(f"{about.name} is {type(value).__name__}, expected {about.type}")


@cache
def _parsed(kind: str) -> tuple[tuple[type, ...], str]:
    """(what it may be; none: a class, which its own fields were checked for; what each in it has to be)."""
    outer, _bracket, inner = kind.removesuffix("]").partition("[")
    return _KINDS.get(outer, ()), inner.partition(", ")[2] or inner


def _fits(value: Any, kind: str) -> bool:
    kinds, each = _parsed(kind)
    if not kinds:
        return True
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return False
    values: Any = value.values() if isinstance(value, dict) else value
    return not each or all(_fits(one, each) for one in values)


def _check(record: NodeRecord) -> None:
    entries = record.vms.values()
    check(record, *entries, *(attempt for entry in entries for attempt in entry.attempts))
    if any(uuid != entry.uuid for uuid, entry in record.vms.items()):
        raise ValueError("a VM is stored under the UUID of another one")
