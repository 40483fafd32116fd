"""What the server saw, as lines of JSON in two files: requests, and changes of objects.

This is what a counter reads that must not take our word.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from .cluster import Kubesim
from .server import Call
from .store import Change

REQUESTS, CHANGES = "requests.jsonl", "changes.jsonl"


class Journal:
    """Writes from when it is made until it is closed; each line is on disk at once."""

    def __init__(self, sim: Kubesim, directory: Path) -> None:
        self._requests = (directory / REQUESTS).open("a", encoding="utf-8", buffering=1)
        self._changes = (directory / CHANGES).open("a", encoding="utf-8", buffering=1)
        sim.call(lambda: sim.world.on_change(self._change))
        sim.api.on_call.append(self._call)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._requests.close()
        self._changes.close()

    def _call(self, call: Call) -> None:
        _write(self._requests, asdict(call))

    def _change(self, change: Change) -> None:
        line = {"at": time.monotonic(), "type": change.type, "object": change.obj}
        _write(self._changes, line)


def _write(stream: Any, line: dict[str, Any]) -> None:
    if not stream.closed:
        stream.write(json.dumps(line, separators=(",", ":")) + "\n")
