"""One slice of a run on one host: lock, record, loop, result. What the modules call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..._core.claims.admission import are_majority
from ..._core.decision import hooks
from ..._core.decision.actions import Do, NodePhase
from ..._core.decision.restore import leaves_nothing
from ..._core.model import failed_targets
from ..._core.model.policy import Policy
from ..._core.model.record import Intent, NodeRecord, RecordError
from ..._core.reasons.reason import Platform
from ..._core.roll.owner import calling_off
from ..._core.roll.record import Stage
from ..._core.run import report
from ..._core.run.engine import Engine, Slice, SliceEnd
from ..._core.run.start import check_owner, start
from ..._playbook import lives
from ..host.connection import HostUnreachable, is_lost, libvirt
from ..host.errors import PeerUnreachable
from ..host.slice_lock import one_at_a_time
from ..observe.host import Host, HostConfig, HostNow
from ..records import roll
from ..store.cordon import by_others
from .platform import LibvirtPlatform

RESTARTS = 20.0  # seconds for a libvirtd that is restarted


@dataclass(frozen=True)
class Request:
    """A request: who wants what for which host. `only`: UUID of one VM; `to`: its target.

    `begun`: an earlier slice of the same run has written the record. `speeds`: what is known of
    links and VMs, for the times that check mode foresees. `hooks_done`: answers, as `needs` asked.
    `controller_uuid`: of the machine that Ansible runs on. `roll_run`: the ansible-playbook that
    asks, as the record of a roll names it; `playbook`: its process, as lives.told has it. `live`: what becomes of VMs
    is to be shown soon.
    """

    own: HostConfig
    peers: Sequence[HostConfig]
    policy: Policy
    intent: Intent
    run_id: str
    requester: str = ""
    reason: str = ""
    seconds: float = 8.0
    begun: bool = False
    only: str = ""
    to: str = ""
    speeds: Mapping[str, Any] = field(default_factory=dict)
    hooks_done: Sequence[Mapping[str, Any]] = ()
    controller_uuid: str = ""
    roll_run: str = ""
    of_roll: bool = False
    playbook: str = ""
    live: bool = False

    @property
    def node(self) -> str:
        return self.own.name


def platform_of(request: Request, acts: bool = True) -> LibvirtPlatform:
    """The platform of the request's host; its writes ask whether the playbook lives. `acts` False: it only reads."""
    platform = LibvirtPlatform(
        request.own,
        request.peers,
        request.only,
        acts=acts,
        controller_uuid=request.controller_uuid,
        owner_note={"run": request.run_id, "by": request.requester},
    )
    if acts:
        platform.ask_before_writes(partial(lives.check, request.playbook))
    return platform


def run_slice(request: Request) -> dict[str, Any]:
    """Work for about `request.seconds`, then say how far it is.

    In the middle of a run libvirtd of the host may be restarted: that is waited for, and the slice begun anew.

    Raises HostUnreachable, PeerUnreachable, RecordError, Superseded, RollRefused and RollTakenOver
    for a host of another roll, and PolicyError for an answer to no hook; libvirt errors of single
    VMs are results.
    """
    until = 0.0
    while True:
        platform = platform_of(request)
        try:
            with one_at_a_time():
                return _in_turn(platform, request)
        except (HostUnreachable, libvirt.libvirtError) as exc:
            lost = exc.uri == request.own.uri if isinstance(exc, HostUnreachable) else is_lost(exc)
            until = until or time.monotonic() + RESTARTS
            if not lost or not (request.begun or platform.source.answered) or time.monotonic() > until:
                raise
        finally:
            platform.close()
        time.sleep(1.0)


def _in_turn(platform: LibvirtPlatform, request: Request) -> dict[str, Any]:
    """Run while no other run works on this host."""
    if request.only:
        return _slice(platform, request)
    beside: list[str] = []
    where, of_roll = calling_off(
        lambda: check_roll(platform, request, beside.append), partial(_end_what_was_begun, platform, request)
    )
    platform.before_write()
    if request.intent is Intent.ACTIVE and not request.begun:
        roll.note_seen(*where, Stage.RESTORING)
    with _asking_roll(platform, request) if of_roll else nullcontext():
        found = _slice(platform, replace(request, of_roll=of_roll))
    platform.before_write()
    if found["phase"] == NodePhase.DRAINED.value:
        roll.note_seen(*where, Stage.EMPTY)
    return with_warnings(found, beside)


def _end_what_was_begun(platform: LibvirtPlatform, request: Request, let_finish: bool) -> None:
    """End the migrations that earlier slices of this run have begun, where this one finds its roll aborted.
    `let_finish`: those that run may end. Raises RecordError, Superseded."""
    record = platform.load()
    check_owner(record, request)
    if record is not None and request.begun:
        _call_off(platform, _engine(platform, request, record), request, let_finish)


def _engine(platform: LibvirtPlatform, request: Request, record: NodeRecord) -> Engine:
    drains = request.intent is Intent.DRAINED and not request.only
    platform.few.begin(record, request.policy, platform.now(), drains and request.begun)
    return Engine(platform, request.policy, record, read_all=platform.few.read_all)


def with_warnings(found: dict[str, Any], more: list[str]) -> dict[str, Any]:
    """The result with these warnings before its own."""
    return {**found, "warnings": [*more, *found.get("warnings", ())]} if more else found


def check_roll(
    platform: LibvirtPlatform, request: Request, tell: Callable[[str], None]
) -> tuple[tuple[Mapping[str, Host], Sequence[str], str, str], bool]:
    """(what note_seen takes, does the host belong to a roll of the one who asks?). Raises RollRefused, RollTakenOver
    for a host of another's roll, and RecordError."""
    where = platform.hosts, platform.quorum_hosts, request.own.name, request.roll_run
    return where, roll.check_host(*where, begun=request.begun, drains=request.intent is Intent.DRAINED, tell=tell)


@contextmanager
def _asking_roll(platform: LibvirtPlatform, request: Request) -> Iterator[None]:
    """Before each write: does the playbook live, and the roll for which it is done? On connections of its own, since
    the observer's may be waiting for an answer."""
    hosts = roll.fleet_of(request.own, request.peers)
    record = roll.RollVolumes(hosts, platform.quorum_hosts)

    def before_write() -> None:
        lives.check(request.playbook)
        roll.check_write(record, request.roll_run)

    before, platform.before_write = platform.before_write, before_write
    try:
        yield
    finally:
        platform.before_write = before
        record.close()
        for host in hosts.values():
            host.close()


def _slice(platform: LibvirtPlatform, request: Request) -> dict[str, Any]:
    old = platform.load()
    check_owner(old, request)
    if old is None and request.intent is Intent.ACTIVE and (request.begun or not request.only):
        return _nothing_to_restore(platform, request)
    if old is None:
        peers_answer(platform, request, platform.observer.read_hosts())
    before = report.old_news(request, old)
    record = start(platform, request, old)
    record.playbook = request.playbook
    hooks.record_answers(record, request.hooks_done)  # its first step writes them
    drains = request.intent is Intent.DRAINED and not request.only
    engine = _engine(platform, request, record)
    outcome = calling_off(
        lambda: engine.run(platform.now() + request.seconds, live=request.live),
        partial(_call_off, platform, engine, request),
    )
    warnings = [*platform.warnings, *failed_targets.warnings(outcome.record)]  # before they go with the record
    over = request.only and outcome.ended is SliceEnd.FINAL
    if over and leaves_nothing(outcome.record, outcome.observation):
        platform.keep_history(outcome.record)
        platform.forget(outcome.record)
        warnings = [*dict.fromkeys([*warnings, *platform.warnings])]
    elif _endings(outcome.record) != _endings(old) and not any(
        action.do is Do.FORGET for action in outcome.actions_done
    ):
        platform.renew_copies(outcome.record)
    if drains and outcome.ended is not SliceEnd.FINAL:
        platform.few.end(outcome.observation, outcome.record)
    return _reported(outcome, request).to_dict(**before, **({"warnings": warnings} if warnings else {}))


def _call_off(platform: LibvirtPlatform, engine: Engine, request: Request, let_finish: bool) -> None:
    """End what this run has begun, for the abort of its roll: writes no longer ask the roll, which is closed."""
    platform.ask_before_writes(partial(lives.check, request.playbook))
    engine.call_off(let_finish)


def _endings(record: NodeRecord | None) -> dict[str, str]:
    return {} if record is None else {uuid: vm.ending for uuid, vm in record.vms.items()}


def peers_answer(platform: LibvirtPlatform, request: Request, reads: Mapping[str, HostNow]) -> None:
    """Check, before anything is changed, that the hosts answer without which no VM can move. Raises PeerUnreachable.

    They are the target that was asked for, a majority of the quorum hosts, and any peer at all.
    One other peer that is off is no target, and holds up nothing.
    """
    mine = reads.get(request.own.name)
    if request.intent not in {Intent.DRAINED, Intent.MIGRATED} or mine is None:
        return
    if not request.only and not any(domain.active for domain in mine.domains.values()):
        return
    needed: dict[str, str] = {}
    counting = [name for name in platform.quorum_hosts if name in reads and not reads[name].error]
    if not are_majority(counting, platform.quorum_hosts):
        text = f"Slots are counted on {', '.join(platform.quorum_hosts)}, and a majority of them must answer"
        needed = dict.fromkeys(platform.quorum_hosts, text)
    if request.to:
        needed[request.to] = f"{request.to} is the target"
    peers = [peer.name for peer in request.peers]
    if peers and all(name in reads and reads[name].error for name in peers):
        needed.update(dict.fromkeys(peers, "No peer answers"))
    dead = {name: why for name, why in needed.items() if name in reads and reads[name].error}
    if dead:
        raise PeerUnreachable(
            f"{', '.join(dead)} cannot be read. {'; '.join(dict.fromkeys(dead.values()))}, so no"
            f" VM can move. Nothing was changed. Repair the connection, then run again. "
            f"{'; '.join(f'{name}: {reads[name].error}' for name in dead)}"
        )


def _nothing_to_restore(platform: LibvirtPlatform, request: Request) -> dict[str, Any]:
    if not request.only:
        platform.release_left()
    foreign = platform.source.read(False).cordoned
    found = replace(report.nothing(Platform.LIBVIRT, request), cordoned_by_others=foreign)
    warnings = platform.warnings
    return found.to_dict(**({"warnings": warnings} if warnings else {}))


def _reported(outcome: Slice, request: Request) -> report.Report:
    found = report.of_slice(outcome, request)
    return replace(
        found,
        changed=found.changed or bool(request.hooks_done),
        needs=hooks.pending_rows(outcome.decision, outcome.record),
        cordoned_by_others=by_others(outcome.observation.nodes[request.node], outcome.record),
    )


__all__ = ["RecordError", "Request", "platform_of", "run_slice"]
