"""Reads the peers, all at the same time, and never waits long for one that does not answer.

A host that is off costs a few seconds once: from then on it is asked in the background, and a
read takes what is there. The next slices know it from a file and do not wait for it at first.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from ..._core.model.addresses import one_host
from ..._core.model.policy import PolicyError
from ..host.connection import open_connection
from .host import Host, HostNow
from .patience import Task, Threads

# Seconds to connect, for a peer that answered before, or of which nothing is known. The kernel asks
# at 0, 1, 3, 7 and 15 s (TCP's SYN); a busy host that takes the last one has time for the rest.
PATIENCE = 20.0
# For one that did not answer in the slice before. A healthy one connects in a tenth of a second,
# and on a machine of which others take all in one or two: 1 s called such hosts silent for good.
KNOWN_SILENT = 3.0
# From then on for its answers: who took the connection is there, and may be slow. No longer than
# keepalives take to find that its cable was pulled.
_READ_FOR = 30.0
# The same for one that was silent before: it may be one that takes connections and never answers,
# and each slice would wait for that one anew.
_READ_AGAIN_FOR = 10.0
# Between two tries to connect in the background.
_AGAIN = 5.0
# What a slice has noted means nothing when it is older.
_NOTED = 120.0


def check_machines(found: Mapping[str, str]) -> None:
    """Raises PolicyError for two names of one machine. `found`: the UUID that the libvirt of each has for its host."""
    same = one_host(found, "UUID")
    if same:
        raise PolicyError(
            f"{same} If they are two machines, give one of them its own host_uuid in libvirtd.conf (virtqemud.conf)."
        )


def open_peer(uri: str) -> Any:
    """Like `open_connection`, but a peer that is off must not hold up a slice."""
    return open_connection(uri, timeout=PATIENCE)


class Peers:
    """Reads of the peers. A host that did not answer in time stands as `away` until it does.

    `noted`: the file in which the silent ones stand for the next slice; empty: none is kept.
    """

    def __init__(self, hosts: Iterable[Host], noted: str = "") -> None:
        self._hosts = {host.name: host for host in hosts}
        self._noted = noted
        self._threads = Threads()
        self._asked: dict[str, Task] = {}
        self._names: Collection[str] = ()
        self._tries: dict[str, Task] = {}  # connections that are tried in the background
        self._known = self._read_note()
        for host in self._hosts.values():
            host.gives_up, host.known_silent = True, host.name in self._known

    def close(self) -> None:
        self._threads.close()
        self._write_note()

    @property
    def known_silent(self) -> frozenset[str]:
        """Peers that did not answer in the slice before. Asked again they hold up nobody."""
        return frozenset(self._known)

    def ask(self, names: Collection[str] | None = None) -> None:
        """Begin one read of each peer, or of these; `answers` gives them."""
        self._names = self._hosts.keys() if names is None else names
        self._asked = {
            name: self._threads.submit(lambda host=host: host.read(True))  # type: ignore[misc]
            for name, host in self._hosts.items()
            if name in self._names and self._is_back(host)
        }

    def answers(self) -> dict[str, HostNow]:
        """Wait for the answers, and give them by host. One that does not answer has `error`, and one that was not asked
        `not_asked` too."""
        asked, reads = self._asked, dict[str, HostNow]()
        for name in sorted(asked, key=lambda name: name in self._known):
            too_long = self._wait(name, asked[name])
            if too_long:
                self._hosts[name].away = f"did not answer within {too_long:g} s"
            else:
                reads[name] = asked[name].result
        for name, host in self._hosts.items():
            if name not in self._names:
                reads[name] = HostNow(name, error="not asked in this slice", not_asked=True)
            elif name not in reads:
                reads[name] = HostNow(name, error=f"{host.config.uri}: {host.away}")
            elif not reads[name].error:
                self._known.pop(name, None)
        return {name: reads[name] for name in self._hosts}

    def _wait(self, name: str, task: Task) -> float:
        """0: it is done; else the seconds that it did not keep to. Who is connected gets more."""
        known = name in self._known
        patience = KNOWN_SILENT if known else PATIENCE
        if task.wait(patience):
            return 0.0
        if self._hosts[name].is_connected:
            patience += _READ_AGAIN_FOR if known else _READ_FOR
            if task.wait(patience):
                return 0.0
        return patience

    def _is_back(self, host: Host) -> bool:
        """May it be asked? One that is away is tried in the background, now and then."""
        if not host.away:
            return True
        task = self._tries.get(host.name)
        if task is None or (task.error and time.monotonic() - task.ended > _AGAIN):
            self._tries[host.name] = self._threads.submit(host.connect)
            return False
        if not task.done.is_set():
            return False
        task.check()
        if task.error is not None:
            host.away = task.error.why
            return False
        del self._tries[host.name]
        host.take(task.result)
        return True

    # What the next slice should know

    def _read_note(self) -> dict[str, float]:
        """Peers that did not answer lately, with when that was."""
        try:
            with open(self._noted, encoding="utf-8") as stream:
                raw = json.load(stream)
        except (OSError, ValueError):
            return {}
        now = _now()
        pairs = raw.items() if isinstance(raw, Mapping) else ()
        return {str(name): when for name, when in pairs if isinstance(when, (int, float)) and 0 <= now - when < _NOTED}

    def _write_note(self) -> None:
        """A hint on how long to wait, and nothing else: what fails is left."""
        if not self._noted:
            return
        now = _now()
        silent = {
            # Who takes connections may only be slow: its note runs out, and it gets the whole time again.
            name: self._known.get(name, now) if host.is_connected else now
            for name, host in self._hosts.items()
            if host.away
        }
        with suppress(OSError):
            temporary = f"{self._noted}.{os.getpid()}"
            with open(temporary, "w", encoding="utf-8") as stream:
                json.dump(silent, stream)
            os.replace(temporary, self._noted)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
