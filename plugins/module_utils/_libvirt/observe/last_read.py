"""Keep what a slice leaves to the next one about the peers (the core's which_hosts.LastRead) in a file.

It is taken away as it is read. A slice that is killed leaves none, and the next reads all hosts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress

from ..._core.decision.which_hosts import LastRead, last_read, to_read
from ..._core.model.observation import Observation
from ..._core.model.policy import Policy
from ..._core.model.record import NodeRecord
from .host import Host
from .observe import Observer

NOTE = "/run/virtops/last-read.json"
_MOST = 4 << 20  # bytes; for a thousand hosts it has some 40,000


class ReadOfFew:
    """Which peers one slice reads. Until `begin` says otherwise: all.

    `claimed`: hosts that were asked for a claim; the next slice reads them.
    """

    def __init__(
        self, observer: Observer, peers: Mapping[str, Host], quorum_hosts: Collection[str], path: str = NOTE
    ) -> None:
        self._observer, self._peers, self._quorum_hosts, self._path = observer, peers, quorum_hosts, path
        self._last: LastRead | None = None
        self.claimed: set[str] = set()

    def begin(self, record: NodeRecord, policy: Policy, now: float, goes_on: bool) -> None:
        """`goes_on`: with the drain of a host that an earlier slice has begun."""
        self._last = take(self._path)  # whoever acts, what it says is true no more
        if not goes_on:
            return
        configs = [peer.config for peer in self._peers.values()]
        to_come = {c.name for c in configs if c.roll_rank is not None and not c.roll_done}
        names = to_read(self._last, record, self._peers, self._quorum_hosts, policy, now, to_come)
        planned = {c.name for c in configs if c.expects}
        self._observer.leave_out_all_but(None if names is None else names | planned)

    def read_all(self) -> None:
        self._observer.leave_out_all_but(None)

    def end(self, obs: Observation, record: NodeRecord) -> None:
        """The slice has ended as it should, and another one goes on."""
        reads = self._observer.reads
        peers = self._peers.values()
        if any(reads[p.name].error and not (reads[p.name].not_asked or p.away) for p in peers):
            return  # it answers, and what it says cannot be believed
        last = last_read(obs, self._last, record, self.claimed)
        if last is not None:
            leave(last, self._path)


def take(path: str = NOTE) -> LastRead | None:
    """None: there is none, or it is not what a slice writes."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(_MOST)
        os.unlink(path)
        raw = json.loads(text)
        return LastRead(
            str(raw["run"]),
            float(raw["at"]),
            float(raw["whole_at"]),
            frozenset(map(str, raw["needed"])),
            {str(name): int(mib) for name, mib in raw["room"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def leave(last: LastRead, path: str = NOTE) -> None:
    """Without it the next slice reads all hosts, and that is all."""
    raw = {
        "run": last.run_id,
        "at": last.at,
        "whole_at": last.whole_at,
        "needed": sorted(last.needed),
        "room": dict(last.room),
    }
    with suppress(OSError):
        with open(f"{path}.new", "w", encoding="utf-8") as stream:
            json.dump(raw, stream)
        os.replace(f"{path}.new", path)
