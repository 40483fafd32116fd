"""Whose a roll is, and whether a drain or a restore of one of its hosts may begin beside it.

A roll is alive as long as its record is written: each stage is, and while the user's tasks run or a
host reboots the playbook writes to it every few seconds. It is dead when nobody wrote for LEASE
seconds of the clock of who looks; nobody's wall time is believed. On the same machine it is dead as soon as its
playbook is. Only then, or because the user
says so, does another playbook carry it on. The old one finds that out with its next step, and
stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from . import words
from .record import OVER, Clock, Fleet, Roll, RollRecord, Stage, State

# Seconds. The playbook writes every 10 s; a controller without a processor for half a minute is
# alive. The price: the same command given again after a kill waits for a minute.
LEASE = 60.0
# Seconds for which an answer of the roll is acted on, from when it was asked for: within LEASE nobody takes a roll for
# dead, and the act needs some of them.
FRESH = 0.75 * LEASE
_PAUSE = 1.0  # seconds between two looks at the record
T = TypeVar("T")


class RollTakenOver(Exception):
    """Another playbook carries this roll on, or it was aborted: this one does nothing more.

    `let_finish`: may its migrations end that run? None: it was not aborted.
    """

    let_finish: bool | None = None


class PlaybookEnded(RollTakenOver):
    """The ansible-playbook for which this works is no longer there."""


class RollRefused(Exception):
    """There is a roll that must not be disturbed. Nothing was done."""


class RollUnreadable(Exception):
    """Too few of the quorum hosts answer, so the record of a roll cannot be read."""


class Watch:
    """Since when the record has not changed, by the clock of who looks.

    `notes`: of the slice before, as `to_dict` gave them. `moved`: it changed while we looked.
    """

    def __init__(self, notes: Mapping[str, Any], now: float) -> None:
        self._mark = str(notes.get("mark", ""))
        self._since = float(notes.get("since", now))
        self.moved = False

    def dead(self, roll: Roll | None, clock: Clock) -> bool:
        """Has nobody written for LEASE seconds, or has its playbook ended?"""
        now = clock.now()
        mark = f"{roll.run} {roll.beat}" if roll else ""
        if mark != self._mark or self._since > now:
            self.moved = bool(self._mark) and mark != self._mark
            self._mark, self._since = mark, now
        return now - self._since > LEASE or (roll is not None and clock.ended(roll.playbook))

    def to_dict(self) -> dict[str, Any]:
        return {"mark": self._mark, "since": self._since}


def check_run(roll: Roll | None, run: str, *also: State) -> Roll:
    """The roll, if it still is that of this run, and runs. `also`: or is in one of these states.

    Raises RollTakenOver.
    """
    if roll is None:
        raise RollTakenOver(words.is_missing())
    if roll.run != run or roll.state not in (State.RUNNING, *also):
        error = RollTakenOver(words.is_taken_over(roll, run))
        if roll.state is State.ABORTING:
            error.let_finish = roll.let_finish
        raise error
    return roll


def too_old(host: str, asked: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Why the last answer about this host is not acted on any more, or empty: that its roll goes on with it, or that it
    is dead. A controller may have been stopped since, or have slept, and the host may be in service again.

    `asked`: when it was asked for, by several clocks, as some stand still with their machine; `now`: by the same ones.
    """
    passed = max(now[clock] - at for clock, at in asked.items())
    if passed <= FRESH:
        return ""
    return (
        f"{passed:.0f} s passed since it was asked whether to go on with {host}, which may be in service again by now: "
        "the controller stood still, or a host answers too slowly. So nothing more was done there; give the same "
        "command again"
    )


def calling_off(work: Callable[[], T], call_off: Callable[[bool], None]) -> T:
    """A slice of a roll. Where `work` finds that the roll was aborted, `call_off` ends what is under way, at once: who
    aborts it comes to that only after a start of Python for each host. It takes RollTakenOver.let_finish.

    What fails in `call_off` is left to the restore that the abort makes, which does the same and says so.
    """
    try:
        return work()
    except RollTakenOver as exc:
        if exc.let_finish is not None:
            try:
                call_off(exc.let_finish)
            except Exception as error:
                raise exc from error
        raise


def kept_elsewhere(roll: Roll | None, fleet: Fleet) -> str:
    """Why there is a roll, though by the record that was read (`roll`) there is none; '': there is none.

    Hosts were added to the inventory, or taken out, and so the record belongs on others now. What is older than the
    last roll that is known was left behind by a host that was off.
    """
    other = fleet.elsewhere
    if other is None or (roll is not None and (roll.state not in OVER or roll.begun >= other.begun)):
        return ""
    return words.is_kept_elsewhere(other, fleet.kept_on)


def refusal(roll: Roll | None, host: str, run: str, drains: bool) -> str:
    """Why a drain or restore by `run` must keep off this host while that roll lives; '': it may.

    A stopped roll works on nothing. A host that is done can be restored, which does nothing; a drain would take it
    out beside the one that the roll is at.
    """
    if roll is None or roll.run == run or roll.state not in (State.RUNNING, State.ABORTING):
        return ""
    entry = roll.hosts.get(host)
    if entry is None or (entry.stage is Stage.DONE and not drains):
        return ""
    return words.belongs_to(roll, entry)


def beside(roll: Roll | None, host: str, drains: bool) -> str:
    """The warning for a drain or restore that begins beside a roll that is not over and that nobody carries on; '':
    none is needed. The roll's next command finds the fleet otherwise than it left it."""
    if roll is None or roll.state in OVER or not (drains or host in roll.out):
        return ""
    return words.lies(roll, host)


def check_write(store: RollRecord, run: str) -> None:
    """Before each write of a drain or restore that belongs to the roll of `run`: it has not been closed since, whoever
    works for it still. Raises RollTakenOver."""
    check_run(store.read()[0], run, State.ABORTING)


def check_host(
    store: RollRecord,
    host: str,
    run: str,
    clock: Clock,
    begun: bool,
    drains: bool,
    tell: Callable[[str], None] = lambda _text: None,
) -> bool:
    """Before a slice of a drain or restore of this host by `run`: is it of another's roll?

    True: it is of this run's own, so each write asks again (`check_write`). Before the first slice it takes LEASE
    seconds to be sure that another's roll is dead. `tell`: takes what `beside` says. Raises RollRefused,
    RollTakenOver.
    """
    roll, _seen = store.read()
    if roll is not None and roll.run == run:
        check_run(roll, run, State.ABORTING)
        return True
    if roll is not None and run and roll.run_before == run:
        check_run(roll, run)  # it is not, and whether it was aborted is said with that
    if begun:
        if roll is not None and host in roll.out and refusal(roll, host, run, drains):
            raise RollTakenOver(words.is_taken_over(roll, run))
        return False
    text = beside(_let(store, clock, roll, lambda found: refusal(found, host, run, drains)), host, drains)
    if text:
        tell(text)
    return False


def check_dead(store: RollRecord, host: str, run: str, clock: Clock) -> Roll | None:
    """Before the recovery of this host by `run`: a roll that works on it, and lives, waits for it. It ends by itself,
    or says that the host does not come back. The roll as it was read. Raises RollRefused."""

    def works_on_it(found: Roll | None) -> str:
        entry = found.hosts.get(host) if found is not None else None
        if entry is None or not entry.is_out or entry.stage is Stage.FAILED:
            return ""
        return refusal(found, host, run, drains=True)

    return _let(store, clock, store.read()[0], works_on_it)


def _let(store: RollRecord, clock: Clock, roll: Roll | None, why: Callable[[Roll | None], str]) -> Roll | None:
    """The roll, once it is seen to be dead, or is no hindrance. Raises RollRefused when it is seen to live."""
    watch = Watch({}, clock.now())
    while text := why(roll):
        dead = watch.dead(roll, clock)
        if watch.moved:
            raise RollRefused(text)
        if dead:
            break
        clock.sleep(_PAUSE)
        roll, _seen = store.read()
    return roll
