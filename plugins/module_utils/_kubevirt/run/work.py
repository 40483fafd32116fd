"""Do the work of a slice on its node, while no other run of ours is there: the loop, the other pods, the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..._core.decision.actions import NodePhase
from ..._core.decision.hooks import record_answers
from ..._core.model.policy import Policy
from ..._core.model.record import Intent, NodeRecord
from ..._core.reasons.reason import Platform
from ..._core.roll.owner import calling_off
from ..._core.run import report
from ..._core.run.check import Checked, check
from ..._core.run.engine import Engine, Slice, SliceEnd
from ..._core.run.node_events import notices
from ..._core.run.start import check_owner, start
from ..._playbook import lives
from ..api.client import Client
from ..api.metrics import Source
from ..objects import names
from ..objects.nodes import closed_beside_cordon, cordoned
from ..pods.evict import PodDrain, PodsResult, had_to_go
from ..pods.filters import PodOptions
from ..records.lease import Lock
from ..requests.rights import check_before_a_drain
from ..requests.signature import note_on_node
from .cursor import pack
from .platform import KubeVirtPlatform
from .result import by_others, nudges, result, vm_rows, warnings

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
    """The platform of the request's node. `machines`: read VirtualMachines too, whether rules ask for it or not."""
    machines = machines or request.machines
    return KubeVirtPlatform(
        Client(request.auth),
        request.node,
        machines=machines,
        metrics=request.metrics,
        controller_uuid=request.controller_uuid,
        policy=request.policy,
    )


def do_slice(
    platform: KubeVirtPlatform, request: Request, old: NodeRecord | None, saved: tuple[str, float], lock: Lock
) -> dict[str, Any]:
    """Work on the node, whose Lease is `lock`, and give the module's result; `cursor` is in it where the Lease is kept.

    `old`: the record; None: there is none. `saved`: its text as it was last written, and when by the platform's clock.
    Raises what service.run_slice raises.
    """
    if old is None and request.intent is Intent.ACTIVE:
        return nothing_to_restore(platform, request)
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
    known, gone = platform.records.instances, had_to_go(platform.records)
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
            partial(call_off, platform, engine, request),
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


def call_off(platform: KubeVirtPlatform, engine: Engine, request: Request, let_finish: bool) -> None:
    """End what this run has requested, for the abort of its roll: writes no longer ask the roll, which is closed."""

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


def note(platform: KubeVirtPlatform, request: Request, found: dict[str, Any]) -> None:
    """Events on the Node. Who may not write them is told, and works on."""
    node = platform.observer.own()
    if node is None:
        return
    cautions = [note_on_node(platform.client, node, one, platform.wall()) for one in notices(request, found)]
    if any(cautions):
        found["warnings"] = [*found.get("warnings", ()), *dict.fromkeys(filter(None, cautions))]


def nothing_to_restore(platform: KubeVirtPlatform, request: Request) -> dict[str, Any]:
    """The module's result of a restore where there is no record. Raises KubeError."""
    node = platform.client.get(names.node(request.node))
    found = report.nothing(Platform.KUBEVIRT, request)
    found = replace(found, cordoned_by_others=cordoned(node), closed=closed_beside_cordon(node))
    return found.to_dict(nudges=0, pods=[])


def check_now(
    platform: KubeVirtPlatform, request: Request, policy: Callable[[], Policy] | None = None
) -> tuple[dict[str, Any], Checked]:
    """Decide what a run would do now: the module's result, and what it was decided on. Only reads.

    `policy`: asked for once the cluster was read; None: the request's.
    """
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
