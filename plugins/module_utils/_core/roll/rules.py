"""Decide who may begin a roll, continue it, or take the next host. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypedDict, cast

from ..model.wall import between
from . import out_together, stages, words
from .owner import RollRefused, kept_elsewhere
from .record import OVER, Fleet, HostEntry, Roll, Stage, State
from .terms import Terms

# Seconds without any other host at work in the playbook: those under way were left in the middle, without an error.
LEFT_AFTER = 60.0
# Seconds from when a roll is no longer that of its playbook: in 45 of them that may still ask a host to reboot
# (owner.FRESH).
GOES_DOWN = 60.0
# Seconds for which a host that is silent is waited for, before the next one is not begun for it.
SILENT_FOR = 120.0


@dataclass(frozen=True)
class Ask:
    """The roll that somebody wants. `take_over`: also from one that lives, or has other options."""

    id: str
    run: str
    hosts: Sequence[str]
    terms: Terms = field(default_factory=Terms)
    requester: str = ""
    reason: str = ""
    take_over: bool = False
    playbook: str = ""


class Answer(str, Enum):
    """GO: do it. WATCH: look again, it is not known whether the old one lives. WAIT: for a place.
    CLOSED: never in this roll. DONE: there is nothing left to do."""

    GO = "go"
    WATCH = "watch"
    WAIT = "wait"
    CLOSED = "closed"
    DONE = "done"


class Step(str, Enum):
    """The steps with a host of a roll, in this order."""

    DRAIN = "drain"
    WORK = "work"
    REBOOT = "reboot"
    CHECK = "check"
    RESTORE = "restore"


@dataclass(frozen=True)
class Verdict:
    """`roll`: as it is to be written; None: nothing is written. `steps`: what the host still needs.

    `for_others`: it waits for hosts that somebody else has to give back. `rests`: for the time alone.
    `waits_for`: all it waits for.
    """

    answer: Answer
    roll: Roll | None = None
    message: str = ""
    steps: tuple[Step, ...] = ()
    for_others: bool = False
    rests: bool = False
    waits_for: tuple[str, ...] = ()


class _Answered(TypedDict):
    """`answer`: of Answer. `ended`: out_of_time, when it is to be asked again with `watch`, or final.
    `message`: for people; it may be empty. `roll`: the record, as Roll.to_dict has it; None: there is none, or it was
    not read. `waits_for`: hosts, in words."""

    answer: str
    ended: str
    message: str
    roll: dict[str, Any] | None
    changed: bool
    waits_for: list[str]


class RollAnswer(_Answered, total=False):
    """The result of a step. Each step has some of these keys, always the same ones."""

    watch: dict[str, Any]  # what the next slice of the same step is given as `notes`
    error: str  # class of an error that is no failure here
    event: dict[str, Any]  # for notifications, as in `notifications`; empty: none
    # begin, plan, abort
    order: list[str]  # hosts, as they come; of an abort those that are to be given back
    to_plan: bool  # no host was begun yet
    # turn
    steps: list[str]  # of Step, that are left of the host
    begins: bool  # it was not begun before
    position: str  # "2/7"
    ready: str  # when the roll is; empty: not known
    is_next: bool  # of those that wait it is the first
    # note
    why: str  # its message, with what becomes of the host
    recovers: bool  # the recovery is to try it
    # homeward
    moves: dict[str, list[dict[str, Any]]]  # host of the play -> where VMs are (`on`), and `moves` from there
    # plan, end
    lines: list[str]
    stats: dict[str, Any]  # as notifications.of_roll
    # read
    hosts: list[dict[str, Any]]  # of the fleet, as status.rows
    unreadable: str  # why the record is not known
    elsewhere: str  # that it is kept where this inventory would not keep it
    read: str  # when: UTC
    left: bool  # its playbook has ended


def answer(verdict: Verdict, roll: Roll | None, **more: Any) -> RollAnswer:
    waits = verdict.answer in (Answer.WAIT, Answer.WATCH)
    always: _Answered = {
        "answer": verdict.answer.value,
        "ended": "out_of_time" if waits else "final",
        "message": verdict.message,
        "roll": None if roll is None else roll.to_dict(),
        "changed": verdict.roll is not None,
        "waits_for": list(verdict.waits_for),
    }
    return cast(RollAnswer, {**always, **more})


_ALL = (Step.DRAIN, Step.WORK, Step.REBOOT, Step.CHECK, Step.RESTORE)
_LEFT: dict[Stage, tuple[Step, ...]] = {
    Stage.CHECKING: (Step.CHECK, Step.RESTORE),
    Stage.RESTORING: (Step.CHECK, Step.RESTORE),
    Stage.DONE: (),
}


def begin(old: Roll | None, ask: Ask, dead: bool, fleet: Fleet, now: str) -> Verdict:
    """May the roll that `ask` wants begin, or an old one be carried on? `dead`: proven of the old
    one.

    Raises RollRefused for other options than those of an unfinished roll, for a pause at no host of it, for a host of
    which it is not known in which rack it is, or whatever else has a limit, and for a roll that is kept elsewhere.
    """
    if old is not None and old.run == ask.run and old.state is State.RUNNING:
        return Verdict(Answer.GO)
    if ask.terms.pause_after not in ("", *ask.hosts):
        raise RollRefused(words.pauses_nowhere(ask.terms.pause_after, ask.hosts))
    if old is None or old.state in OVER:
        elsewhere = kept_elsewhere(old, fleet)
        if elsewhere and not ask.take_over:
            raise RollRefused(elsewhere)
        return Verdict(Answer.GO, _with_groups(_new(ask, fleet, now), fleet))
    lives = old.state in (State.RUNNING, State.ABORTING) and not dead
    if lives and not ask.take_over:
        return Verdict(Answer.WATCH, None, words.is_under_way(old))
    differs = words.differences(old, ask.hosts, ask.terms.options)
    if (differs or old.state is State.ABORTING) and not ask.take_over:
        raise RollRefused(words.is_unfinished(old, differs))
    roll = _with_groups(_resumed(old, ask, now, fleet), fleet)
    return Verdict(Answer.GO, roll, words.is_resumed(old, roll))


def _new(ask: Ask, fleet: Fleet, now: str) -> Roll:
    """Hosts that are out already come first: their turn takes no further host out of service."""
    order = sorted(ask.hosts, key=lambda name: name not in fleet.out)
    return Roll(
        id=ask.id,
        run=ask.run,
        requester=ask.requester,
        reason=ask.reason,
        begun=now,
        hosts={name: HostEntry(name, Stage.WAITING, now) for name in order},
        terms=ask.terms,
        written=now,
        playbook=ask.playbook,
    )


def _resumed(old: Roll, ask: Ask, now: str, fleet: Fleet) -> Roll:
    """The same roll under another run. What failed is tried again from where it failed. With other
    hosts (a take-over), those that are half done stay in it, unless they are gone: somebody has to bring them back."""
    roll = copy.deepcopy(old)
    _lay(roll, now)
    roll.run, roll.run_before, roll.playbook = ask.run, old.run, ask.playbook
    roll.state, roll.written = State.RUNNING, now
    roll.requester, roll.reason = ask.requester or old.requester, ask.reason or old.reason
    roll.paused = ""
    roll.terms = replace(ask.terms, seconds={**old.terms.seconds, **ask.terms.seconds})
    at = roll.hosts.get(ask.terms.pause_after)
    if at is not None and at.stage is Stage.DONE:  # the same command goes on: it has paused there already
        roll.terms = replace(roll.terms, pause_after="")
    for entry in [*roll.hosts.values()]:
        if entry.stage is Stage.GIVEN_BACK:  # it begins anew, with its work and its reboot
            roll.hosts[entry.name] = HostEntry(
                entry.name, since=entry.since, tally=entry.tally, away=entry.away, carried_on=entry.carried_on
            )
            continue
        if entry.stage is Stage.FAILED:
            entry.stage, entry.since = entry.failed_in or Stage.DRAINING, now
        entry.failed_in, entry.message = None, ""
        entry.carried_on = entry.carried_on or entry.is_out
    wanted = {name: roll.hosts.get(name) or HostEntry(name, Stage.WAITING, now) for name in ask.hosts}
    gone = [name for name in fleet.gone([*roll.hosts]) if name not in ask.hosts]
    half_done = {name: entry for name, entry in roll.hosts.items() if entry.is_out and name not in gone}
    roll.hosts = {**half_done, **{name: e for name, e in wanted.items() if name not in half_done}}
    return roll


def _lay(roll: Roll, now: str) -> None:
    """Count the time for which nobody worked on it: on a host since it failed, else since the last word of its
    playbook."""
    roll.idle += round(max(0.0, between(roll.written, now)))
    for entry in roll.hosts.values():
        if entry.is_out:
            since = entry.since if entry.stage is Stage.FAILED else roll.written
            lay = round(max(0.0, between(since, now)))
            entry.idle += lay
            entry.idle_draining += 0 if entry.emptied else lay


def _with_groups(roll: Roll, fleet: Fleet) -> Roll:
    unknown = out_together.in_no_group(roll, fleet)
    if unknown:
        raise RollRefused(words.is_in_no_group(unknown))
    return roll


def abort(roll: Roll, run: str, requester: str, now: str, playbook: str = "", let_finish: bool = False) -> Roll:
    """Nothing of the roll goes on, and `run` gives back what is out. Its own playbook learns it
    with its next step."""
    new = copy.deepcopy(roll)
    new.run, new.run_before, new.playbook = run, roll.run, playbook
    new.state, new.written, new.let_finish = State.ABORTING, now, let_finish
    new.requester = requester or roll.requester
    return new


def aborted(roll: Roll, fleet: Fleet) -> Roll:
    """All hosts that were out have been given back or are gone, or the abort is not over."""
    new = copy.deepcopy(roll)
    if not set(new.out).difference(fleet.gone(new.out)):
        new.state = State.ABORTED
    return new


def order(roll: Roll) -> list[str]:
    """The hosts that the playbook goes through: half done ones first; no host that is done."""
    left = [entry for entry in roll.hosts.values() if entry.stage is not Stage.DONE]
    return [entry.name for entry in sorted(left, key=lambda entry: not entry.is_out)]


def turn(
    roll: Roll,
    host: str,
    fleet: Fleet,
    boot_id: str,
    now: str,
    in_vain: bool = False,
    left: bool = False,
    rested: float = 0.0,
    targets: Sequence[str] = (),
    watched: bool = False,
    at_controller: str = "",
) -> Verdict:
    """May this host begin, and what is left to be done with it? `boot_id`: that of the host now.

    `in_vain`: it has waited long enough for hosts of others. `left`: nobody works in its playbook.
    `rested`: seconds for which it has waited for the soak. `watched`: before that it waited for hosts under way.
    `targets`: hosts to which the plan sends its VMs. `at_controller`: by its clock the window ends; '': by `now`.
    """
    entry = roll.hosts.get(host)
    if entry is None:
        return Verdict(Answer.CLOSED, None, words.is_not_of_it(roll, host))
    if roll.state in (State.STOPPED, State.PAUSED):  # by another host, just now
        return Verdict(Answer.CLOSED, None, words.is_stopped(roll, host))
    if entry.stage is Stage.DONE:
        return Verdict(Answer.DONE, None, words.is_done(host))
    if entry.stage is Stage.FAILED:
        return Verdict(Answer.CLOSED, None, words.has_failed(entry))
    if entry.stage is not Stage.WAITING:
        still = steps(entry, boot_id)
        again = stages.with_stage(roll, host, Stage.DRAINING, now) if Step.DRAIN in still else None
        return Verdict(Answer.GO, again, words.carries_on(entry), still)
    if not stages.may_begin(roll):
        return Verdict(Answer.CLOSED, None, words.is_closed(host, roll.in_stage(Stage.FAILED), roll.paused))
    over = out_together.is_over(roll, at_controller or now)
    if over:
        return Verdict(Answer.CLOSED, stages.paused(roll, over), words.is_closed(host, (), over))
    away = {} if left else out_together.coming_back(roll, host, targets)
    rest = out_together.soaks(roll, now, rested, watched)
    over = out_together.too_long(roll, host, at_controller or now, rest[1])
    return _place(roll, host, fleet, now, in_vain, left, rest[0], over, away)


def _place(
    roll: Roll,
    host: str,
    fleet: Fleet,
    now: str,
    in_vain: bool,
    left: bool,
    rests_after: str,
    over: str,
    away: Mapping[str, str],
) -> Verdict:
    """Is there a place for a host that waits? Those before it in the order have theirs first. `rests_after`: the host
    after which it still has to rest. `over`: why the window has no time left for it. `away`: hosts that its VMs need,
    and why they are not there yet."""
    out = out_together.unavailable(roll, fleet, host)
    ahead = [] if left else out_together.before(roll, fleet, host)
    if not out_together.used_up(roll, fleet, host, {**out, **dict.fromkeys(ahead, "")}):
        if away:
            return Verdict(Answer.WAIT, None, words.waits_for_targets(host, away), waits_for=tuple(away))
        if over:
            return Verdict(Answer.CLOSED, stages.paused(roll, over), words.is_closed(host, (), over))
        if rests_after:
            return Verdict(Answer.WAIT, None, words.soaks(roll, host, rests_after), rests=True)
        return Verdict(Answer.GO, stages.with_stage(roll, host, Stage.DRAINING, now), "", _ALL)
    limit = out_together.used_up(roll, fleet, host, out)
    if limit is None:
        return Verdict(Answer.WAIT, None, words.comes_later(host, ahead), waits_for=tuple(ahead))
    return _no_place(roll, host, fleet, limit, now, in_vain, left)


def _no_place(
    roll: Roll, host: str, fleet: Fleet, limit: out_together.Limit, now: str, in_vain: bool, left: bool
) -> Verdict:
    """It waits for hosts that somebody brings back, and for those that are silent. If nobody works on them, it is not
    begun."""
    out, waiting = limit.out, roll.in_stage(Stage.WAITING)
    own = [name for name in out if name in roll.hosts and roll.hosts[name].is_out]
    coming = [name for name in out if name in waiting]
    under_way = [name for name in own if roll.hosts[name].stage is not Stage.FAILED]
    others = [name for name in out if name in fleet.busy | fleet.silent]
    if under_way and left:
        new = roll
        for name in under_way:
            new = stages.with_stage(new, name, Stage.FAILED, now, "", words.was_left())
        return Verdict(Answer.CLOSED, new, words.is_closed(host, under_way))
    message = words.waits_for_place(host, limit.most, out, limit.of)
    if under_way or (coming and len(own) < limit.most):
        return Verdict(Answer.WAIT, None, message, waits_for=tuple(out))
    if others and not in_vain:
        return Verdict(Answer.WAIT, None, message, for_others=True, waits_for=tuple(out))
    message = words.no_place(host, limit.most, out, limit.of)
    new = stages.with_stage(roll, host, Stage.WAITING, now, "", message)
    if stages.may_begin(roll) and any(
        not out_together.used_up(roll, fleet, name, out_together.unavailable(roll, fleet, name)) for name in waiting
    ):
        new.state = roll.state  # of another rack
    return Verdict(Answer.CLOSED, new, message)


def steps(entry: HostEntry, boot_id: str) -> tuple[Step, ...]:
    """The steps that are left of a host that was begun. Work that ended is not done again, work that had only begun is;
    a reboot is not repeated if the host has another boot id (`boot_id`: the one of now) than before it."""
    rebooted = stages.has_rebooted(entry, boot_id)
    if entry.stage is Stage.REBOOTING and rebooted:
        return (Step.CHECK, Step.RESTORE)
    left = _LEFT.get(entry.stage, _ALL)
    over = {Step.WORK: entry.worked, Step.REBOOT: rebooted}
    return tuple(step for step in left if not over.get(step))


def end(roll: Roll) -> Roll:
    """Its playbook has ended. What is not over waits for the same command."""
    new = copy.deepcopy(roll)
    if new.state is State.RUNNING:
        new.state = State.ENDED if new.is_through else stages.stopped(new)
    return new
