"""When each transfer of a wave begins and ends: a fluid model of the links. Pure.

Set up wide, transfer narrow, as the holder does it (_core/link): what the limits admit is set up at
once, and each source gives its link to one after the other in `link_order`; the next one gets what
the one before cannot use, because its target's link or its own limit is narrower, unless its
share would be too little for what it writes (`is_share_too_small`). MiB, MiB/s, seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..link.rules import is_share_too_small, link_order
from ..model.policy import Limits, MigrationSettings

DEFAULT_LINK = 110.0  # MiB/s: a link of 1 Gbit/s
LEAST_PART = 0.02  # of a link; less than that is not worth another lane
DOWNTIME_MS = 300  # QEMU's own limit for the pause at the end
PAUSE_MS = 40.0  # what a pause takes at least: devices, and the switch of the network
THROTTLED = 0.5  # of the rate: auto-converge slows a guest down until it writes no faster


@dataclass(frozen=True)
class Speeds:
    """The speeds that the model knows of the fleet. `links`: host -> MiB/s, else `default`. `setup`: seconds
    before the first byte, `switch`: from the last byte to the end of the migration, `overhead`:
    what a drain takes beside its migrations, for reads, marks and the certificate. `pause`: ms for
    which a guest is paused at the end of each migration at least."""

    links: Mapping[str, float] = field(default_factory=dict)
    default: float = DEFAULT_LINK
    setup: float = 0.0
    switch: float = 0.0
    overhead: float = 0.0
    pause: float = PAUSE_MS

    def link(self, host: str) -> float:
        return self.links.get(host, self.default)


@dataclass
class Transfer:
    """One migration. size: MiB to be sent if nothing is written meanwhile; dirty: MiB/s;
    hot: MiB that are written over and over, which is the most that has to be sent again.

    left: MiB to be sent now; fresh: those of them that were never sent.
    """

    vm: str
    source: str
    target: str
    size: float
    dirty: float = 0.0
    priority: int = 0
    settings: MigrationSettings = field(default_factory=MigrationSettings)
    hot: float = float("inf")
    start: float = -1.0
    end: float = -1.0
    flows_at: float = 0.0
    left: float = 0.0
    fresh: float = 0.0
    sent: float = 0.0
    rate: float = 0.0
    last_rate: float = 0.0
    post_copy: bool = False

    @property
    def cap(self) -> float:
        return float(self.settings.bandwidth_mib or 1 << 30)

    @property
    def pause_limit(self) -> float:
        """Seconds for which the guest may be paused at the end."""
        return (self.settings.max_downtime_ms or DOWNTIME_MS) / 1000


def width(transfer: Transfer, speeds: Speeds) -> float:
    """MiB/s that it has at most."""
    return min(speeds.link(transfer.source), speeds.link(transfer.target), transfer.cap)


def alone(transfer: Transfer, speeds: Speeds) -> float:
    """Seconds with the links to itself. Infinite: it never converges."""
    return _seconds(transfer, width(transfer, speeds), transfer.size, transfer.size)


def converges(transfer: Transfer, speeds: Speeds) -> bool:
    """Does it come to its end in pre-copy, or has it another way to do so?"""
    return alone(transfer, speeds) < float("inf") or _may_switch(transfer)


def _may_switch(transfer: Transfer) -> bool:
    return transfer.settings.on_timeout in ("post_copy", "pause")


def _written(transfer: Transfer, rate: float) -> float:
    """MiB/s that it writes."""
    if transfer.post_copy:
        return 0.0
    if transfer.settings.auto_converge:
        return min(transfer.dirty, THROTTLED * rate)
    return transfer.dirty


def _speed(transfer: Transfer, rate: float) -> float:
    """MiB/s by which what was written gets less, once all was sent. 0: it never ends."""
    if transfer.hot <= rate * transfer.pause_limit:
        return rate  # all that it writes fits into the pause
    return max(0.0, rate - _written(transfer, rate))


def _seconds(transfer: Transfer, rate: float, left: float, fresh: float) -> float:
    """To the end at this rate: first what was never sent, then what was written meanwhile."""
    speed = _speed(transfer, rate)
    if speed <= 1e-9:
        return float("inf")
    first = fresh / rate
    again = min(max(transfer.hot, left - fresh), left - fresh + _written(transfer, rate) * first)
    return first + again / speed


class _Links:
    """Gives out shares of the links, and keeps how much of each is left."""

    def __init__(self, speeds: Speeds) -> None:
        self._speeds = speeds
        self._out: dict[str, float] = {}
        self._into: dict[str, float] = {}
        self._on_target: dict[str, int] = {}

    def take(self, source: str, ready: dict[str, list[Transfer]]) -> Transfer | None:
        """The one whose turn it is, taken out of `ready`."""
        if not ready[source]:
            return None
        best = min(
            ready[source],
            key=lambda t: (
                t.rate >= 0,
                link_order(t.priority, t.sent > 0, self._on_target.get(t.target, 0), t.left, t.vm),
            ),
        )
        ready[source].remove(best)
        self._on_target[best.target] = self._on_target.get(best.target, 0) + 1
        return best

    def meet(self, first: Sequence[Transfer]) -> None:
        """Rates of the first ones of all sources: a target's link is shared evenly, but one that
        writes too much for that keeps the others out."""
        by_target: dict[str, list[Transfer]] = {}
        for transfer in first:
            by_target.setdefault(transfer.target, []).append(transfer)
        for found in by_target.values():
            share = self._speeds.link(found[0].target) / len(found)
            found.sort(key=lambda t: (not is_share_too_small(_pressure(t), share), self._demand(t), t.vm))
            for index, transfer in enumerate(found):
                even = self._left_in(transfer) / (len(found) - index)
                whole = is_share_too_small(_pressure(transfer), share)
                self._give(transfer, self._left_in(transfer) if whole else even)

    def further(self, source: str, ready: dict[str, list[Transfer]]) -> None:
        """The next one of this source gets what is left; nothing left: none of them does."""
        if self._left_out(source) < LEAST_PART * self._speeds.link(source):
            ready[source] = []
            return
        best = self.take(source, ready)
        if best is None:
            return
        share = min(self._left_out(source), self._left_in(best), best.cap)
        most = width(best, self._speeds)
        narrow = share < 0.999 * most
        # One with a limit of its own takes little of the link.
        little = share < LEAST_PART * min(self._speeds.link(source), most)
        if little or (narrow and is_share_too_small(_pressure(best), share)):
            best.rate = 0.0
            self._on_target[best.target] -= 1
            return
        self._give(best, share)

    def _give(self, transfer: Transfer, most: float) -> None:
        share = max(0.0, min(self._demand(transfer), most))
        transfer.rate = transfer.last_rate = share
        self._out[transfer.source] = self._left_out(transfer.source) - share
        self._into[transfer.target] = self._left_in(transfer) - share

    def _demand(self, transfer: Transfer) -> float:
        return min(self._left_out(transfer.source), transfer.cap)

    def _left_out(self, source: str) -> float:
        return self._out.get(source, self._speeds.link(source))

    def _left_in(self, transfer: Transfer) -> float:
        return self._into.get(transfer.target, self._speeds.link(transfer.target))


def _pressure(transfer: Transfer) -> float:
    """MiB/s that the guest writes; 0 if a small share of the link does no harm: in post-copy, and with
    auto-converge."""
    if transfer.post_copy or transfer.settings.auto_converge:
        return 0.0
    return transfer.dirty


class Timeline:
    """Plays the transfers of one wave. They are admitted in the order in which they are given."""

    def __init__(self, transfers: Sequence[Transfer], speeds: Speeds, limits: Limits) -> None:
        self._speeds = speeds
        self._limits = limits
        self._queues: dict[str, list[Transfer]] = {}
        self._work: dict[str, float] = {}
        for transfer in transfers:
            transfer.left = transfer.fresh = max(transfer.size, 0.001)
            self._queues.setdefault(transfer.source, []).append(transfer)
            self._work[transfer.source] = self._work.get(transfer.source, 0.0) + transfer.size
        self._flying: dict[str, list[Transfer]] = {source: [] for source in self._queues}
        self._inbound: dict[str, int] = {}
        self._count = 0
        self.now = 0.0

    def run(self) -> float:
        """Sets start, end, sent and last_rate of each; returns when the last one ends.

        One that never converges gets its completion timeout as its time.
        """
        while True:
            self._admit()
            if not self._count:
                return self.now
            self._share()
            self._pass(self._next())

    # Admission

    def _admit(self) -> None:
        """Places are given to the sources in turn: to the one with fewest, then with most work."""
        waiting = [s for s, queue in self._queues.items() if queue]
        while waiting and self._count < self._limits.cluster:
            source = min(waiting, key=lambda s: (len(self._flying[s]), -self._work[s], s))
            if len(self._flying[source]) >= self._limits.outbound:
                waiting.remove(source)
                continue
            index = self._first_with_a_place(self._queues[source])
            if index is None:
                waiting.remove(source)
                continue
            transfer = self._queues[source].pop(index)
            transfer.start = self.now
            transfer.flows_at = self.now + self._speeds.setup
            self._flying[source].append(transfer)
            self._inbound[transfer.target] = self._inbound.get(transfer.target, 0) + 1
            self._count += 1
            if not self._queues[source]:
                waiting.remove(source)

    def _first_with_a_place(self, queue: Sequence[Transfer]) -> int | None:
        for index, transfer in enumerate(queue):
            if self._inbound.get(transfer.target, 0) < self._limits.inbound:
                return index
        return None

    # The links

    def _share(self) -> None:
        """Each source gives its link to one; those that meet at a target share its link. Then
        what is left goes to further ones, the sources taking turns."""
        links = _Links(self._speeds)
        ready: dict[str, list[Transfer]] = {}
        for source, found in self._flying.items():
            for transfer in found:
                # Negative: it has had the link, and keeps it.
                transfer.rate = -1.0 if transfer.rate > 0 else 0.0
            ready[source] = [t for t in found if t.left > 0 and t.flows_at <= self.now + 1e-9]
        first = [links.take(source, ready) for source in self._turns(ready)]
        links.meet([transfer for transfer in first if transfer is not None])
        while any(ready.values()):
            for source in self._turns(ready):
                links.further(source, ready)
        for found in self._flying.values():
            for transfer in found:
                transfer.rate = max(0.0, transfer.rate)

    @staticmethod
    def _turns(ready: Mapping[str, Sequence[Transfer]]) -> list[str]:
        """Sources with something to send; first those whose transfer is under way."""
        having = {s: any(t.rate < 0 for t in found) for s, found in ready.items() if found}
        return sorted(having, key=lambda s: (not having[s], s))

    # Time

    def _next(self) -> float:
        """When the next thing happens."""
        soonest = float("inf")
        for found in self._flying.values():
            for transfer in found:
                soonest = min(soonest, self._due(transfer))
        return soonest

    def _due(self, transfer: Transfer) -> float:
        if transfer.flows_at > self.now + 1e-9:
            return transfer.flows_at
        if transfer.left <= 0:
            return transfer.end
        due = transfer.flows_at + self._patience(transfer)
        if transfer.rate <= 0:
            return float("inf")
        seconds = _seconds(transfer, transfer.rate, transfer.left, transfer.fresh)
        return self.now + seconds if seconds < float("inf") else due

    @staticmethod
    def _patience(transfer: Transfer) -> float:
        """The holder's completion timeout, for one that never converges."""
        return transfer.settings.completion_timeout_per_gib * max(1.0, transfer.size / 1024)

    def _pass(self, until: float) -> None:
        if until == float("inf"):
            # Nobody has the link and nobody will: what never converges alone. It is given up.
            until = self.now
            for found in self._flying.values():
                for transfer in found:
                    transfer.left = 0.0
                    transfer.end = self.now
        passed = max(0.0, until - self.now)
        self.now = max(self.now, until)
        for source, found in self._flying.items():
            for transfer in list(found):
                self._move_on(source, transfer, passed)

    def _move_on(self, source: str, transfer: Transfer, passed: float) -> None:
        if transfer.left > 0 and transfer.rate > 0:
            speed = _speed(transfer, transfer.rate)
            transfer.sent += transfer.rate * passed
            self._send(transfer, speed, passed)
            if speed <= 1e-9 and self.now >= transfer.flows_at + self._patience(transfer) - 1e-6:
                self._late(transfer)
            if transfer.left <= 1e-6 * max(1.0, transfer.size):
                transfer.left = 0.0
                transfer.end = self.now + self._speeds.switch
        if transfer.left <= 0 and transfer.end <= self.now + 1e-9:
            self._flying[source].remove(transfer)
            self._inbound[transfer.target] -= 1
            self._work[source] -= transfer.size
            self._count -= 1

    @staticmethod
    def _send(transfer: Transfer, speed: float, passed: float) -> None:
        """Count down what is left of the transfer by `passed` seconds at its rate. `speed`: MiB/s by which the rest
        gets less once all of the memory was sent."""
        if speed <= 1e-9:
            return
        first = min(passed, transfer.fresh / transfer.rate)
        again = transfer.left - transfer.fresh
        again = min(max(transfer.hot, again), again + _written(transfer, transfer.rate) * first)
        transfer.fresh -= transfer.rate * first
        transfer.left = max(0.0, transfer.fresh + again - speed * (passed - first))

    @staticmethod
    def _late(transfer: Transfer) -> None:
        """Do with a transfer that is late what the holder does: post-copy, which sends half of the memory once more, or
        the end of it."""
        if transfer.settings.on_timeout == "post_copy":
            transfer.post_copy, transfer.left = True, transfer.size / 2
            transfer.fresh = 0.0
        else:
            transfer.left = 0.0


def pause_ms(transfer: Transfer, least: float = PAUSE_MS) -> float:
    """Expected pause of the guest at the end. What it writes in the meantime is sent in the pause,
    for at most as long as the limit allows. `least`: of one that writes nothing."""
    if transfer.post_copy or transfer.last_rate <= 0:
        return least
    limit = 1000 * transfer.pause_limit
    part = min(1.0, transfer.dirty / transfer.last_rate)
    return round(least + min(part * limit, 1000 * transfer.hot / transfer.last_rate), 0)
