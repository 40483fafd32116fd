"""A host that died, from one of its peers: what is seen of it, and its VMs started elsewhere.

First the record says of all VMs where each is to be started, on most of the quorum hosts. Then each start: it is
defined there; the host is looked at once more; the record is read once more; then it is started. Killed between two of
these, the same command goes on with the same target. Two at once may do one step both: a domain is started once on one
host, and there is one target for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..._core.model.observation import State
from ..._core.model.policy import Policy, PolicyError
from ..._core.reasons.reason import Platform
from ..._core.recovery.back import Fate, come_back, since
from ..._core.recovery.looks import Judgement, Looks, View, judge
from ..._core.recovery.proof import Kind, Proof, contradicted, given, has_booted, in_reboot
from ..._core.recovery.record import Recovery, Step, unproven
from ..._core.recovery.takeover import SERVES_WITHIN, Row, Safety, Verdict, goes_before, take_over
from ..._core.roll.reboot import emptied_before
from ..host.connection import HostUnreachable, keep_state, libvirt
from ..observe.host import Host, HostConfig, HostNow
from ..observe.peers import open_peer
from ..records.protected import Kept
from .fleet import Fleet, HostAnswers
from .look import Guests, look, now

_PAUSE = 1.0


@dataclass(frozen=True)
class Request:
    """`own`: the peer that this runs on. `host`: the one that died, which is one of `peers`. `views`: what was seen of
    it. `confirm`: HOST@TIME, a person's word; `said`: that of the user's tasks. `roll_run`: of the
    roll that recovers it. `ask` raises where the playbook has ended."""

    own: HostConfig
    peers: Sequence[HostConfig]
    host: str
    policy: Policy
    run_id: str
    requester: str = ""
    reason: str = ""
    seconds: float = 8.0
    views: Sequence[View] = ()
    proof: Proof | None = None
    confirm: str = ""
    said: Mapping[str, Any] = field(default_factory=dict)
    stays_off: bool = False
    roll_run: str = ""
    ask: Callable[[], None] = field(default=lambda: None)


def seen_from(request: Request) -> View:
    """Look at the host from here. Guests that run elsewhere by now are not watched: they are no sign that it lives."""
    with Fleet(request.own, request.peers, request.host, acts=False) as fleet:
        kept, _unread = fleet.kept()
        here = {uuid for read in fleet.read().values() for uuid, one in read.domains.items() if one.active}
        vms = [] if kept is None else [vm for vm in kept.vms if vm.active and vm.uuid not in here]
        return look(request.own.name, fleet.uri, fleet.to_watch(kept, vms) if kept is not None else Guests())


def recover(request: Request, acts: bool) -> dict[str, Any]:
    """Do one slice of the recovery, and give the module's result (keys: `_result`). `acts` False: check mode.

    Raises PolicyError, RecordError, RollRefused, RollUnreadable, HostUnreachable.
    """
    with Fleet(request.own, request.peers, request.host, acts) as fleet:
        judged = judge(request.host, request.views, len(fleet.others))
        if not judged.lives and not judged.may_be_fenced:  # too few peers to look are too few to read the record of
            return _result(request, "Unproven", judged, None)
        known, _seen = fleet.record.read()
        kept, unread = fleet.kept()
        proof = None
        if judged.looks is Looks.LIBVIRT_DEAD and kept is not None:
            proof = has_booted(request.views, kept.boot_id, now())
            fleet.is_up = proof is not None
        if judged.lives and proof is None:
            return _back(request, fleet, judged, known, acts)
        first = known is None or known.run != request.run_id
        if first and request.proof is None and not request.said:  # before it is switched off
            roll = fleet.check_roll(request.roll_run)
            proof = proof or in_reboot(emptied_before(roll, request.host, request.roll_run), now())
        proof = proof or _proof(request, known)
        if proof is None:
            if acts:
                known = fleet.note(lambda old: _found_dead(old, request, judged))
            return _result(request, "Unproven", judged, known)
        alive = contradicted(request.views)
        if alive:
            text = f"{proof.how} says that {request.host} is off, but its guests are alive: {', '.join(alive)}."
            return _result(request, "Unproven", replace(judged, text=f"{text} {judged.text}"), known)
        if kept is None:
            raise PolicyError(
                f"nobody has the definitions of {request.host}'s VMs ({', '.join(unread or fleet.quorum_hosts)}): the"
                " playbook protect stores them there while a host is up. Start its VMs by hand, from your own copies"
            )
        kept.vms += fleet.missing(kept)
        try:
            return _start_all(request, fleet, kept, judged, proof, acts)
        except HostAnswers as exc:
            return _result(request, "Stopped", replace(judged, text=str(exc)), fleet.record.read()[0])


def _proof(request: Request, known: Recovery | None) -> Proof | None:
    """Raises PolicyError. What one run was given, or saw of its roll, is the same proof in each of its slices."""
    before = known.proof if known is not None and known.run == request.run_id else None
    if before is not None and (request.said or before.kind is Kind.REBOOT):
        return before
    dead = known.found_dead if known else ""
    return given(request.proof, request.confirm, request.said, request.host, dead, request.requester, now())


def _start_all(
    request: Request, fleet: Fleet, kept: Kept, judged: Judgement, proof: Proof, acts: bool
) -> dict[str, Any]:
    known = Recovery(request.host, request.run_id, proof=proof)
    if acts:
        known = fleet.note(lambda old: replace(_proven(old, request, judged, proof), boot_id=kept.boot_id))
    # Quorum hosts that the host does not know it cannot ask.
    guarded = kept.guard and kept.keepers == fleet.quorum_hosts
    safety = fleet.safety(kept, guarded, request.stays_off)
    begun, passes, ended, missing = 0.0, 0, _ended(known), dict[str, str]()
    while True:
        rows = _placed(request, fleet, kept, known, safety)
        for row in rows if acts else ():
            mine = known.vms.get(row.vm.uuid)
            if row.verdict is Verdict.RUNS and (mine is None or (mine.target, mine.step) != (row.target, Step.RUNS)):
                known, missing[row.vm.uuid] = fleet.settle(row.vm, row.target, known)
        todo = [row for row in rows if row.verdict is Verdict.START]
        if not acts or not todo or passes > len(fleet.others):
            break
        passes += 1
        known = fleet.bind([(row.vm, row.target) for row in todo])
        for row in todo:
            # One start at least, however long the hosts took to answer; and no other slice after one that ended none.
            if begun and time.monotonic() > begun + request.seconds:
                if _ended(known) > ended:
                    return _result(request, "Recovering", judged, known, rows, kept)
                passes = len(fleet.others) + 1
                break
            begun = begun or time.monotonic()
            first = _serve_first(fleet, rows, row, known, begun + request.seconds)
            if first:
                text = f"It is started once {', '.join(first)} serves, or {SERVES_WITHIN:.0f} s after its start."
                result = _result(request, "Recovering", judged, known, rows, kept)
                return _with_messages(result, {row.vm.uuid: text})
            known = fleet.start(row.vm, row.target, kept, known, request.ask)
    for row in todo if acts else ():
        missing[row.vm.uuid] = f"It is not known whether it runs on {row.target}. Run recover again."
    blocked = any(row.verdict is Verdict.STAYS for row in rows) or any(missing.values())
    return _with_messages(_result(request, "Blocked" if blocked else "Recovered", judged, known, rows, kept), missing)


def _serve_first(fleet: Fleet, rows: Sequence[Row], row: Row, known: Recovery, until: float) -> list[str]:
    """Names of the VMs that are waited for before this one is started. Empty: there is none, or no more."""
    while True:
        first = [one for one in rows if goes_before(one, row, known, now())]
        names = [one.vm.name for one in first if not fleet.serves(one.vm.uuid, known.vms[one.vm.uuid].target)]
        if not names or time.monotonic() > until:
            return names
        time.sleep(_PAUSE)


def _with_messages(result: dict[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    for one in result["vms"]:
        one["message"] = one["message"] or more.get(one["uuid"], "")
    return result


def _placed(request: Request, fleet: Fleet, kept: Kept, known: Recovery, safety: Safety) -> list[Row]:
    """A row for each VM, with its target. Each target is asked first whether it has the VM's disks, and the same ones:
    what it had when the host lived may be gone since, or other storage be mounted there."""
    obs = fleet.observe(vm.uuid for vm in kept.vms)
    while True:
        rows = take_over(request.host, kept.vms, obs, known, request.policy, safety, kept.priorities)
        refused = {}
        for row in rows:
            if row.verdict is Verdict.START and known.taken(row.vm.uuid) is None:
                why = fleet.lacking(row.vm.uuid, row.target, kept)
                refused.update({row.vm.uuid: {row.target: (why,)}} if why is not None else {})
        if not refused:
            return rows
        kept.refuse(refused)


def _ended(known: Recovery) -> int:
    """How many starts came to an end."""
    return sum(vm.step is not Step.STARTING for vm in known.vms.values())


def _found_dead(old: Recovery, request: Request, judged: Judgement) -> Recovery:
    """Each run that finds it dead says so anew: a person's word counts for the last of them."""
    about = {"run": request.run_id, "requester": request.requester, "reason": request.reason}
    return replace(old, **about, found_dead=now(), how=judged.text, proof=None)


def _proven(old: Recovery, request: Request, judged: Judgement, proof: Proof) -> Recovery:
    """A new run tries again where an earlier one could not start a VM."""
    vms = old.vms
    if old.run != request.run_id:
        vms = {uuid: vm for uuid, vm in vms.items() if vm.step is not Step.FAILED}
    about = {"run": request.run_id, "requester": request.requester, "reason": request.reason}
    return replace(old, **about, found_dead=old.found_dead or now(), how=judged.text, proof=proof, vms=vms)


def _back(request: Request, fleet: Fleet, judged: Judgement, known: Recovery | None, acts: bool) -> dict[str, Any]:
    """The slice where the host is alive: a VM that was taken over is undefined on it, once it is seen to run on its
    target. Gives the module's result."""
    if known is None or not known.vms or judged.looks is Looks.LIBVIRT_DEAD:
        if acts and known is not None and (known.found_dead or known.proof):
            known = fleet.note(unproven)
        return _result(request, "Alive", judged, known)
    reads = {name: _states(read) for name, read in fleet.read().items()}
    host = Host(next(c for c in request.peers if c.name == request.host), open_peer, acts=acts)
    backs = come_back(known, _states(host.read(False)), reads)
    for number, back in enumerate(backs if acts else ()):
        request.ask()
        if back.fate is Fate.REMOVED:
            try:
                host.domain(back.vm.uuid).undefineFlags(keep_state(ran_elsewhere=True))
            except (HostUnreachable, libvirt.libvirtError) as exc:
                text = f"Its definition on {request.host} could not be removed: {exc}. Run recover again."
                backs[number] = replace(back, fate=Fate.WAITS, message=text)
        elif back.fate is Fate.RETURNS and not fleet.withdraw(back.vm.uuid, back.vm.target):
            text = f"{back.vm.name} is still defined on {back.vm.target}, and was never started there. Run again."
            backs[number] = replace(back, fate=Fate.WAITS, message=text)
    blocked = any(back.fate is Fate.WAITS for back in backs)
    if acts and not blocked:
        fleet.record.end(request.host)
    result = _result(request, "Blocked" if blocked else "Returned", judged, known)
    rows = [
        {**_row(Row(back.vm, Verdict.RUNS, back.at)), "verdict": back.fate.value, "message": back.message}
        for back in backs
    ]
    booted = since(known, next((view.boot_id for view in request.views if view.boot_id), ""))
    return {
        **result,
        "vms": rows,
        "booted": booted,
        "changed": not blocked or any(back.fate is Fate.REMOVED for back in backs),
    }


def _states(read: HostNow) -> dict[str, State] | None:
    """UUID -> state; None: the host cannot be read."""
    return None if read.error else {uuid: domain.state for uuid, domain in read.domains.items()}


def _result(
    request: Request,
    phase: str,
    judged: Judgement,
    known: Recovery | None,
    rows: Sequence[Row] = (),
    kept: Kept | None = None,
) -> dict[str, Any]:
    """The module's result. `vms` has for each of `rows`: name, uuid, verdict, target, reason, message, remedy."""
    return {
        "host": request.host,
        "phase": phase,
        "looks": judged.looks.value,
        "may_be_fenced": judged.may_be_fenced,
        "message": judged.text,
        "found_dead": known.found_dead if known else "",
        "proof": known.proof.to_dict() if known and known.proof else {},
        "protected_at": kept.at if kept else "",
        "vms": [_row(row) for row in rows],
        "changed": bool(known and known.vms) and phase in ("Recovered", "Recovering", "Blocked"),
        "run_id": request.run_id,
    }


def _row(row: Row) -> dict[str, Any]:
    found = row.finding.to_dict(Platform.LIBVIRT) if row.finding else dict.fromkeys(("reason", "message", "remedy"), "")
    found.pop("plane", None)
    return {"name": row.vm.name, "uuid": row.vm.uuid, "verdict": row.verdict.value, "target": row.target, **found}
