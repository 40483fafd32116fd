"""A Prometheus beside the cluster, as far as dirty rates are asked for: <url>/prometheus.

It knows the VMs with the knob `lab/dirty-rate` (MiB/s) and wants a token that the cluster takes.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from . import words
from .kinds import VMIS
from .store import Obj
from .world import World

METRIC = "kubevirt_vmi_dirty_rate_bytes_per_second"
PREFIX = "prometheus"
_QUERY = re.compile(r"(\w+)\{(.*)\}\[5m\]")
_MATCHER = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")(?:,|$)')
_SINCE, _NOT_WHILE_IT_MOVES = (1, 6), (1, 9)


class Metrics:
    """`more`: further series. `reply`: status and text of each answer, instead of metrics."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.more: list[Obj] = []
        self.reply: tuple[int, str] | None = None

    def answer(self, parts: list[str], query: str) -> web.Response:
        if self.reply is not None:
            code, text = self.reply
            return web.Response(status=code, text=text)
        found = _QUERY.fullmatch(query)
        if parts != ["api", "v1", "query"]:
            return web.Response(status=404, text="404 page not found\n")
        if found is None:
            wrong = {"status": "error", "errorType": "bad_data", "error": "parse error"}
            return web.json_response(wrong, status=400)
        wanted = {name: json.loads(text) for name, text in _MATCHER.findall(found[2])}
        wanted["__name__"] = found[1]
        series = [one for one in (*self._own(), *self.more) if _has(one["metric"], wanted)]
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": series}})

    def _own(self) -> Iterator[Obj]:
        now = time.time()
        for vmi in self._world.store.all(VMIS):
            rate = words.annotations(vmi).get("lab/dirty-rate")
            moves = self._world.version >= _NOT_WHILE_IT_MOVES and _moves(vmi)
            if rate is None or self._world.version < _SINCE or words.phase(vmi) != "Running":
                continue
            if not moves:
                meta, node = vmi["metadata"], vmi["status"]["nodeName"]
                yield series(node, meta["name"], (now - 5, float(rate)), space=meta["namespace"])


def series(node: str, name: str, *samples: tuple[float, float], space: str = "default", **more: str) -> Obj:
    """One series as Prometheus tells it. `samples`: time and MiB/s. `more`: labels."""
    labels = {"__name__": METRIC, "node": node, "namespace": space, "name": name, **more}
    return {"metric": labels, "values": [[at, str(rate * 2**20)] for at, rate in samples]}


def _has(labels: dict[str, Any], wanted: dict[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def _moves(vmi: Obj) -> bool:
    state = vmi["status"].get("migrationState") or {}
    return bool(state.get("startTimestamp")) and not state.get("completed")
