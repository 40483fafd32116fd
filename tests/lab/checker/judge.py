"""Judges one guest by its records: what became of it, and what it suffered."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from .records import Record, join_pieces

REMOVED = "stop removed by the lab"  # see Population.remove_guest
# Heartbeats of the collector, one a second at most, after the last tick: it does not tick. Seconds
# would pass also while nothing on this machine gets to run, the collector among them. The longest
# pause of a guest that was well, in post-copy on two busy cores, was 10.8 s.
SILENT_BEATS = 12
# Stamps are right to some milliseconds, where the collector gets to run. Two boots or two hosts are
# "at once" when their ticks interleave by more than this, over more than two of its rounds.
SLACK_SECONDS = 0.25
TICK = re.compile(r"T ([0-9a-f]+) (\d+) ;")


class Tick(NamedTuple):
    stamp: float
    host: str
    boot: str
    seq: int


@dataclass
class Guest:
    """What the log says about one guest, and the verdict."""

    name: str
    verdict: str = ""
    reasons: list[str] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)  # whatever the verdict is
    running_again: bool = False
    ticking: bool = False  # not silent yet
    beats_since: int = 0  # of the collector, since its last tick
    ticks: int = 0
    boots: int = 0
    hosts: list[str] = field(default_factory=list)
    longest_pause_ms: int = 0
    disk_errors: list[str] = field(default_factory=list)
    memory_errors: list[str] = field(default_factory=list)
    panics: list[str] = field(default_factory=list)
    torn: int = 0


class Judge:
    """Goes through the records of one guest."""

    def __init__(self, name: str, records: list[Record], drained: set[str], end: float, beats: list[float]) -> None:
        """`beats`: when the collector had its heartbeats."""
        self.guest = Guest(name)
        self.beats = beats
        self.drained = drained
        self.end = end
        self.used: set[int] = set()  # announcements that have excused a stop
        self.lines = join_pieces([r for r in records if r.stream == "S"])
        self.others = [r for r in records if r.stream != "S"]
        self.ticks = [
            Tick(r.stamp, r.host, found[1], int(found[2]))
            for r in self.lines
            if r.whole and (found := TICK.fullmatch(r.text))
        ]
        self.boots: dict[str, list[Tick]] = {}
        for tick in self.ticks:
            self.boots.setdefault(tick.boot, []).append(tick)

    def judge(self) -> Guest:
        guest = self.guest
        guest.ticks = len(self.ticks)
        guest.boots = len(self.boots)
        guest.hosts = [t.host for i, t in enumerate(self.ticks) if i == 0 or self.ticks[i - 1].host != t.host]
        guest.panics = [f"{r.host}: {r.text}" for r in self.others if r.stream == "K" and "Kernel panic" in r.text]
        self._pauses()
        self._errors()
        twice, gaps = self._sequences()
        twice += self._two_boots()
        guest.verdict, guest.reasons = self._verdict(twice, gaps)
        return guest

    def _pauses(self) -> None:
        """The longest time without a tick within one boot, save and restore not counted."""
        saves = [r.stamp for r in self.others if r.stream == "V" and r.text == "there"]
        for ticks in self.boots.values():
            for before, after in pairwise(ticks):
                pause = round((after.stamp - before.stamp) * 1000)
                if pause > self.guest.longest_pause_ms and not any(before.stamp < save < after.stamp for save in saves):
                    self.guest.longest_pause_ms = pause

    # -- damage

    def _errors(self) -> None:
        reached: dict[str, int] = {}  # per disk, the sequence last reported
        identity: dict[str, str] = {}
        # Made anew under an old name: its disks are new as well, from its next boot on. A removal is announced before.
        removals = [r.stamp for r in self.others if (r.stream, r.text) == ("A", REMOVED)]
        boot = ""
        for record in self.lines:
            words = record.text.split()
            if len(words) < 4:
                continue
            if words[0] == "D" and words[1] != boot:
                boot = words[1]
                while removals and record.stamp > removals[0]:
                    del removals[0]
                    reached.clear()
                    identity.clear()
            if words[0] == "M" and words[3] == "err":
                self.guest.memory_errors.append(f"{record.host}: {record.text}")
            if words[0] != "D":
                continue
            disk = words[2]
            if words[3] == "err":
                self.guest.disk_errors.append(f"{record.host}: {record.text}")
            elif words[3] == "ok" and len(words) == 5 and record.whole:
                self._disk_reached(record, disk, int(words[4]), reached)
            elif words[3] in ("new", "old") and len(words) == 6:
                # What an earlier boot wrote must be there: the guest itself
                # cannot know that the disk before it is not the one it had.
                if identity.setdefault(disk, words[4]) != words[4]:
                    self.guest.disk_errors.append(f"{record.host}: another disk: {record.text}")
                self._disk_reached(record, disk, int(words[5]), reached)

    def _disk_reached(self, record: Record, disk: str, seq: int, reached: dict[str, int]) -> None:
        if seq < reached.get(disk, 0):
            self.guest.disk_errors.append(f"{record.host}: went back from {reached[disk]}: {record.text}")
        reached[disk] = max(seq, reached.get(disk, 0))

    # -- one life, in one place

    def _sequences(self) -> tuple[list[str], list[str]]:
        """Repeats and gaps, boot by boot."""
        twice: list[str] = []
        gaps: list[str] = []
        for boot, ticks in self.boots.items():
            seen: dict[int, Tick] = {}
            # setdefault gives the tick itself unless its number was seen before.
            repeats = [tick for tick in ticks if seen.setdefault(tick.seq, tick) is not tick]
            if repeats:
                first = repeats[0]
                twice.append(
                    f"boot {boot}: {len(repeats)} ticks seen twice, the first {first.seq} "
                    f"on {seen[first.seq].host} and on {first.host}"
                )
            order = sorted(seen.values(), key=lambda tick: tick.seq)
            twice += self._interleaved(boot, order)
            gaps += self._gaps(boot, order)
        return twice, gaps

    @staticmethod
    def _interleaved(boot: str, order: list[Tick]) -> list[str]:
        """A later tick seen earlier, on another host: both ran at once.

        The collector reads one file after the other. What was written here before that there may be
        read a round later, however long a round takes, but not two.
        """
        rounds = sorted({tick.stamp for tick in order})
        number = {stamp: place for place, stamp in enumerate(rounds)}
        latest = order[0]
        for tick in order:
            apart = number[latest.stamp] - number[tick.stamp] > 1
            behind = latest.stamp - tick.stamp > SLACK_SECONDS
            if tick.host != latest.host and apart and behind:
                return [f"boot {boot}: tick {tick.seq} on {tick.host} came before {latest.seq} on {latest.host}"]
            latest = max(latest, tick, key=lambda one: one.stamp)
        return []

    def _gaps(self, boot: str, order: list[Tick]) -> list[str]:
        out = []
        if order[0].seq != 1:
            out.append(f"boot {boot}: begins with tick {order[0].seq}")
        for before, after in pairwise(order):
            missing = after.seq - before.seq - 1
            if missing == 1 and before.host != after.host and self._torn(before, after):
                self.guest.torn += 1
            elif missing:
                out.append(f"boot {boot}: {missing} ticks missing after {before.seq} on {before.host}")
        return out

    def _torn(self, before: Tick, after: Tick) -> bool:
        """A line begun on one host and ended on the next, which no file has whole."""
        first, last = before.stamp - SLACK_SECONDS, after.stamp + SLACK_SECONDS
        heads = [r.text for r in self.lines if not r.whole and r.host == before.host and first <= r.stamp <= last]
        tails = [
            r.text
            for r in self.lines
            if r.whole and r.host == after.host and first <= r.stamp <= last and not TICK.fullmatch(r.text)
        ]
        wanted = f"T {before.boot} {before.seq + 1} ;"
        return any(head + tail == wanted for head in [*heads, ""] for tail in [*tails, ""])

    def _two_boots(self) -> list[str]:
        spans = sorted((ticks[0].stamp, ticks[-1].stamp, boot) for boot, ticks in self.boots.items())
        return [
            f"boots {boot} and {other} at once for {ended - began:.1f} s"
            for (_began, ended, boot), (began, _ended, other) in pairwise(spans)
            if ended - began > SLACK_SECONDS
        ]

    # -- how each boot ended

    def _end_of(self, boot: str, until: float) -> str | None:
        """Why the boot ended: a reason that is in order, or None."""
        last = self.boots[boot][-1].stamp
        for record in self.lines:
            if record.whole and record.text.startswith(f"DOWN {boot} "):
                return "down " + record.text.split()[-1]
        for place, record in enumerate(self.others):
            # Announced ahead or just after. One announcement excuses one stop.
            if place in self.used or not last - 60 <= record.stamp <= until:
                continue
            if record.stream == "A" and record.text.startswith("stop"):
                self.used.add(place)
                return f"announced: {record.text}"
            if record.stream == "V" and record.text == "there":
                self.used.add(place)
                return f"saved on {record.host}"
        return None

    def _ticking(self) -> bool:
        """Whether it ticks to the end of the log."""
        last = self.ticks[-1]
        ended = any(r.text.startswith(f"DOWN {last.boot} ") for r in self.lines if r.whole)
        census = [r.text for r in self.others if r.stream == "Q" and r.host == last.host and r.stamp >= last.stamp]
        gone = census[-1:] == ["gone"]
        self.guest.beats_since = sum(beat > last.stamp for beat in self.beats)
        return self.guest.beats_since < SILENT_BEATS and not ended and not gone

    def _process(self) -> str | None:
        """The host that has a QEMU process of this guest at the end of the log."""
        there = {r.host: r.text == "there" for r in self.others if r.stream == "Q"}
        return next((host for host, yes in there.items() if yes), None)

    def _verdict(self, twice: list[str], gaps: list[str]) -> tuple[str, list[str]]:
        if not self.ticks:
            return ("panic", ["never ticked"]) if self.guest.panics else ("lost", ["never ticked"])
        order = sorted(self.boots, key=lambda boot: self.boots[boot][0].stamp)
        ticking = self.guest.ticking = self._ticking()
        stops, lost = [], []
        for boot, following in zip(order, [*order[1:], None], strict=True):
            last = self.boots[boot][-1].stamp
            until = self.boots[following][0].stamp if following else self.end
            if following is None and ticking:
                continue
            why = self._end_of(boot, until)
            if why is not None:
                stops.append(why)
            elif following is not None:
                lost.append(f"boot {boot} ended without a reason; {following} came after it")
            else:
                lost.append(f"boot {boot} ticks no more since {self.end - last:.1f} s")
        # Saved and woken up again it goes on in the same boot: a stop all the same.
        stops += [f"saved on {r.host}" for r in self.others if r.stream == "V" and r.text == "there" and not stops]
        self.guest.stops = list(stops)
        self.guest.running_again = bool(stops) and ticking
        return self._worst(twice, lost, gaps, stops, ticking)

    def _worst(
        self, twice: list[str], lost: list[str], gaps: list[str], stops: list[str], ticking: bool
    ) -> tuple[str, list[str]]:
        if twice:
            return "twice", twice + lost + gaps
        if lost:
            process = self._process()
            only_silent = not ticking and len(lost) == 1
            if self.guest.panics and only_silent:
                # Whether it vanished as well is said, not decided away.
                place = f"its process is on {process}" if process else "and its process is gone"
                return ("panic" if process else "lost"), [*self.guest.panics, *lost, place, *gaps]
            if only_silent and process:
                return "paused", [*lost, f"its process is on {process}", *gaps]
            return "lost", lost + gaps
        for verdict, why in (("gap", gaps), ("panic", self.guest.panics), ("stopped", stops)):
            if why:
                return verdict, list(why)
        if len(self.guest.hosts) == 1 and self.guest.hosts[0] in self.drained:
            return "blocked", [f"never left {self.guest.hosts[0]}"]
        return "live", []
