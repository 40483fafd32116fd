"""The intent of one run for one VM, its view of that VM, and our note on the VMI. Pure.

The note is the run's memory: it is stored on the VMI before anything is asked, so that a run that
was killed is carried on by the next call, wherever that runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..._core.model.policy import PolicyError
from ..._core.reasons.reason import Finding, Reason
from ..objects import facts

Obj = dict[str, Any]
_BEFORE_TARGET = frozenset({"", "Pending", "Scheduling", "Scheduled"})


class WantedState(str, Enum):
    MIGRATED = "migrated"
    ABORTED = "aborted"


@dataclass(frozen=True)
class MigrationRequest:
    """A request: who wants what for which VM.

    `uid`: of the VirtualMachine, or of a bare instance; empty: whichever has the name. `node`: the
    node that it shall leave; empty: the one on which it is. `target`: name of the node to which.
    `selector`: labels of it. `begun`: an earlier slice has asked. `playbook`: the process that asks, as lives.told has
    it.
    """

    auth: Mapping[str, Any]
    name: str
    namespace: str
    want: WantedState
    run_id: str
    requester: str = ""
    reason: str = ""
    uid: str = ""
    node: str = ""
    target: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    max_attempts: int = 3
    backoff: float = 5.0
    pending_timeout: float = 300.0
    migration_timeout: float = 3600.0
    abort_timeout: float = 60.0
    seconds: float = 12.0
    begun: bool = False
    playbook: str = ""

    @property
    def vm(self) -> str:
        return f"{self.namespace}/{self.name}"


def check_request(request: MigrationRequest) -> None:
    """Raises PolicyError naming what is wrong. Asks no server."""
    for option in ("name", "namespace"):
        text = getattr(request, option)
        if not text.strip() or "/" in text:
            raise PolicyError(
                f"{option} must be the {option} of a VM without a slash, not {text!r} "
                "(kubectl get vm --all-namespaces). Nothing was changed."
            )
    if request.max_attempts < 1:
        raise PolicyError(f"max_attempts must be 1 or more, not {request.max_attempts}")
    for option in ("backoff", "pending_timeout", "migration_timeout", "abort_timeout"):
        if getattr(request, option) < 0:
            raise PolicyError(f"{option} must be 0 or more, not {getattr(request, option):g}")
    if request.node and request.node == request.target:
        raise PolicyError(
            f"node and target are both {request.node}: node is where the VM is now, target is where it should go."
        )


@dataclass(frozen=True)
class RequestNote:
    """Our note. `uid`: the VMI's, so that one that was started anew is told apart.

    `first`, `at`: when the run began, and this attempt (seconds since the epoch where we run).
    `work`: UID of the attempt's migration, empty until it is known. `why`: reason and message
    for which it was withdrawn.
    """

    source: str
    uid: str
    attempt: int
    work: str
    first: float
    at: float
    want: str
    why: tuple[str, str] = ("", "")

    @property
    def finding(self) -> Finding | None:
        return Finding(Reason(self.why[0]), self.why[1]) if self.why[0] else None


def read_note(vmi: Obj, run_id: str) -> RequestNote | None:
    """This run's note; None where it has not asked yet, or another run has since."""
    note = facts.request(vmi)
    if note.get("run") != run_id or "attempt" not in note:
        return None
    why = note.get("why") or ["", ""]
    return RequestNote(
        source=str(note.get("node", "")),
        uid=str(note.get("uid", "")),
        attempt=int(note["attempt"]),
        work=str(note.get("work", "")),
        first=float(note.get("first", 0.0)),
        at=float(note.get("since", 0.0)),
        want=str(note.get("want", "")),
        why=(str(why[0]), str(why[1])),
    )


def write_note(request: MigrationRequest, asked: RequestNote, stamp: str) -> dict[str, Any]:
    """Our note as JSON. The first five keys are those of every request of ours."""
    return {
        "run": request.run_id,
        "by": request.requester,
        "reason": request.reason,
        "node": asked.source,
        "at": stamp,
        "uid": asked.uid,
        "attempt": asked.attempt,
        "work": asked.work,
        "first": round(asked.first, 1),
        "since": round(asked.at, 1),
        "want": asked.want,
        "why": list(asked.why),
    }


@dataclass(frozen=True)
class View:
    """The state of the VM now. `migrations`: all of the VM, oldest first. `now`: as Asked.at.

    `fits`: the VMI's node is the one that was asked for (None: none was).
    `waits`: what the current one waits for. `event`: why the last failed one did.
    `since_ended`, `since_switched`: seconds since the last one was first seen as ended, and the
    guest as moved. `refused`: the server did not take our request for the moment. `can_cancel`:
    KubeVirt can take a mark back.
    """

    vmi: Obj | None
    migrations: tuple[Obj, ...]
    now: float
    fits: bool | None = None
    waits: Finding | None = None
    event: str = ""
    since_ended: float = 0.0
    since_switched: float = 0.0
    refused: Finding | None = None
    since_refused: float = 0.0
    can_cancel: bool = True

    @property
    def node(self) -> str:
        return str(facts.status(self.vmi).get("nodeName") or "") if self.vmi else ""

    @property
    def unfinished(self) -> list[Obj]:
        return [m for m in self.migrations if not facts.final(m)]

    def by_uid(self, uid: str) -> Obj | None:
        return next((m for m in self.migrations if m["metadata"]["uid"] == uid), None)

    @property
    def moving(self) -> list[Obj]:
        """The migrations whose guest has not changed its node yet."""
        return [m for m in self.unfinished if not facts.switched(self.vmi, m)]

    @property
    def current(self) -> Obj | None:
        """The one that is followed: the oldest that nobody has deleted, if there is one."""
        alive = [m for m in self.moving if not facts.deleted(m)]
        return next(iter(alive or self.moving), None)


def begins_late(phase: str) -> bool:
    """Is nothing of the guest's memory moving in this phase?"""
    return phase in _BEFORE_TARGET or phase in facts.PREPARING


__all__ = [
    "MigrationRequest",
    "RequestNote",
    "View",
    "WantedState",
    "begins_late",
    "check_request",
    "read_note",
    "write_note",
]
