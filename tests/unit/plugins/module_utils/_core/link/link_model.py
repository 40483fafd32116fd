"""A link and pre-copy migrations on it, on a virtual clock: enough of QEMU to try schedulers.

A migration is set up, sends its memory, then what was dirtied meanwhile, again and again,
until what remains goes within the downtime; then it switches over and is gone. Statistics
are as old as the looks at them. Sizes in bytes, times in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
DOWNTIME = 0.3
DT = 0.02


@dataclass
class Guest:
    """wire: bytes of its first pass; zero: bytes of zero pages that cost nothing."""

    name: str
    wire: float
    zero: float = 0.0
    dirty: float = 0.0
    region: float = 0.0
    setup: float = 1.0
    finish: float = 0.7
    cap_mib: int = 0
    priority: int = 0
    target: str = "b"
    adjustable: bool = True
    limit: int | None = None  # MiB/s; None: not started
    since: float = 0.0
    sent: float = 0.0
    left: float = 0.0
    pass_wire: float = 0.0
    pass_total: float = 0.0
    pass_began: float = 0.0
    iteration: int = 0
    dirty_rate: float = 0.0
    state: str = "new"
    ends: float = 0.0
    done_at: float = 0.0
    rate: float = 0.0
    look: dict[str, Any] = field(default_factory=dict)
    look_at: float = -1.0


class Link:
    """`capacity`: bytes/s in all; `per_job`: the most that one migration reaches alone."""

    def __init__(self, guests: list[Guest], capacity: float, per_job: float = 1e12) -> None:
        self.guests = {guest.name: guest for guest in guests}
        self.capacity = capacity
        self.per_job = per_job
        self.now = 0.0
        self.bytes = 0.0

    def active(self) -> list[Guest]:
        return [g for g in self.guests.values() if g.state != "done"]

    def advance(self) -> None:
        """One small step of the clock."""
        self.now += DT
        flowing = [g for g in self.guests.values() if g.state in ("flow", "last")]
        shares = _fair(self.capacity, [self._most(g) for g in flowing])
        for guest, share in zip(flowing, shares, strict=True):
            guest.rate = 0.8 * guest.rate + 0.2 * share
            self._send(guest, share * DT)
        for guest in self.guests.values():
            if guest.state == "setup" and self.now >= guest.since + guest.setup:
                guest.state = "flow"
                guest.pass_wire = guest.left = guest.wire
                guest.pass_total = guest.wire + guest.zero
                guest.pass_began, guest.iteration = self.now, 1
            elif guest.state == "finish" and self.now >= guest.ends:
                guest.state, guest.done_at = "done", self.now

    def _most(self, guest: Guest) -> float:
        limit = 1e12 if guest.state == "last" else (guest.limit or 0) * MIB
        return min(limit, self.per_job)

    def _send(self, guest: Guest, amount: float) -> None:
        amount = min(amount, guest.left)
        guest.left -= amount
        guest.sent += amount
        self.bytes += amount
        if guest.left > 0:
            return
        if guest.state == "last":
            guest.state, guest.ends = "finish", self.now + guest.finish
            return
        took = self.now - guest.pass_began
        dirtied = min(guest.region, guest.dirty * took)
        if took > 0.2:
            guest.dirty_rate = dirtied / took
        guest.left = guest.pass_wire = guest.pass_total = dirtied
        guest.pass_began = self.now
        guest.iteration += 1
        if guest.left <= guest.rate * DOWNTIME:
            guest.state = "last"

    def sample(self, guest: Guest, every: float) -> dict[str, Any]:
        """What statistics say, taken anew when the last look is old enough."""
        if guest.state in ("flow", "last") and self.now - guest.look_at >= every:
            part = guest.left / guest.pass_wire if guest.pass_wire else 0.0
            guest.look_at = self.now
            guest.look = {
                "stamp": self.now,
                "processed": max(1, int(guest.sent)),
                "remaining": int(part * guest.pass_total),
                "dirty_rate": int(guest.dirty_rate) if guest.iteration > 1 else 0,
                "iteration": guest.iteration,
            }
        return guest.look

    def give(self, name: str, mib: int) -> None:
        guest = self.guests[name]
        if guest.limit is None:
            guest.state, guest.since = "setup", self.now
        guest.limit = mib


def _fair(capacity: float, wants: list[float]) -> list[float]:
    """Max-min fair shares."""
    shares = [0.0] * len(wants)
    left, open_ = capacity, sorted(range(len(wants)), key=lambda i: wants[i])
    while open_:
        share = left / len(open_)
        first = open_.pop(0)
        shares[first] = min(wants[first], share)
        left -= shares[first]
    return shares


def run(
    link: Link,
    step: Callable[[float, Mapping[str, Any]], Mapping[str, int]],
    make: Callable[..., Any],
    until: float = 600.0,
    tick: float = 0.1,
    watch: Callable[[Link], None] | None = None,
) -> float:
    """Let a scheduler drive; the time when the last one was through, or `until`."""
    due = 0.0
    while link.active() and link.now < until:
        if link.now >= due:
            due = link.now + tick
            jobs = {}
            for guest in link.active():
                every = 0.1 if guest.limit is None or guest.limit > 1 else 0.4
                jobs[guest.name] = make(
                    size=int(guest.wire + guest.zero),
                    started=guest.limit is not None,
                    cap_mib=guest.cap_mib,
                    priority=guest.priority,
                    target=guest.target,
                    adjustable=guest.adjustable,
                    **link.sample(guest, every),
                )
            for name, mib in step(link.now, jobs).items():
                link.give(name, mib)
            if watch is not None:
                watch(link)
        link.advance()
    return link.now


def fixed_width(link: Link, width: int, until: float = 600.0) -> float:
    """What `xargs -P` does: the next one starts when one is through."""
    queue = [guest.name for guest in link.guests.values()]
    while link.active() and link.now < until:
        busy = sum(g.state not in ("new", "done") for g in link.guests.values())
        while queue and busy < width:
            link.give(queue.pop(0), 1 << 20)
            busy += 1
        link.advance()
    return link.now
