"""Schedule migrations on the link: set up many, transfer few. Pure; the clock is passed in.

No fixed number of parallel migrations is right. For idle VMs the cost is the set-up, about
a second each, and many at once are best, as far as the processors serve them. VMs that
write need the link nearly alone: a share of it below the rate at which a VM dirties its
memory never converges. So every migration is started at once and set up beside the others,
and then waits at a trickle (the least that libvirt can set) for its turn. It costs little:
what trickles is sent and need not be sent again, but for what the VM writes meanwhile.

The next one is given the link when those that have it will be through within `HORIZON`,
which is about how long a change takes to act. So the link is never idle while one of them
switches over. Work ahead is counted in seconds at the rate that is measured, less what is
dirtied meanwhile. While the rate is not known all have the link, and a crowd that will be
through within `CROWD` seconds is left alone.

More than one has the link for long (`lanes`) only where that carries more: it is tried out
now and then, and kept if the total rate rises. One that writes faster than its share would
be keeps others out. One that does not converge even so gives way to the others and tries
again when they are through; its deadlines count only the time in which it had the link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from .deadline import MemoryPasses
from .rules import MAX_STARTED, LinkJob, is_share_too_small, link_order

MIB = 1 << 20
TRICKLE_MIB = 1  # libvirt counts the bandwidth in whole MiB/s
OPEN_MIB = 1 << 20  # as good as no limit

HORIZON = 0.5  # s of work ahead below which the next one gets the link
CROWD = 5.0  # s of work ahead above which one that has the link loses it
RIPE = 4.0  # s after the first byte in which the rest may be set up before the rate is believed
WINDOW = 1.0  # s over which a rate is measured ...
KNOWN = 0.35  # ... and the least that makes it known
STALL = 5.0  # s with the link without progress, and ...
STALL_SENT = 2.0  # ... so many times what remains sent meanwhile: it does not converge
SIDE = 0.25  # of the link at most, beside one that writes and is near its end
TRIAL = 1.5  # s for which one more lane is tried
TRIAL_GAIN = 1.1  # the total rate must rise so much
LEARN_AGAIN = 30.0  # s after which a lane that brought nothing is tried again
TRICKLE_PART = 0.25  # of the link at most for all that wait at a trickle ...
WAITING_LEAST = 2  # ... but so many may always wait
# While the rate is not known so many are set up at once, and more while they are small in all:
# what is set up too early waits at a trickle all along where the link turns out to be slow.
FIRST = 4
FIRST_SIZE = 1536 * MIB  # what 1 Gbit/s carries in some 13 s
FIXED_FIRST = 2  # of disk copies, whose bandwidth cannot be changed later
SETUP = 1.0  # s for a set-up, until it was measured


@dataclass
class _Track:
    """The state of one migration that is kept between steps."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)  # (stamp, processed)
    given: int = 0
    began: float = 0.0
    opened: float = 0.0
    rate: float = 0.0
    known: bool = False
    passes: MemoryPasses = field(default_factory=MemoryPasses)
    progress_at: float = 0.0  # seconds with the link
    progress_sent: int = 0
    had: float = 0.0  # seconds with the link, flowing
    gives_way: bool = False

    def is_fixed(self, job: LinkJob) -> bool:
        """Under way with a bandwidth that is no longer ours: a disk copy, or post-copy, to which
        the link's whole width is open (QEMU's max-postcopy-bandwidth)."""
        return not job.adjustable and (job.started or self.given > 0)


@dataclass
class _Ahead:
    """The migrations that got the link before another one, in one decision."""

    count: int = 0
    work: float = 0.0
    dirty: float = 0.0
    most_dirty: float = 0.0
    capped: bool = True  # it is the limit of each, not the link, that keeps the rate down
    on_target: dict[str, int] = field(default_factory=dict)

    def add(self, job: LinkJob, track: _Track, work: float) -> None:
        self.count += 1
        self.work += work
        if not track.gives_way:
            self.dirty += job.dirty_rate
            self.most_dirty = max(self.most_dirty, job.dirty_rate)
        at_cap = job.cap_mib > 0 and track.rate > 0.75 * job.cap_mib * MIB
        self.capped = self.capped and at_cap
        self.on_target[job.target] = self.on_target.get(job.target, 0) + 1


class LinkScheduler:
    """Decides bandwidths, in MiB/s. `max_started`: how many may be under way at once."""

    def __init__(self, max_started: int = MAX_STARTED) -> None:
        self._max_started = max_started
        self._tracks: dict[str, _Track] = {}
        self._last: float | None = None
        self._rate = 0.0  # bytes/s of all, 0: not known
        self._first_flow: float | None = None
        self._setup = SETUP
        self._lanes = 1
        self._steady: tuple[frozenset[str], float] = (frozenset(), 0.0)
        self._trial: tuple[float, float] | None = None  # (since, rate before)
        self._tried: dict[int, float] = {}  # lanes -> when one more brought nothing
        self._before: dict[int, float] = {}  # lanes -> bytes/s before there was one more

    @property
    def rate(self) -> float:
        """The rate of all migrations together, in bytes/s; 0 while it is not known."""
        return self._rate

    @property
    def lanes(self) -> int:
        return self._lanes + (1 if self._trial else 0)

    def is_open(self, uuid: str) -> bool:
        """Has it the link (more than a trickle)?"""
        track = self._tracks.get(uuid)
        return track is not None and track.given > TRICKLE_MIB

    def step(self, now: float, jobs: Mapping[str, LinkJob]) -> dict[str, int]:
        """UUID -> new bandwidth (MiB/s), of those for which it changes.

        A migration that is not started yet starts with the first bandwidth that it is given.
        """
        self._measure(now, jobs)
        has_link = self._choose(now, jobs)
        self._try_lanes(now, jobs, has_link)
        started = sum(job.started or self._tracks[u].given > 0 for u, job in jobs.items())
        waiting = sum(0 < self._tracks[u].given <= TRICKLE_MIB for u in jobs)
        changes: dict[str, int] = {}
        for uuid in self._order_of_start(jobs):
            job, track = jobs[uuid], self._tracks[uuid]
            wanted = self._bandwidth(job, track, has_link.get(uuid, 0))
            if not job.started and not track.given:
                trickles = uuid not in has_link
                if started >= self._max_started or (trickles and not self._may_wait(waiting, job)):
                    continue
                if not job.adjustable and uuid not in has_link:
                    continue
                started += 1
                waiting += trickles
            elif not job.adjustable:
                continue
            if wanted != track.given:
                if not track.given:
                    track.began = now
                if track.given <= TRICKLE_MIB < wanted:
                    track.opened = now
                track.given = changes[uuid] = wanted
        return changes

    @staticmethod
    def _bandwidth(job: LinkJob, track: _Track, chosen: int) -> int:
        """Within the job's own limit; a small change of a side share is not worth a call."""
        wanted = max(chosen, TRICKLE_MIB)
        if TRICKLE_MIB < chosen < OPEN_MIB and 0.6 * chosen < track.given < 1.6 * chosen:
            wanted = track.given
        return min(wanted, job.cap_mib or OPEN_MIB)

    def _may_wait(self, waiting: int, job: LinkJob) -> bool:
        """Start one more to wait at a trickle? Enough to have one ready, and not many more:
        they take from the link, and what they sent may be dirtied again."""
        if not self._rate:
            return False
        ready = 1 + 1.5 * self._setup * self._rate / max(job.size, MIB)
        most = min(ready, TRICKLE_PART * self._rate / (TRICKLE_MIB * MIB))
        return waiting < max(WAITING_LEAST, most)

    @staticmethod
    def _order_of_start(jobs: Mapping[str, LinkJob]) -> list[str]:
        return sorted(jobs, key=lambda u: (-jobs[u].priority, jobs[u].size, u))

    # Measuring

    def _measure(self, now: float, jobs: Mapping[str, LinkJob]) -> None:
        passed = 0.0 if self._last is None else max(0.0, now - self._last)
        self._last = now
        for uuid in set(self._tracks) - set(jobs):
            del self._tracks[uuid]
        for uuid, job in jobs.items():
            track = self._tracks.setdefault(uuid, _Track())
            if job.flows and not track.seen and track.given:
                self._setup += 0.3 * (job.stamp - track.began - self._setup)
            self._measure_one(track, job, now)
            self._watch_progress(track, job, passed)
        flowing = [t for u, t in self._tracks.items() if t.known and jobs[u].flows]
        if flowing and (self._rate or self._is_ripe(now, jobs)):
            self._rate = sum(track.rate for track in flowing) or self._rate

    def _is_ripe(self, now: float, jobs: Mapping[str, LinkJob]) -> bool:
        """May what flows be taken for what the link carries? Not while others are being set
        up: that takes CPU, and the first one may have little of it."""
        if self._first_flow is None:
            self._first_flow = now
        all_flow = all(t.known for u, t in self._tracks.items() if t.given or jobs[u].started)
        return all_flow or now - self._first_flow > RIPE

    @staticmethod
    def _measure_one(track: _Track, job: LinkJob, now: float) -> None:
        if not job.flows:
            return
        seen = track.seen
        if not seen or job.stamp > seen[-1][0]:
            seen.append((job.stamp, job.processed))
        while len(seen) > 2 and now - seen[1][0] > WINDOW:
            seen.popleft()
        span = seen[-1][0] - seen[0][0]
        if span >= KNOWN:
            track.known = True
            track.rate = max(0.0, (seen[-1][1] - seen[0][1]) / span)
        if now - seen[-1][0] > WINDOW:  # it does not answer: it is switching over
            track.rate = 0.0

    @staticmethod
    def _watch_progress(track: _Track, job: LinkJob, passed: float) -> None:
        """Does it converge? Looked at only while it has the link."""
        if track.given <= TRICKLE_MIB or not job.flows:
            return
        track.had += passed
        if track.passes.made_progress(job.iteration, job.remaining):
            track.progress_at, track.progress_sent = track.had, job.processed
            track.gives_way = False
            return
        sent = job.processed - track.progress_sent
        if track.had - track.progress_at > STALL and sent > STALL_SENT * job.remaining:
            track.gives_way = True

    def _work(self, uuid: str, job: LinkJob, now: float) -> float:
        """Bytes that are still to come, by the last look and the rate since then."""
        if not job.flows:
            return float(job.size)
        track = self._tracks[uuid]
        return max(0.0, job.remaining - track.rate * max(0.0, now - job.stamp))

    # Choosing

    def _choose(self, now: float, jobs: Mapping[str, LinkJob]) -> dict[str, int]:
        """Choose which migrations get the link now, and how much of it (MiB/s)."""
        if not self._rate:
            return dict.fromkeys(self._first(jobs), OPEN_MIB)
        chosen: dict[str, int] = {}
        ahead = _Ahead()
        left = set(jobs)
        while left:
            uuid = min(left, key=lambda u: self._rank(u, jobs[u], ahead.on_target, now))
            left.discard(uuid)
            job = jobs[uuid]
            share = self._room(job, self._tracks[uuid], ahead)
            if not share:
                continue
            chosen[uuid] = share
            work = self._work(uuid, job, now)
            if work > 0 and (job.flows or not job.adjustable):
                ahead.add(job, self._tracks[uuid], work)
        return chosen

    def _first(self, jobs: Mapping[str, LinkJob]) -> list[str]:
        """While nothing is known: those under way, and a few more."""
        order = self._order_of_start(jobs)
        order = [u for u in order if jobs[u].started] + [u for u in order if not jobs[u].started]
        chosen: list[str] = []
        size = 0
        for uuid in (u for u in order if jobs[u].adjustable):
            size += jobs[uuid].size
            if jobs[uuid].started or len(chosen) < FIRST or size <= FIRST_SIZE:
                chosen.append(uuid)
        return chosen + [u for u in order if not jobs[u].adjustable][:FIXED_FIRST]

    def _rank(self, uuid: str, job: LinkJob, on_target: Mapping[str, int], now: float) -> tuple[object, ...]:
        """The least is served first: who has the link keeps it, since what it sent is dirtied
        again while it waits; then what is nearest to its end, and to a target with room."""
        track = self._tracks[uuid]
        has_it = track.given > TRICKLE_MIB and job.flows
        return (
            not track.is_fixed(job),
            track.gives_way,
            not (job.sticky and job.iteration > 1),
            (0, track.opened, job.iteration < 2) if has_it else (1, 0.0, False),
            *link_order(job.priority, job.flows, on_target.get(job.target, 0), self._work(uuid, job, now), uuid),
        )

    def _room(self, job: LinkJob, track: _Track, ahead: _Ahead) -> int:
        """MiB/s that a migration may use of the link beside those that were chosen before it: OPEN_MIB for all, a part,
        or 0."""
        has_it = track.given > TRICKLE_MIB
        kept = has_it and job.sticky and job.iteration > 1
        if not ahead.count or kept or track.is_fixed(job):
            return OPEN_MIB
        crowded = is_share_too_small(ahead.most_dirty, self._rate / (ahead.count + 1))
        if not crowded and (ahead.count < self.lanes or ahead.capped):
            return OPEN_MIB
        net = max(self._rate - ahead.dirty, 0.1 * self._rate)
        if ahead.work / net >= (CROWD if has_it else HORIZON):
            return 0
        if ahead.dirty < 0.05 * self._rate:
            return OPEN_MIB
        # Who writes needs most of the link to come to its end; the rest keeps the link busy.
        part = min(SIDE * self._rate, self._rate - 2 * ahead.dirty)
        return int(part / MIB) if part > 2 * TRICKLE_MIB * MIB else 0

    # Lanes

    def _try_lanes(self, now: float, jobs: Mapping[str, LinkJob], has_link: Mapping[str, int]) -> None:
        """Now and then: does the link carry more with one lane more?"""
        busy = frozenset(u for u in has_link if jobs[u].flows and self._work(u, jobs[u], now) > 0)
        if busy != self._steady[0]:
            self._steady = (busy, now)
        steady = now - self._steady[1] >= TRIAL
        if self._trial is not None:
            self._end_trial(now, busy)
        elif steady and len(busy) == self._lanes:
            before = self._before.get(self._lanes - 1)
            if before is not None and self._rate < before * (1 + TRIAL_GAIN) / 2:
                self._lanes -= 1  # it was chance, or the link is another one now
                self._tried[self._lanes] = now
                return
            waits = any((jobs[u].flows or not jobs[u].adjustable) and u not in has_link for u in jobs)
            tried = self._tried.get(self._lanes)
            if waits and (tried is None or now - tried > LEARN_AGAIN):
                self._trial = (now, self._rate)

    def _end_trial(self, now: float, busy: frozenset[str]) -> None:
        """Keep the lane that was tried if it brought something."""
        since, before = self._trial or (now, 0.0)
        if now - since < TRIAL:
            return
        self._trial = None
        if self._rate > before * TRIAL_GAIN and len(busy) > self._lanes:
            self._before[self._lanes] = before
            self._lanes += 1
        else:
            self._tried[self._lanes] = now
