"""What the server's log says about a stretch of a run: how long, how many requests, which slots."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FINAL = ("Succeeded", "Failed")
JOB = "kubevirt.io/migrationJobUID"


@dataclass(frozen=True)
class Stretch:
    """`span`: seconds from the first to the last request. `slots`: seconds each slot was held."""

    span: float
    requests: int
    slots: tuple[float, ...]
    kinds: dict[str, int]

    @property
    def slot(self) -> float:
        return statistics.median(self.slots) if self.slots else 0.0


class Log:
    """The two files of the simulator, read from where the last stretch ended."""

    def __init__(self, directory: Path) -> None:
        self._requests = directory / "requests.jsonl"
        self._changes = directory / "changes.jsonl"
        self._at = {self._requests: 0, self._changes: 0}

    def skip(self) -> None:
        """A stretch begins here."""
        for path in self._at:
            self._at[path] = path.stat().st_size

    def _read(self, path: Path) -> list[dict[str, Any]]:
        with path.open("rb") as stream:
            stream.seek(self._at[path])
            text = stream.read()
        whole = text[: text.rfind(b"\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]

    def stretch(self, user: str) -> Stretch:
        """Of the requests that this user made."""
        calls = [call for call in self._read(self._requests) if call["user"] == user]
        if not calls:
            raise SystemExit(f"bench-kubevirt: the server saw no request of {user}")
        times = sorted(call["at"] for call in calls)
        kinds: dict[str, int] = {}
        for call in calls:
            key = f"{call['method']} {_what(call)}"
            kinds[key] = kinds.get(key, 0) + 1
        return Stretch(times[-1] - times[0], len(calls), self._slots(), kinds)

    def _slots(self) -> tuple[float, ...]:
        """A slot is held from the making of the target pod to the end of the migration."""
        taken: dict[str, float] = {}
        freed: dict[str, float] = {}
        for line in self._read(self._changes):
            obj = line["object"]
            job = (obj["metadata"].get("labels") or {}).get(JOB)
            if obj["kind"] == "Pod" and line["type"] == "ADDED" and job:
                taken.setdefault(job, line["at"])
            over = obj.get("status", {}).get("phase") in FINAL
            if obj["kind"] == "VirtualMachineInstanceMigration" and over:
                freed.setdefault(obj["metadata"]["uid"], line["at"])
        return tuple(freed[uid] - at for uid, at in taken.items() if uid in freed)


def _what(call: dict[str, Any]) -> str:
    """The resource, without names."""
    parts = call["path"].strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    what = "/".join([*parts[:1], *parts[2:]]) or "discovery"
    return f"{what} (watch)" if "watch=" in call["query"] else what
