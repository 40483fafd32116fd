"""One slice of a run on one node: lock, record, loop, result. What the modules call."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..._core.decision.actions import NodePhase
from ..._core.decision.hooks import record_answers
from ..._core.model.policy import Policy
from ..._core.model.record import Intent, NodeRecord
from ..._core.reasons.reason import Platform
from ..._core.roll.owner import RollTakenOver, calling_off, check_host, check_write
from ..._core.roll.record import RollRecord, Stage
from ..._core.roll.stages import note_seen
from ..._core.run import report
from ..._core.run.check import Checked, check
from ..._core.run.engine import Engine, Slice, SliceEnd
from ..._core.run.notice import notices
from ..._core.run.start import check_owner, start
from ..._playbook import lives
from ..api.client import Client
from ..api.errors import KubeError, LockHeld, NoAnswer
from ..api.metrics import Source
from ..objects import names
from ..objects.nodes import closed_beside_cordon, cordoned
from ..observe.control_node import refuse_own_node
from ..pods.evict import PodDrain, PodsResult
from ..pods.filters import PodOptions
from ..records.lease import PROCESSES, Lock
from ..records.roll import RollLease, system_clock
from ..requests.rights import check_before_a_drain
from ..requests.signature import note_on_node
from ..turns.other_drains import OtherDrains
from ..turns.turns import Turns
from .cursor import pack, pack_left, pack_wait, unpack, unpack_left, unpack_wait
from .platform import KubeVirtPlatform
from .result import by_others, nudges, result, vm_rows, warnings

# Seconds for which the node's Lease is waited for before that is said.
_SAYS_AFTER = 3.0
# Seconds between two writes of the record while nothing is to be done.
SAVE_EVERY = 60.0


@dataclass(frozen=True)
class Request:
    """Who wants what of which node. `begun`: an earlier slice has written the record.

    `machines`: rules ask for what only the VirtualMachines say. `metrics`: the source of dirty rates.
    `cursor`: what the slice before handed over, empty for the first; None: this one hands
    nothing over. `hooks_done`: answers, as `needs` asked.
    `controller_uuid`: of the machine that Ansible runs on, if that is not this one. `roll_run`: the
    ansible-playbook that asks, as the record of a roll names it; `playbook`: its process, as lives.told has it. `live`:
    what becomes of VMs is to be shown soon.
    """

    auth: dict[str, Any]
    node: str
    policy: Policy
    intent: Intent
    run_id: str
    requester: str = ""
    reason: str = ""
    seconds: float = 15.0
    begun: bool = False
    lock_namespace: str = "default"
    pods: PodOptions = field(default_factory=PodOptions)
    machines: bool = False
    metrics: Source | None = None
    cursor: str | None = None
    hooks_done: Sequence[Mapping[str, Any]] = ()
    controller_uuid: str = ""
    roll_run: str = ""
    of_roll: bool = False
    playbook: str = ""
    live: bool = False
    only: str = ""  # a run is of a whole node
    to: str = ""


def connect(request: Request, machines: bool = False) -> KubeVirtPlatform:
    """`machines`: whatever the rules ask for."""
    machines = machines or request.machines
    return KubeVirtPlatform(
        Client(request.auth),
        request.node,
        machines=machines,
        metrics=request.metrics,
        controller_uuid=request.controller_uuid,
        policy=request.policy,
    )


def run_slice(request: Request) -> dict[str, Any]:
    """Work for about `request.seconds`, then say how far it is.

    Raises KubeError (AccessDenied), NodeUnknown, RecordError, Superseded, LockHeld, RollRefused,
    RollTakenOver, RunsTheMaintenance, KubernetesMissing, and PolicyError for an answer to no hook.
    """
    platform = connect(request)
    platform.client.before_write = lambda: lives.check(request.playbook)
    try:
        if request.intent is Intent.DRAINED:
            refuse_own_node(platform.client, request.node)
        leased = RollLease(platform.client, request.lock_namespace), request.node, request.roll_run
        try:
            drains = request.intent is Intent.DRAINED
            beside: list[str] = []
            of_roll = calling_off(
                lambda: check_host(*leased, system_clock(), request.begun, drains, beside.append),
                partial(_end_what_was_begun, platform, request),
            )
        except RollTakenOver:
            _release_kept(platform.client, request)
            raise
        if request.intent is Intent.ACTIVE and not request.begun:
            note_seen(*leased, Stage.RESTORING, system_clock())
        found = _locked(platform, replace(request, of_roll=of_roll), leased[0] if of_roll else None)
        if beside:
            found["warnings"] = [*beside, *found.get("warnings", ())]
        platform.client.before_write = lambda: lives.check(request.playbook)
        if found.get("phase") == NodePhase.DRAINED.value:
            try:
                note_seen(*leased, Stage.EMPTY, system_clock())
            except KubeError as exc:  # what the drain did is not thrown away for that
                found["warnings"] = [*found.get("warnings", ()), f"The roll does not know that it is empty: {exc}"]
        return found
    finally:
        platform.close()


def _lock(client: Client, request: Request) -> Lock:
    holder = f"{request.run_id} {secrets.token_hex(4)}"
    lease, drains = int(request.seconds) + 20, request.intent is Intent.DRAINED
    return Lock(client, request.lock_namespace, request.node, holder, lease, drains)


def _release_kept(client: Client, request: Request) -> None:
    """Who gives the node back must not wait until the Lease has expired."""
    cursor = unpack(request.cursor) if request.begun else None
    if cursor is not None:
        _lock(client, request).release_kept(cursor.lease)


def _end_what_was_begun(platform: KubeVirtPlatform, request: Request, let_finish: bool) -> None:
    """Of a slice that finds its roll aborted as it begins: those before it have asked for migrations."""
    cursor = unpack(request.cursor) if request.begun else None
    lock = platform.lock = _lock(platform.client, request)
    lock.annotate = _annotations(platform, request)
    if cursor is None or not lock.renew(cursor.lease):
        return
    try:
        _call_off(platform, Engine(platform, request.policy, platform.resume(cursor)), request, let_finish)
    finally:
        lock.release()


def _annotations(platform: KubeVirtPlatform, request: Request) -> Callable[[dict[str, str]], dict[str, str]]:
    """What the node's Lease says while this slice has it."""
    processes = {PROCESSES: lives.noted(request.playbook)}
    return lambda notes: {**platform.lease_annotations(notes, request.run_id), **processes}


def _locked(platform: KubeVirtPlatform, request: Request, roll: RollRecord | None) -> dict[str, Any]:
    """The slice while nobody else of ours works on the node. `roll`: to which it belongs; None: to none."""
    lock = _lock(platform.client, request)
    try:
        return _with_lock(platform, request, lock, roll)
    except NoAnswer as exc:
        if request.cursor is not None:
            exc.cursor = pack_left(request.cursor, lock.holder)
        raise


def _with_lock(platform: KubeVirtPlatform, request: Request, lock: Lock, roll: RollRecord | None) -> dict[str, Any]:
    client = platform.client
    platform.lock = lock
    lock.annotate = _annotations(platform, request)
    platform.turns = Turns(OtherDrains(client, lock, platform.observer.watches.wake, platform.now))

    def before_write() -> None:
        lock.keep()
        lives.check(request.playbook)
        if roll is not None:
            check_write(roll, request.roll_run)

    client.before_write = before_write
    if (
        request.intent is Intent.ACTIVE
        and not request.begun
        and platform.load() is None
        and not platform.record_from_lease(lock.read(), request.run_id)
    ):
        return _nothing_to_restore(platform, request)
    cursor = unpack(request.cursor) if request.begun else None
    saved = ("", float("-inf"))
    if cursor is not None and lock.renew(cursor.lease):
        old: NodeRecord | None = platform.resume(cursor)
        saved = (cursor.record if cursor.saved else "", cursor.saved_at)
    else:
        seen, waited = unpack_wait(request.cursor)
        longest = request.seconds + 25.0 - waited
        patience = longest if request.cursor is None else min(longest, _SAYS_AFTER)
        try:
            old = lock.take(patience, platform.load, seen, unpack_left(request.cursor))
        except LockHeld as exc:
            if patience >= longest:
                raise
            return _waits_for_lease(request, exc, waited + patience)
        if old is None:
            old = platform.record_from_lease(lock.held, request.run_id)
        if old is not None and request.begun:
            saved = (old.to_json(), platform.now())
    try:
        found = _slice(platform, request, old, saved, lock)
        _note(platform, request, found)
    except BaseException:
        client.before_write = lambda: None  # whatever ended it: who comes next need not wait for it
        lock.release()
        raise
    client.before_write = lambda: None  # the same where the roll was closed: who closed it waits for the Lease
    if found["phase"] == NodePhase.ACTIVE.value:
        lock.remove()
    elif "cursor" not in found:
        lock.release()
    return found


def _note(platform: KubeVirtPlatform, request: Request, found: dict[str, Any]) -> None:
    """Events on the Node. Who may not write them is told, and works on."""
    node = platform.observer.own()
    if node is None:
        return
    cautions = [note_on_node(platform.client, node, one, platform.wall()) for one in notices(request, found)]
    if any(cautions):
        found["warnings"] = [*found.get("warnings", ()), *dict.fromkeys(filter(None, cautions))]


def _slice(
    platform: KubeVirtPlatform, request: Request, old: NodeRecord | None, saved: tuple[str, float], lock: Lock
) -> dict[str, Any]:
    """`saved`: the record as it was last written, and when."""
    if old is None and request.intent is Intent.ACTIVE:
        return _nothing_to_restore(platform, request)
    check_owner(old, request)
    pods = PodDrain(platform, platform.observer.watches, request.pods, request.policy)
    if not request.begun and request.intent is Intent.DRAINED:
        platform.observer.watches.ready(fresh=False)
        check_before_a_drain(platform.client, platform.observer.watches.vmis.items())
        untouched = old is None or not old.vms
        if untouched and pods.refused():  # nothing was asked for yet, and nothing is
            found = check_now(platform, request)[0]
            del found["planned"]
            return {**found, "changed": False}
    before = report.old_news(request, old)
    record = _begin(platform, request, old)
    if request.hooks_done:
        record_answers(record, request.hooks_done)
        saved = ("", float("-inf"))  # so that the first step writes them
    outcome, other_pods, changed, saved = _work(platform, request, record, pods, saved)
    known, gone = platform.records.instances, sorted(platform.records.pods)
    closed = closed_beside_cordon(platform.observer.own())
    found = result(outcome, request, other_pods, known, gone, changed or bool(request.hooks_done), closed)
    reported = platform.observer.rates.result_fields
    warned = [*warnings(outcome.record, platform.observer.own()), *reported.get("warnings", ())]
    found.update({**before, **reported, **({"warnings": warned} if warned else {})})
    goes_on = found["ended"] == SliceEnd.OUT_OF_TIME.value and platform.observer.own() is not None
    if request.cursor is not None and goes_on and not platform.is_wanted():
        text = outcome.record.to_json()
        found["cursor"] = pack(platform.make_cursor(lock.held, text, saved))
    return found


def _work(
    platform: KubeVirtPlatform, request: Request, record: NodeRecord, pods: PodDrain, saved: tuple[str, float]
) -> tuple[Slice, PodsResult, bool, tuple[str, float]]:
    """The VMs first, then the other pods; and after the last act all is read again.

    (how the VMs are, how the pods are, was anything changed?, the record as last written)
    """
    until = platform.now() + request.seconds
    changed, seen, carried = False, None, request.cursor is not None
    drain = request.intent is Intent.DRAINED
    while True:
        # The first read of two may lie before what only concerned other pods; the second may not.
        engine = Engine(platform, request.policy, record, SAVE_EVERY, seen, saved, carried)
        outcome = calling_off(
            partial(engine.run, until, until_empty=drain and seen is None, live=request.live),
            partial(_call_off, platform, engine, request),
        )
        changed, saved = changed or report.changes(outcome.actions_done), engine.saved
        if not drain or outcome.phase not in (NodePhase.EMPTY, NodePhase.DRAINED):
            return outcome, PodsResult(), changed, saved
        other_pods = pods.run(outcome.record, until)
        if other_pods.phase is NodePhase.BLOCKED:
            outcome.record.blocked = platform.wall()
            platform.save(outcome.record)
        changed = changed or other_pods.acted
        drained = outcome.phase is NodePhase.DRAINED and not other_pods.acted
        if other_pods.phase is not NodePhase.EMPTY or drained:
            return outcome, other_pods, changed, saved
        # A second read follows at once, even when time is up; not so a third.
        if platform.now() >= until and (other_pods.acted or seen is not None):
            return outcome, replace(other_pods, phase=NodePhase.DRAINING), changed, saved
        record, seen = outcome.record, outcome.observation


def _call_off(platform: KubeVirtPlatform, engine: Engine, request: Request, let_finish: bool) -> None:
    """The abort wants it, and no longer the roll."""

    def before_write() -> None:
        if platform.lock is not None:
            platform.lock.keep()
        lives.check(request.playbook)

    platform.client.before_write = before_write
    engine.call_off(let_finish)


def _begin(platform: KubeVirtPlatform, request: Request, old: NodeRecord | None) -> NodeRecord:
    if not request.begun:
        for known in platform.records.pods.values():
            known.pop("since", None)  # a new run has its deadlines anew
    record = start(platform, request, old)
    record.playbook = request.playbook
    return record


def _waits_for_lease(request: Request, held: LockHeld, waited: float) -> dict[str, Any]:
    """A slice in which nothing was read or done; the next one waits on."""
    drains = request.intent is Intent.DRAINED
    phase = NodePhase.DRAINING if drains else NodePhase.RESTORING
    found = replace(report.nothing(Platform.KUBEVIRT, request, phase), ended=SliceEnd.OUT_OF_TIME)
    cursor = pack_wait(held.seen, waited)
    return found.to_dict(nudges=0, pods=[], waits_for=held.waits, cursor=cursor)


def _nothing_to_restore(platform: KubeVirtPlatform, request: Request) -> dict[str, Any]:
    node = platform.client.get(names.node(request.node))
    found = report.nothing(Platform.KUBEVIRT, request)
    found = replace(found, cordoned_by_others=cordoned(node), closed=closed_beside_cordon(node))
    return found.to_dict(nudges=0, pods=[])


def check_now(
    platform: KubeVirtPlatform, request: Request, policy: Callable[[], Policy] | None = None
) -> tuple[dict[str, Any], Checked]:
    """What a run would do now, in result form; and what it was decided on. Only reads."""
    seen = check(platform, request, policy)
    pods = PodsResult()
    if request.intent is Intent.DRAINED:
        pods = PodDrain(platform, platform.observer.watches, request.pods, request.policy).check()
        if pods.phase is NodePhase.BLOCKED:  # as kubectl drain: nothing is asked for at all
            acts = () if seen.old is None else seen.acts
            seen = replace(seen, acts=acts, phase=NodePhase.BLOCKED)
    found = report.of_check(seen)
    vms = vm_rows(found.vms, platform.records.instances)
    told = replace(
        found, vms=vms, findings=(*found.findings, *pods.findings), cordoned_by_others=by_others(seen.obs, request.node)
    ).to_dict(nudges=nudges(vms), pods=pods.rows, **platform.observer.rates.result_fields)
    return told, seen
