"""Write the orders of changes, and the heartbeats, into the simulator's expectations.

    PYTHONPATH=tests python tests/tools/record_orders.py DIRECTORY

DIRECTORY has recordings of a cluster: NAME.jsonl for each
tests/kubesim/tests/expected/NAME.json, one JSON object a line, of which those with
`"kind": "watch"` count. ADDED and DELETED carry the object, MODIFIED a merge patch (RFC 7396).
Only `beats`, `vmis` and `migrations` of an expectation are written; `begin` and `end` of it, where
it has them, are seconds of the recording. For those who make a new
recording; neither the simulator nor a test reads one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kubesim.orders import Orders

EXPECTED = Path(__file__).resolve().parents[1] / "kubesim" / "tests" / "expected"
_WATCHED = ("virtualmachineinstances", "virtualmachineinstancemigrations")


def merged(old: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new


def before(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Some recordings begin where a VMI runs already, is marked already, or its migration has begun."""
    node, mark = ({key: status[key]} if key in status else {} for key in ("nodeName", "evacuationNodeName"))
    migrates = [{"phase": "Pending"}] if status.get("phase") == "Scheduling" and not node else []
    return [{}, *([node, {**node, **mark}] if mark else migrates)]


def orders(recording: Path, end: float | None = None) -> Orders:
    """Until `end`, seconds: then whoever recorded it cleaned up."""
    found, state = Orders(), {}
    for line in recording.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["kind"] != "watch" or event["resource"] not in _WATCHED:
            continue
        if end is not None and event["t"] > end:
            break
        key = (event["resource"], event["name"])
        look = found.vmi if event["resource"] == _WATCHED[0] else found.migration
        if event["type"] == "DELETED":  # some recordings leave out what it was meant to be
            obj = {**state.get(key, {}), **event["object"]}
        elif event["type"] == "ADDED":
            obj = event["object"]
            for status in before(obj.get("status") or {}):
                look({**obj, "status": status})
        else:
            obj = merged(state[key], event["patch"])
        state[key] = obj
        look(obj, gone=event["type"] == "DELETED")
    return found


def beats(recording: Path, begin: float | None = None) -> list[float]:
    """Of the first node: seconds after the first request that changes something, or after `begin`."""
    found = []
    first = ""
    for line in recording.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if begin is None and event["kind"] == "request" and event["method"] != "GET":
            begin = event["t"]
        if event["kind"] == "watch" and event["resource"] == "nodes":
            first = min(first or event["name"], event["name"])
            if event.get("heartbeatOnly") and event["name"] == first:
                found.append(event["t"])
    after = [round(at - (begin or 0.0), 1) for at in found]
    # An agent writes twice, the second time within a moment.
    return [at for i, at in enumerate(after) if at > 0 and (i == 0 or at - after[i - 1] > 1)]


def text_of(told: dict[str, Any]) -> str:
    """One line for each VM and each step, so that a difference is read in git diff."""

    def inner(items: list[str]) -> str:
        return ",\n".join(items)

    def mapping(name: str) -> str:
        rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in told[name].items()]
        return f'"{name}": {{\n{inner(rows)}\n}}' if rows else f'"{name}": {{}}'

    steps = '"steps": [\n' + inner([json.dumps(step) for step in told["steps"]]) + "\n]"
    found = f'"beats": {json.dumps(told["beats"])}'
    limits = [f'"{key}": {told[key]}' for key in ("begin", "end") if key in told]
    parts = [*limits, mapping("vms"), steps, found, mapping("vmis"), mapping("migrations")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    for path in sorted(EXPECTED.glob("*.json")):
        recording = Path(sys.argv[1]) / f"{path.stem}.jsonl"
        told = json.loads(path.read_text(encoding="utf-8"))
        found = orders(recording, told.get("end"))
        told.update(beats=beats(recording, told.get("begin")), vmis=found.vmis(), migrations=found.migrations())
        path.write_text(text_of(told), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
