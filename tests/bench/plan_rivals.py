"""What the plan is compared with: a bound that no plan can beat, and FIFO.

FIFO is what people do with a loop: hosts and VMs in list order, each VM to the first host of the
list that takes it, a fixed number of migrations at once, links shared evenly. It keeps to the
same rules (capacity, spread, direction, max_unavailable, caps).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from bench.plan_fleets import Guest, Instance


def bound(instance: Instance) -> float:
    """Seconds that the transfers of the roll take at least.

    Every VM moves at least once, and its bytes leave its host by that host's link: so long is the
    host being emptied. At most max_unavailable hosts are at once, and no more migrations than the
    caps allow.
    """
    by_host: Counter[str] = Counter()
    slots = 0.0
    slots_of: Counter[str] = Counter()
    for guest in instance.guests:
        link = instance.links[guest.host]
        by_host[guest.host] += _alone(guest, link)
        shortest = _alone(guest, min(link, instance.each or link))
        slots += shortest
        slots_of[guest.host] += shortest
    cluster, outbound, _inbound = instance.caps
    # A host takes as long as its link does, or as its share of the caps.
    each = [max(by_host[h], slots_of[h] / outbound) for h in by_host]
    return max(slots / cluster, sum(each) / instance.max_unavailable, *each)


def _alone(guest: Guest, rate: float) -> float:
    return guest.memory / (rate - guest.dirty)


@dataclass
class _Flow:
    guest: Guest
    source: str
    target: str
    left: float
    rate: float = 0.0


class Fifo:
    """One run with a fixed width."""

    def __init__(self, instance: Instance, width: int) -> None:
        self._instance = instance
        self._width = min(width, instance.caps[0])
        self._hosts = {h.name: h for h in instance.hosts}
        self._on: dict[str, list[Guest]] = {h.name: [] for h in instance.hosts}
        self._room = {h.name: h.usable for h in instance.hosts}
        self._groups: set[tuple[str, str]] = set()
        for guest in instance.guests:
            self._on[guest.host].append(guest)
            self._room[guest.host] -= guest.memory
            self._groups.add((guest.host, guest.group))
        self._todo = [h.name for h in instance.hosts if h.in_roll]
        self._out: dict[str, int] = {}  # host being emptied -> VMs that are still there
        self._queue: list[tuple[str, Guest]] = []
        self._flows: list[_Flow] = []
        self.seconds = 0.0
        self.moves = 0

    def run(self) -> float:
        """Seconds of the whole roll; infinite: it got stuck."""
        while True:
            while len(self._flows) < self._width and self._start():
                pass
            if not self._flows:
                return self.seconds if not self._queue and not self._todo else float("inf")
            self._advance()

    def _start(self) -> bool:
        if not self._queue and not self._next_host():
            return False
        source, guest = self._queue[0]
        target = self._first_fit(source, guest)
        if target is None:
            return False
        self._queue.pop(0)
        self._room[target] -= guest.memory
        self._groups.add((target, guest.group))
        self._flows.append(_Flow(guest, source, target, float(guest.memory)))
        self.moves += 1
        return True

    def _next_host(self) -> bool:
        while self._todo and len(self._out) < self._instance.max_unavailable:
            host = self._todo.pop(0)
            if self._incoming(host):
                self._todo.insert(0, host)
                return False
            if self._on[host]:
                self._out[host] = len(self._on[host])
                self._queue = [(host, guest) for guest in self._on[host]]
                self._on[host] = []
                return True
        return False

    def _incoming(self, host: str) -> bool:
        return any(flow.target == host for flow in self._flows)

    def _first_fit(self, source: str, guest: Guest) -> str | None:
        cap = self._instance.caps[2]
        inbound = Counter(flow.target for flow in self._flows)
        for host in self._instance.hosts:
            name = host.name
            if name in self._out or self._room[name] < guest.memory or inbound[name] >= cap:
                continue
            if guest.group and (name, guest.group) in self._groups:
                continue
            if host.version >= self._hosts[source].version:
                return name
        return None

    def _advance(self) -> None:
        """To the end of the next migration."""
        out = Counter(flow.source for flow in self._flows)
        into = Counter(flow.target for flow in self._flows)
        links, each = self._instance.links, self._instance.each
        soonest = float("inf")
        for flow in self._flows:
            rate = min(links[flow.source] / out[flow.source], links[flow.target] / into[flow.target])
            flow.rate = max(1.0, min(rate, each or rate) - flow.guest.dirty)
            soonest = min(soonest, flow.left / flow.rate)
        self.seconds += soonest
        for flow in list(self._flows):
            flow.left -= flow.rate * soonest
            if flow.left <= 1e-6 * flow.guest.memory:
                self._end(flow)

    def _end(self, flow: _Flow) -> None:
        self._flows.remove(flow)
        self._room[flow.source] += flow.guest.memory
        self._groups.discard((flow.source, flow.guest.group))
        self._on[flow.target].append(flow.guest)
        self._out[flow.source] -= 1
        if not self._out[flow.source]:
            del self._out[flow.source]
