"""Carries out what the rules say: read the record, decide, write it if nobody else has.

Pure but for its store and its clock. Each function is a slice: it ends after `until`, and what it
returns says whether it is to be called again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.wall import after
from . import notifications, planned, reboot, rules, stages, status, table, words
from .owner import RollRefused, RollTakenOver, RollUnreadable, Watch, check_run, kept_elsewhere
from .record import OVER, Clock, Fleet, Roll, RollStore, Stage, State, write
from .rules import Answer, Ask, RollAnswer, Verdict
from .rules import answer as _answer

_PAUSE = 1.0  # seconds between two looks at the record
_TURN_PAUSE = 3.0  # seconds between two looks at the fleet
_FAR = 3  # times as long are both pauses of a host before which another one waits
_RENEW_AFTER = 10.0  # seconds of silence


def begin(
    store: RollStore, ask: Ask, clock: Clock, until: float, notes: Mapping[str, Any], check: bool = False
) -> RollAnswer:
    """Begin or carry on. Raises RollRefused when the old one lives, or is another one.

    `check`: nothing is written, and nobody waits.
    """
    watch = Watch(notes, clock.now())
    while True:
        old, seen = store.read()
        dead = watch.dead(old, clock)
        new = old is None or old.state in OVER
        fleet = store.fleet() if new or ask.terms.max_unavailable_per or ask.take_over else Fleet(())
        verdict = rules.begin(old, ask, dead, fleet, clock.wall())
        if verdict.answer is Answer.WATCH:
            if watch.moved or check:
                raise RollRefused(verdict.message)
            if clock.now() >= until:
                return _answer(verdict, old, watch=watch.to_dict())
            clock.sleep(_PAUSE)
            continue
        roll = verdict.roll or old
        if roll is None:  # no rule says so
            raise RollRefused(words.is_missing())
        if check or verdict.roll is None or write(store, roll, seen, clock):
            message = verdict.message or planned.header(roll.id, [*roll.hosts], None)
            told = {} if check or verdict.roll is None else notifications.begun(roll, message)
            return _answer(verdict, roll, order=rules.order(roll), to_plan=stages.is_before_its_first(roll), event=told)


def plan(
    store: RollStore,
    run: str,
    hosts: Sequence[str],
    seconds: Mapping[str, float],
    objections: Sequence[str],
    clock: Clock,
    check: bool = False,
) -> RollAnswer:
    """The roll that has begun goes on as planned; with objections it is over, and again it is the same answer.

    `hosts`: in the order of the plan. `check`: nothing is read or written. Raises RollTakenOver.
    """
    roll: Roll | None = None
    while not check:
        found, seen = store.read()
        roll = check_run(found, run, State.REFUSED)
        if roll.state is State.REFUSED or not stages.is_before_its_first(roll):
            break
        out = () if objections else store.fleet().out
        roll = planned.refused(roll, objections) if objections else planned.with_plan(roll, hosts, seconds, out)
        if write(store, roll, seen, clock):
            break
    if objections:
        stats = {} if roll is None else notifications.of_roll(roll.to_dict())
        return _answer(Verdict(Answer.CLOSED, None, words.cannot_be_done(objections)), roll, order=[], stats=stats)
    return _answer(Verdict(Answer.GO), roll, order=[*hosts] if roll is None else rules.order(roll))


def turn(
    store: RollStore,
    host: str,
    run: str,
    boot_id: str,
    clock: Clock,
    until: float,
    notes: Mapping[str, Any],
    patience: float,
    targets: Sequence[str] = (),
    called: tuple[str, float] = ("", 0.0),
) -> RollAnswer:
    """Wait for the turn of this host, and say what is left to be done with it; `begins`: it was not begun before.

    `notes`: of the slice before, and how long its playbook has done nothing else. `patience`:
    seconds to wait for hosts of others. `targets`: hosts to which the plan sends its VMs. `called`: UTC by
    the controller's clock as it called, and `clock.now()` then.
    """
    since = notes.get("since")
    rests, rests_for, watched = notes.get("rests"), notes.get("rests_for", 0), notes.get("watched", False)
    silent = notes.get("silent", {})
    while True:
        found, seen = store.read()
        roll = check_run(found, run, State.STOPPED, State.PAUSED, State.ENDED)
        waits = host in roll.hosts and roll.hosts[host].stage is Stage.WAITING
        fleet = store.fleet() if waits else Fleet(())
        now = clock.now()
        silent = {name: silent.get(name, now) for name in fleet.silent.difference(roll.out)}
        fleet = replace(fleet, silent=frozenset(name for name, at in silent.items() if now - at <= rules.SILENT_FOR))
        in_vain = since is not None and now - since > patience
        left = notes.get("alone_for", 0.0) > rules.LEFT_AFTER
        done = len(roll.in_stage(Stage.DONE))
        rests = now if rests is not None and done != rests_for else rests  # another one is done: from the start
        rested = 0.0 if rests is None else now - rests
        at_controller = after(called[0], now - called[1])
        verdict = rules.turn(
            roll, host, fleet, boot_id, clock.wall(), in_vain, left, rested, targets, watched, at_controller
        )
        if verdict.answer is Answer.WAIT:
            is_next = roll.in_stage(Stage.WAITING)[:1] == [host]
            watched = watched or not verdict.rests
            rests, rests_for = (now if rests is None else rests, done) if verdict.rests else (None, 0)
            since = (now if since is None else since) if verdict.for_others else None
            if now >= until:
                watch = {"since": since, "rests": rests, "rests_for": rests_for, "watched": watched, "silent": silent}
                return _answer(verdict, roll, watch=watch, is_next=is_next)
            _until_changed(store, roll, clock, now, 1 if is_next else _FAR)
            continue
        if verdict.roll is None or write(store, verdict.roll, seen, clock):
            steps = [step.value for step in verdict.steps]
            now_is = verdict.roll or roll
            ready = planned.ready(now_is, clock.wall())
            about = {"position": now_is.position(host), "ready": ready}
            return _answer(verdict, now_is, steps=steps, begins=waits, **about)


def note(
    store: RollStore,
    host: str,
    run: str,
    what: stages.Note,
    clock: Clock,
    until: float = 0.0,
    notes: Mapping[str, Any] | None = None,
    patience: float = 0.0,
) -> RollAnswer:
    """The host has come to this stage. A quorum host waits with its reboot for others of them that reboot, `patience`
    seconds at most; `notes`: of the slice before. Raises RollTakenOver, RollRefused."""
    stage, since = what.stage, (notes or {}).get("since")
    message = reboot.with_recovery(what.message, what.recovery)
    quorum_hosts = store.fleet().quorum_hosts if stage is Stage.REBOOTING else ()
    while True:
        now = clock.now()
        awaited = quorum_hosts if since is None or now - since <= patience else ()
        try:
            new = stages.come_to(store, host, run, replace(what, message=message), clock, awaited)
            break
        except stages.RebootsLater as exc:
            since = now if since is None else since
            if now >= until:
                verdict = Verdict(Answer.WAIT, None, words.reboots_later(host, exc.first), waits_for=tuple(exc.first))
                return _answer(verdict, None, watch={"since": since})
            clock.sleep(_TURN_PAUSE)
    failed = host if stage is Stage.FAILED else ""
    said = words.result(new, failed) if new.state in (State.STOPPED, State.PAUSED, State.ENDED) else ""
    recovers = stage is Stage.FAILED and reboot.recovers(new.hosts[host], what.recovery)
    return _answer(
        Verdict(Answer.GO, new, said), new, event=notifications.of_host(new, host), why=message, recovers=recovers
    )


def homeward(store: RollStore, run: str, hosts: Sequence[str]) -> RollAnswer:
    """Which VMs are to go back. `hosts`: of the play. `moves`: by these, the VMs of each host where they are. Raises
    RollTakenOver."""
    found, _seen = store.read()
    roll = check_run(found, run, State.STOPPED, State.PAUSED, State.ENDED)
    moves = stages.homeward(roll)
    by_host: dict[str, dict[str, list[dict[str, str]]]] = {}
    for move in moves:
        # A host that was half done and not named is no host of the play.
        does = move["home"] if move["home"] in hosts else hosts[0]
        by_host.setdefault(does, {}).setdefault(move["on"], []).append(move)
    parts = {host: [{"on": on, "moves": those} for on, those in by_place.items()] for host, by_place in by_host.items()}
    return _answer(Verdict(Answer.GO, None, words.goes_back(moves)), roll, moves=parts)


def came_back(store: RollStore, home: str, run: str, vm: str, moved: bool, why: str, clock: Clock) -> RollAnswer:
    """A VM is back on this host, or is not to be moved any more, or `why` it is not. Raises RollTakenOver."""
    new = stages.came_back(store, home, run, vm, moved, why, clock)
    return _answer(Verdict(Answer.GO, new), new)


def end(store: RollStore, run: str, clock: Clock) -> RollAnswer:
    """The playbook ends; again it is the same answer. Of a roll that was aborted it says how far that is. Raises
    RollTakenOver."""
    while True:
        found, seen = store.read()
        try:
            roll = check_run(found, run, State.STOPPED, State.PAUSED, State.ENDED)
        except RollTakenOver as exc:
            if found is None or found.state not in (State.ABORTING, State.ABORTED):
                raise
            stats, lines = notifications.of_roll(found.to_dict()), table.lines(found)
            verdict = Verdict(Answer.CLOSED, None, str(exc))
            return _answer(verdict, found, lines=lines, stats=stats, error=RollTakenOver.__name__)
        new = rules.end(roll)
        if new.state is roll.state or write(store, new, seen, clock):
            answer = Answer.DONE if new.state in (State.ENDED, State.PAUSED) else Answer.CLOSED
            said = "" if new.state is State.ENDED else words.result(new)
            stats = notifications.of_roll(new.to_dict())
            lines, told = table.lines(new), notifications.ended(new)
            return _answer(Verdict(answer, None, said), new, lines=lines, stats=stats, event=told)


def abort(
    store: RollStore,
    run: str,
    requester: str,
    clock: Clock,
    check: bool = False,
    playbook: str = "",
    let_finish: bool = False,
    until: float = 0.0,
    notes: Mapping[str, Any] | None = None,
) -> RollAnswer:
    """Stop the roll, whoever has it. `order`: the hosts that are to be given back, once those that are to reboot have
    gone down if they were asked to; VMs that were given back to one would go down with it. `notes`: of the slice
    before. `check`: nothing is written. Raises RollRefused for a roll that is kept elsewhere."""
    written: Roll | None = None
    since = (notes or {}).get("since")
    while True:
        roll, seen = store.read()
        if roll is None or roll.state in OVER:
            elsewhere = kept_elsewhere(roll, store.fleet())
            if elsewhere:
                raise RollRefused(elsewhere)
            return _answer(Verdict(Answer.DONE, None, words.no_roll(roll)), roll, order=[])
        if roll.run == run and roll.state is State.ABORTING:
            falls, now = roll.in_stage(Stage.REBOOTING), clock.now()
            since = now if since is None else since  # when they were noted is by another machine's clock
            if not falls or now - since >= rules.GOES_DOWN:
                return _answer(Verdict(Answer.GO, written, words.aborts(roll)), roll, order=roll.out)
            if now >= until:
                verdict = Verdict(Answer.WAIT, written, words.goes_down(falls), waits_for=tuple(falls))
                return _answer(verdict, roll, watch={"since": since})
            clock.sleep(_TURN_PAUSE)
            continue
        new = rules.abort(roll, run, requester, clock.wall(), playbook, let_finish)
        if check or write(store, new, seen, clock):
            if not check:
                written = new
                continue  # read anew: a host may be about to go down
            return _answer(Verdict(Answer.GO, None, words.aborts(roll, check)), roll, order=new.out)


def aborted(store: RollStore, run: str, clock: Clock) -> RollAnswer:
    """The abort's playbook has come to its end. Raises RollTakenOver."""
    while True:
        found, seen = store.read()
        if found is None or found.state in OVER:
            return _answer(Verdict(Answer.DONE), found)
        roll = check_run(found, run, State.ABORTING)
        fleet = store.fleet() if roll.out else Fleet(())
        new = rules.aborted(roll, fleet)
        if new.state is found.state or write(store, new, seen, clock):
            answer = Answer.DONE if new.state is State.ABORTED else Answer.CLOSED
            return _answer(Verdict(answer, None, words.how_aborted(new, fleet.gone(new.out))), new)


def renew(store: RollStore, run: str, clock: Clock, until: float, rank: int) -> RollAnswer:
    """Write to the record when nobody has for a while. Several do this, in case one cannot.

    Whoever asked for it may have been killed elsewhere, and left this behind on the host: then it no
    longer writes, or the roll would look alive. Raises RollTakenOver when there is nothing to be
    renewed any more.
    """
    patience = _RENEW_AFTER * (1 + rank)
    mark, since = -1, clock.now()
    while True:
        found, seen = store.read()
        roll = check_run(found, run, State.ABORTING)
        now = clock.now()
        if roll.beat != mark:
            mark, since = roll.beat, now
        elif now - since >= patience and clock.heard():
            write(store, roll, seen, clock)
        if now >= until or not clock.heard():
            return _answer(Verdict(Answer.GO), roll)
        clock.sleep(5 * _PAUSE)


def read(store: RollStore, now: str, ended: Callable[[str], bool] = lambda _process: False) -> RollAnswer:
    """The record as it is, and each host of the fleet, in words too. `now`: UTC. `ended`: as Clock has it.

    `unreadable`: why the record is not known; the hosts are, as far as they answer. `elsewhere`: that it is kept where
    it would not be by this inventory.
    """
    unreadable = ""
    try:
        roll, _seen = store.read()
    except RollUnreadable as exc:
        roll, unreadable = None, str(exc)
    fleet = store.fleet()
    elsewhere = "" if unreadable else kept_elsewhere(roll, fleet)
    roll = fleet.elsewhere if elsewhere else roll
    hosts = status.rows(roll, fleet, now)
    answer = _answer(Verdict(Answer.DONE), roll, hosts=hosts, unreadable=unreadable, elsewhere=elsewhere, read=now)
    answer["left"] = roll is not None and ended(roll.playbook)
    return {**answer, "message": "\n".join(status.report(answer, {})["lines"])}


def patiently(
    step: Callable[[], RollAnswer], clock: Clock, until: float, notes: Mapping[str, Any], patience: float
) -> RollAnswer:
    """The step, again while too few of the quorum hosts answer: in a small fleet that is so whenever one reboots.

    `notes`: of the slice before. Raises RollUnreadable after `patience` seconds, or when nobody of
    its playbook works that could end it.
    """
    since = notes.get("unreadable_since")
    while True:
        try:
            return step()
        except RollUnreadable as exc:
            now = clock.now()
            since = now if since is None else since
            alone = notes.get("alone_for", 0.0) > rules.LEFT_AFTER
            if alone or now - since > patience:
                raise
            if now >= until:
                verdict = Verdict(Answer.WAIT, None, f"{exc} Trying again.")
                return _answer(verdict, None, watch={**notes, "unreadable_since": since})
            clock.sleep(_TURN_PAUSE)


def without_record() -> RollAnswer:
    """Check mode: each host has its turn at once, and all would be done with it."""
    return _answer(Verdict(Answer.GO), None, steps=[step.value for step in rules.Step])


def _until_changed(store: RollStore, roll: Roll, clock: Clock, since: float, times: int) -> None:
    """Another host of the roll is done, or it is another's roll now: that is seen at once. What
    becomes of the fleet is seen a little later, for it is more to read. `times`: as long are the pauses."""
    while clock.now() < since + times * _TURN_PAUSE:
        clock.sleep(times * _PAUSE)
        found, _seen = store.read()
        if found is None or (found.run, found.beat) != (roll.run, roll.beat):
            return
