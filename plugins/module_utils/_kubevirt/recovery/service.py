"""One slice of the recovery of a Node. Killed at any point, the same command carries it on: all is on the Node."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..._core.recovery.looks import Judgement, Looks
from ..._core.recovery.nodes import (
    NOT_WATCHED,
    RECOVERING,
    TIMEOUT,
    GuestNow,
    GuestRow,
    NodeRecovery,
    NodeSeen,
    Verdict,
    Watched,
    become,
    carried_on,
    judge_node,
    may_serve,
    may_write,
    phase_of,
    read,
)
from ..._core.recovery.proof import Proof, given
from ..._core.recovery.told import notices
from ..._core.roll.owner import check_dead
from ..._core.run.node_events import Notice
from ..api.client import Client
from ..api.errors import KubeError
from ..objects import names
from ..objects.facts import annotations
from ..records.lease import PROCESSES, Lock
from ..records.roll import RollLease, system_clock
from ..requests.signature import note_on_node
from .node import DeadNode

_TRIES = 10  # times that a Node is looked at anew for what others write to it, though the slice is over by then
_PAUSE = 1.0
_WOULD = "KubeVirt would start it on another node."
_SPARE = 5.0  # seconds beyond those after which a Lease that is not renewed is a dead run's
_SEEN_WITHIN = 180.0  # seconds for which a node is watched that may be dead


@dataclass(frozen=True)
class Request:
    """`proof`: of a fence agent; `confirm`: NODE@TIME, a person's word; `said`: that of the user's tasks. `host`: how
    the inventory names the node."""

    auth: dict[str, Any]
    node: str
    host: str
    run_id: str
    requester: str = ""
    reason: str = ""
    seconds: float = 15.0
    proof: Proof | None = None
    confirm: str = ""
    said: Mapping[str, Any] = field(default_factory=dict)
    watched: Watched = NOT_WATCHED
    ask: Callable[[], None] = field(default=lambda: None)
    starts: bool = False  # VMs of Manual and Once, too
    processes: str = ""  # for the Lease, see _playbook/lives
    lock_namespace: str = "default"
    roll_run: str = ""  # of the roll that recovers it


def recover(request: Request, acts: bool) -> dict[str, Any]:
    """Raises KubeError, NodeUnknown, RecordError, PolicyError, LockHeld, Superseded, RollRefused."""
    client = Client(request.auth)
    client.before_write = request.ask
    try:
        node = DeadNode(client, request.node)
        seen = node.read()
        if not acts or not may_write(judge_node(seen, request.watched), read(node.notes, names.RECOVERY)):
            found = _slice(request, node, seen, acts)
        else:
            found = _leased(request, client, node)
        warnings = [*found.get("warnings", ()), *dict.fromkeys(node.unread)]
        return {**found, "watched": request.watched.of_next(seen), "warnings": warnings}
    finally:
        client.close()


def _leased(request: Request, client: Client, node: DeadNode) -> dict[str, Any]:
    """While nobody else of ours works on the node: one run has its Lease from its first slice to its last."""
    holder, seconds = f"{request.run_id} recover", int(request.seconds) + 20
    lock = Lock(client, request.lock_namespace, request.node, holder, seconds)
    lock.annotate = lambda notes: {**notes, PROCESSES: request.processes}
    if lock.go_on():
        seen = node.read()
    else:
        check_dead(RollLease(client, request.lock_namespace), request.node, request.roll_run, system_clock())
        seen = lock.take(seconds + _SPARE, node.read)

    def before_write() -> None:
        lock.keep()
        request.ask()

    client.before_write = before_write
    goes_on = False
    try:
        found = _slice(request, node, seen, True)
        found["warnings"] = _events(request, client, node, found)
        goes_on = found["phase"] == RECOVERING
        return found
    finally:
        client.before_write = lambda: None  # whatever ended it: who comes next need not wait for it
        if not goes_on and names.RUNS in annotations(lock.held):  # a drain's, with what it keeps there
            lock.release()
        elif not goes_on:
            lock.remove()


def _events(request: Request, client: Client, node: DeadNode, found: Mapping[str, Any]) -> list[str]:
    """On the Node, for who looks at it with kubectl. What changed nothing is not noted."""
    who = f" of {request.requester}" if request.requester else ""
    whose = f"run {request.run_id}{who}{f': {request.reason}' if request.reason else ''}"
    known = read(node.notes, names.RECOVERY)
    phase = found["phase"]
    told = list(notices(found, whose, node.taken_out, known is None or known.told != phase))
    cautions = [note_on_node(client, node.obj, Notice(*one), system_clock().wall()) for one in told]
    if known is not None and phase in ("Recovered", "Blocked") and known.told != phase:
        node.note_told(phase)
    return sorted({one for one in cautions if one})


def _slice(request: Request, node: DeadNode, seen: NodeSeen, acts: bool) -> dict[str, Any]:
    until, tries = time.monotonic() + request.seconds, 0
    while True:
        try:
            return _recover(request, node, seen, acts, until)
        except KubeError as exc:
            tries += 1
            if exc.code != 409 or (tries >= _TRIES and time.monotonic() > until):
                raise
            time.sleep(_PAUSE)  # somebody else wrote the Node: it is looked at anew
            seen = node.read()


def _recover(request: Request, node: DeadNode, seen: NodeSeen, acts: bool, until: float) -> dict[str, Any]:
    judged, known = judge_node(seen, request.watched), read(node.notes, names.RECOVERY)
    if judged.lives:
        return _back(request, node, seen, judged, known, acts)
    if judged.looks is Looks.NOT_KNOWN and acts and request.watched.seconds < _SEEN_WITHIN:
        time.sleep(max(0.0, min(until - time.monotonic(), 5.0)))
        return _result(request, RECOVERING, judged, known)
    if not judged.may_be_fenced:
        return _result(request, "Unproven", judged, known)
    if not carried_on(known, seen, node.tainted):
        others = node.operators()
        if others:
            text = f"{', '.join(others)} is already recovering {request.node}, so this run does not. {judged.text}"
            return _result(request, "Refused", replace(judged, text=text), known)
        found = known.found_dead if known else ""
        proof = given(request.proof, request.confirm, request.said, request.host, found, request.requester, _wall(seen))
        known = _known(request, node, seen, known, proof)
        if proof is None:
            if acts:
                node.note(known)
            return _result(request, "Unproven", judged, known)
        if not acts:
            return _rows(request, "Recovered", judged, known, [GuestNow(vm, waits=_WOULD) for vm in known.vms], False)
        node.take_out(known)
    return _watch(request, node, judged, known or NodeRecovery(), acts, until)


def _wall(seen: NodeSeen) -> str:
    """The cluster's time, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seen.newest))


def _known(
    request: Request, node: DeadNode, seen: NodeSeen, old: NodeRecovery | None, proof: Proof | None
) -> NodeRecovery:
    """Each run that finds it dead says so anew: a person's word counts for the last of them."""
    return NodeRecovery(
        run=request.run_id,
        requester=request.requester,
        reason=request.reason,
        found_dead=old.found_dead if proof is not None and old is not None and old.found_dead else _wall(seen),
        boot_id=seen.boot_id,
        cordoned=old.cordoned if old else False,
        proof=proof,
        vms=node.guests() if proof is not None else [],
    )


def _watch(
    request: Request, node: DeadNode, judged: Judgement, known: NodeRecovery, acts: bool, until: float
) -> dict[str, Any]:
    """Watch until each VM runs or stays, or the slice is over. The time is that of this run, whatever the cluster's
    says."""
    while True:
        over = request.watched.seconds + request.seconds - (until - time.monotonic()) > TIMEOUT
        now = node.guests_now(known.vms)
        rows = become(request.node, now, over, request.starts)
        phase = phase_of(rows, acts)
        if phase != RECOVERING or time.monotonic() > until:
            return _rows(request, phase, judged, known, now, over)
        for row in rows:
            if row.start:
                node.start(row.guest)
        time.sleep(_PAUSE)


def _back(
    request: Request, node: DeadNode, seen: NodeSeen, judged: Judgement, known: NodeRecovery | None, acts: bool
) -> dict[str, Any]:
    """It lives. The taint goes when it is Ready with another boot: then nothing of before runs on it."""
    if known is None or known.proof is None or not node.tainted:
        if acts and known is not None:
            node.forget()
        return _result(request, "Alive", judged, known)
    if judged.looks is not Looks.ALIVE:
        return _result(request, "Alive", judged, known)
    now = node.guests_now(known.vms)
    if not may_serve(known, seen):
        text = (
            f"{request.node} is Ready and still has its old boot id: it was not off, though {known.proof}. Its "
            "VMs may run twice. Switch it off or reboot it, then run recover again: its taint stays until then."
        )
        return _rows(request, "Refused", replace(judged, text=text), known, now, True)
    if acts:
        node.give_back(known)
    return _rows(request, "Returned", judged, known, now, True)


def _rows(
    request: Request, phase: str, judged: Judgement, known: NodeRecovery, now: Sequence[GuestNow], over: bool
) -> dict[str, Any]:
    rows = become(request.node, now, over, request.starts)
    if phase == "Returned":  # what does not run elsewhere is no matter of this node any more
        rows = [row for row in rows if row.verdict is Verdict.RUNS]
    return {**_result(request, phase, judged, known), "vms": [_row(row) for row in rows]}


def _row(row: GuestRow) -> dict[str, Any]:
    name = f"{row.guest.namespace}/{row.guest.name}"
    about = {"reason": "", "remedy": "", "message": row.message}
    return {"name": name, "uuid": row.guest.uid, "verdict": row.verdict.value, "target": row.target, **about}


def _result(request: Request, phase: str, judged: Judgement, known: NodeRecovery | None) -> dict[str, Any]:
    """The module's result."""
    proof = known.proof.to_dict() if known and known.proof else {}
    return {
        "host": request.host,
        "phase": phase,
        "looks": judged.looks.value,
        "may_be_fenced": judged.may_be_fenced,
        "message": judged.text,
        "found_dead": known.found_dead if known else "",
        "proof": proof,
        "vms": [],
        "changed": bool(proof) and phase in ("Recovered", RECOVERING, "Blocked", "Returned"),
        "run_id": request.run_id,
    }
