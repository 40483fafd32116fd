"""The record of a roll: generations of a volume on the quorum hosts.

Each generation is created, which libvirt does for one of two, on the hosts in the same order. It
counts when most of them have it; then the older ones go. Whoever creates one reads that host again
and takes it back where somebody else wrote meanwhile. Two majorities share a host, so a reader who
gets an answer from most of the hosts sees the last one that counts.
"""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

from ..._core.claims.admission import are_majority
from ..._core.model.record import RecordError
from ..._core.recovery.record import Recovery
from ..._core.roll import owner, stages
from ..._core.roll.owner import RollUnreadable
from ..._core.roll.record import NOTE_PATIENCE, OVER, OWN_DRAIN, Clock, Fleet, Roll, Stage, State
from ..._playbook.lives import has_ended, heard
from ..host.connection import HostUnreachable, libvirt
from ..observe.host import Host, HostConfig
from ..observe.patience import Task, Threads
from ..observe.peers import KNOWN_SILENT, PATIENCE, check_machines, open_peer
from ..store.names import CORDON, split_generation
from ..store.volumes import StoreError, VolumeTorn

PREFIX, RECOVERY = "roll", "recovery"
# Seconds for the others after most have answered: one that reboots must not hold up each step.
_GRACE = 2.0
_AGAIN = 3.0  # seconds between two tries to write what was seen
_LATE = "did not answer in time"
T = TypeVar("T")
Seen = Mapping[str, frozenset[int]]


def system_clock() -> Clock:
    """Boot time, which goes on while the machine sleeps; and UTC for people."""
    return Clock(
        lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        lambda: datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        time.sleep,
        heard,
        has_ended,
    )


def fleet_of(own: HostConfig, peers: Iterable[HostConfig], acts: bool = True) -> dict[str, Host]:
    """The hosts of a fleet by name; each is connected to when it is first asked. `acts` False: check mode."""
    return {own.name: Host(own, acts=acts), **{peer.name: Host(peer, open_peer, acts=acts) for peer in peers}}


def check_host(
    hosts: Mapping[str, Host],
    quorum_hosts: Sequence[str],
    host: str,
    roll_run: str,
    begun: bool,
    drains: bool,
    tell: Callable[[str], None] = lambda _text: None,
) -> bool:
    """Before a slice on this host: is it of a roll that is another's? True: of this run's own, and `check_write` is to
    be asked. `tell`: takes what is to be said of a roll that is not over. Raises RollRefused, RollTakenOver,
    RecordError.

    Where most of the quorum hosts are silent, those that answer are believed: a host can be put back while its peers
    are down.
    """
    volumes = RollVolumes(hosts, quorum_hosts)
    try:
        return owner.check_host(volumes, host, roll_run, system_clock(), begun, drains, tell)
    except RollUnreadable:
        roll = volumes.read_any()
        why = owner.refusal(roll, host, roll_run, drains)
        if why:
            raise owner.RollRefused(why) from None
        return roll is not None and roll.run == roll_run
    finally:
        volumes.close()


def check_dead(hosts: Mapping[str, Host], quorum_hosts: Sequence[str], host: str, roll_run: str) -> Roll | None:
    """Before this host is recovered: no roll works on it. Gives the roll that there is; None: there is none, or too few
    hosts answer to tell. Raises RollRefused, RecordError."""
    volumes = RollVolumes(hosts, quorum_hosts)
    try:
        return owner.check_dead(volumes, host, roll_run, system_clock())
    except RollUnreadable:
        return None  # what is written of the recovery needs most of them, too
    finally:
        volumes.close()


def check_write(volumes: RollVolumes, roll_run: str) -> None:
    """Before each write of a slice that belongs to the roll of this run. Where most of the quorum hosts are silent,
    those that answer are believed, as before the slice. Raises RollTakenOver, RecordError."""
    try:
        owner.check_write(volumes, roll_run)
    except RollUnreadable:
        known = volumes.read_any()
        if known is not None:
            owner.check_run(known, roll_run, State.ABORTING)


def note_seen(hosts: Mapping[str, Host], quorum_hosts: Sequence[str], host: str, roll_run: str, stage: Stage) -> None:
    """A slice has seen this stage. Of a roll of its own it is written again while quorum hosts reboot:
    without it the next stage is refused, as not proven."""
    volumes, clock = RollVolumes(hosts, quorum_hosts), system_clock()
    until = clock.now() + NOTE_PATIENCE
    try:
        while True:
            try:
                stages.note_seen(volumes, host, roll_run, stage, clock)
                return
            except RollUnreadable:
                known = volumes.read_any()
                if known is None or known.run != roll_run or clock.now() >= until or not clock.heard():
                    return
                clock.sleep(_AGAIN)
    finally:
        volumes.close()


class RollVolumes:
    """Implements roll.record.RollStore. Raises RollUnreadable, RecordError, PolicyError.

    `hosts`: the fleet by name. `prefix`: of the volumes.
    """

    prefix = PREFIX
    load: Callable[[str], Any] = staticmethod(Roll.from_json)

    def __init__(self, hosts: Mapping[str, Host], quorum_hosts: Sequence[str]) -> None:
        self._hosts = hosts
        self._quorum = quorum_hosts
        self._threads = Threads()
        self.before_write: Callable[[], None] = lambda: None  # it raises to stop it
        self._machines: dict[str, str] = {}  # the UUID that libvirt has for each
        self._late: dict[str, Task] = {}  # hosts that still owe an answer to an earlier question

    def close(self) -> None:
        self._threads.close()

    def read(self) -> tuple[Roll | None, Seen]:
        """The newest record, None where there is none; and host -> its generations, which `write` takes. Raises
        RollUnreadable where no majority answers."""
        found, errors = self._ask(self._quorum, self._read)
        if not are_majority(found, self._quorum):
            raise RollUnreadable(
                f"The record of a roll cannot be read: a majority of {', '.join(self._quorum)} "
                "must answer."
                f" {'; '.join(f'{name}: {why}' for name, why in errors.items())}"
            )
        return self._newest(found), {name: frozenset(have) for name, (have, _text) in found.items()}

    def read_any(self) -> Roll | None:
        """The newest record that the hosts which answer have, however few they are: enough to keep off, not to
        begin."""
        return self._newest(self._ask(self._quorum, self._read)[0])

    def _newest(self, found: Mapping[str, tuple[list[int], tuple[int, str] | None]]) -> Roll | None:
        whole = [text for _have, text in found.values() if text is not None]
        if not whole:
            return None
        number = max(number for number, _text in whole)
        texts = [text for other, text in whole if other == number]
        try:
            return self.load(max(texts, key=texts.count))
        except RecordError as exc:
            where = f"volumes {self.prefix}.* in pool virtops of {', '.join(found)}"
            raise RecordError(f"{exc} ({where}). Nothing was changed.") from exc

    def write(self, roll: Roll, seen: Seen) -> bool:
        """Write the next generation to the hosts of `seen`. False: somebody else wrote since that was read. Raises
        RollUnreadable where no majority took it, and what `before_write` raises."""
        self.before_write()
        number = max((n for have in seen.values() for n in have), default=0) + 1
        text, made = roll.to_json(), []
        for name in self._quorum:
            if name not in seen:
                continue
            try:
                store = self._hosts[name].store
                if not store.create(f"{self.prefix}.{number}", text.encode()):
                    self._withdraw(made, number)
                    return False
                made.append(name)
                if not seen[name].issuperset(set(store.generations(self.prefix)) - {number}):
                    self._withdraw(made, number)
                    return False
            except (HostUnreachable, StoreError, libvirt.libvirtError):
                self._hosts[name].close()
        if not are_majority(made, self._quorum):
            self._withdraw(made, number)
            raise RollUnreadable(
                f"The record of the roll was not written: only {', '.join(made) or 'none'} of"
                f" {', '.join(self._quorum)} took it"
            )
        for name in made:
            self._delete(name, seen[name])
        return True

    def _withdraw(self, made: Collection[str], number: int) -> None:
        for name in made:
            self._delete(name, (number,))

    def _delete(self, name: str, numbers: Collection[int]) -> None:
        """Delete these generations on one host, if it answers. One that stays is older than the one that counts, or
        goes with the next write."""
        try:
            for number in sorted(numbers):
                self._hosts[name].store.delete(f"{self.prefix}.{number}")
        except (HostUnreachable, StoreError, libvirt.libvirtError):
            self._hosts[name].close()

    def fleet(self) -> Fleet:
        """Out is a host that is cordoned or does not answer; busy one that a run has a record
        on."""
        found, errors = self._ask(tuple(self._hosts), _names)
        out = dict.fromkeys(errors, "does not answer")
        busy = set()
        for name, volumes in found.items():
            by_run = any(split_generation(volume)[0] == "record" for volume in volumes)
            if by_run:
                busy.add(name)
            if CORDON in volumes:
                out[name] = OWN_DRAIN if by_run else "cordoned by others"
        others = [name for name in found if name not in self._quorum and _has_roll(found[name])]
        elsewhere = self._elsewhere(others)
        return Fleet(
            *(tuple(self._hosts), out, frozenset(busy)),
            exist=frozenset(self._hosts),
            elsewhere=elsewhere,
            kept_on=others if elsewhere else (),
            left=self._recovered(found),
            quorum_hosts=tuple(self._quorum),
            silent=frozenset(errors),
        )

    def _recovered(self, names: Mapping[str, Iterable[str]]) -> dict[str, str]:
        """Dead host -> a sentence on its recovery. It is reported, and nothing is decided by it."""
        heads = {split_generation(volume)[0] for volumes in names.values() for volume in volumes}
        told = {}
        for head in (head for head in heads if head.startswith(f"{RECOVERY}.")):
            asked, _errors = self._ask(tuple(names), lambda host, head=head: host.store.read_generation(head))
            newest = max((one for one in asked.values() if one is not None), key=lambda one: one.number, default=None)
            if newest is not None:
                told[head.partition(".")[2]] = Recovery.from_json(newest.text).told()
        return {host: text for host, text in told.items() if text}

    def _elsewhere(self, names: Sequence[str]) -> Roll | None:
        """The roll whose record these hosts have, that do not keep it by this inventory. One that cannot be read is
        none."""
        try:
            found = self._newest(self._ask(names, self._read)[0]) if names else None
        except RecordError:
            return None
        return None if found is None or found.state in OVER else found

    def _ask(self, names: Sequence[str], question: Callable[[Host], T]) -> tuple[dict[str, T], dict[str, str]]:
        """All at the same time. (answers, why the others gave none). Raises PolicyError for two names of one machine,
        which would be a majority of itself: before anything else, since the question may make the pool there."""
        new = [name for name in names if name not in self._machines]
        if new:
            self._machines.update(self._ask_all(new, _machine)[0])
            check_machines({name: self._machines[name] for name in self._hosts if name in self._machines})
        return self._ask_all(names, question)

    def _ask_all(self, names: Sequence[str], question: Callable[[Host], T]) -> tuple[dict[str, T], dict[str, str]]:
        """Ask all at the same time: (answers, why the others gave none). A host that still owes an answer to an earlier
        question is not asked, and is late; so is one that does not answer within PATIENCE, or within _GRACE after a
        majority did."""
        asked = [name for name in names if name not in self._late or self._late[name].done.is_set()]
        tasks = {name: self._threads.submit(_guarded(self._hosts[name], question)) for name in asked}
        answers: dict[str, T] = {}
        errors = dict.fromkeys(set(names).difference(asked), _LATE)
        began = time.monotonic()
        until = began + PATIENCE
        while len(answers) + len(errors) < len(names) and time.monotonic() < until:
            for name, task in tasks.items():
                if name in answers or name in errors or not task.done.wait(0.02):
                    continue
                task.check()
                if task.error is None:
                    answers[name] = task.result
                else:
                    errors[name] = task.error.why
            # Else each slice would lose the whole patience, where most of them are known to be silent.
            if all(self._hosts[name].known_silent for name in asked if name not in answers and name not in errors):
                until = min(until, began + KNOWN_SILENT)
            if are_majority(answers, names):
                until = min(until, time.monotonic() + _GRACE)
        late = {
            name: tasks.get(name) or self._late[name]
            for name in names
            if name not in answers and errors.get(name, _LATE) == _LATE
        }
        # Of hosts that were not asked now, too: a second question beside one that hangs would hang as well.
        self._late = {**{name: task for name, task in self._late.items() if name not in names}, **late}
        return answers, {**dict.fromkeys(late, _LATE), **errors}

    def _read(self, host: Host) -> tuple[list[int], tuple[int, str] | None]:
        """The generations on this host, and the newest whole one, as (number, text)."""
        have: list[int] = host.store.generations(self.prefix)
        try:
            found: Any = host.store.read_generation(self.prefix)
        except VolumeTorn:
            return have, None
        return have, None if found is None else (found.number, found.text)


def _guarded(host: Host, question: Callable[[Host], T]) -> Callable[[], T]:
    """Wrap a question so that every failure on the host is a HostUnreachable with its words."""

    def ask() -> T:
        try:
            return question(host)
        except (StoreError, libvirt.libvirtError, ET.ParseError, ValueError) as exc:
            raise HostUnreachable(host.config.uri, str(exc)) from exc

    return ask


def _machine(host: Host) -> str:
    return host.identity


def _names(host: Host) -> list[str]:
    return host.store.names()


def _has_roll(volumes: Iterable[str]) -> bool:
    return any(split_generation(volume)[0] == PREFIX for volume in volumes)
