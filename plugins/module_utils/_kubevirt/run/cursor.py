"""The cursor: the state that a slice hands to the next one.

It saves reads and writes, and nothing depends on it: without it the next slice reads the Node.
It holds only as long as the Lease is the one that the slice left. Whoever worked on the node in
between has changed that, and then all is read.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

from ..objects import facts, names

Obj = dict[str, Any]
_WAIT = "waits "
_LEFT = "left "
_REMEMBERED = 40  # slices that were ended, one after the other, by an API that did not answer


@dataclass
class Cursor:
    """`node`: its needed_fields, as read at `read`. `record`: as JSON; `saved`: does it stand on the Node like this?

    Times are seconds of the platform's clock.
    """

    lease: Obj
    node: Obj
    read: float
    record: str
    saved: bool
    saved_at: float
    instances: dict[str, Obj] = field(default_factory=dict)
    pods: dict[str, Obj] = field(default_factory=dict)
    cluster: Obj | None = None
    cluster_read: float = 0.0
    streams_lists: bool = True
    rates: dict[str, float] = field(default_factory=dict)
    rates_answered: float = 0.0
    later: dict[str, list[Any]] = field(default_factory=dict)
    other_drains: dict[str, list[Any]] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)


def pack(cursor: Cursor) -> str:
    """Encode as text without spaces."""
    text = json.dumps(asdict(cursor), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str | None) -> Cursor | None:
    """None where there is none, or none that this version of ours can read."""
    if not text or text.startswith((_WAIT, _LEFT)):
        return None
    try:
        return Cursor(**json.loads(zlib.decompress(base64.b64decode(text))))
    except (ValueError, TypeError, zlib.error):
        return None


def pack_wait(seen: tuple[str, float], waited: float) -> str:
    """Encode the state of a slice that did not get the Lease. `seen`: LockHeld.seen, the version of the Lease and since
    when it has not changed; `waited`: seconds that the run has waited in all."""
    return f"{_WAIT}{json.dumps([*seen, waited])}"


def unpack_wait(text: str | None) -> tuple[tuple[str, float], float]:
    """(seen, waited) of pack_wait; nothing seen and nothing waited where the slice before did not wait."""
    if not text or not text.startswith(_WAIT):
        return ("", 0.0), 0.0
    version, since, waited = json.loads(text[len(_WAIT) :])
    return (str(version), float(since)), float(waited)


def pack_left(text: str | None, holder: str) -> str:
    """Encode the state of a slice that ended because the API did not answer.

    `text`: the cursor that it was given, `holder`: its name as holder of the Lease. The Lease may name it, or a slice
    before it, and none of them works any more.
    """
    before = unpack(text)
    known = [before.lease["spec"]["holderIdentity"]] if before is not None else [*unpack_left(text)]
    return f"{_LEFT}{json.dumps([*known, holder][-_REMEMBERED:])}"


def unpack_left(text: str | None) -> frozenset[str]:
    """Holders of the Lease that pack_left noted; empty where `text` is something else."""
    return frozenset(json.loads(text[len(_LEFT) :])) if text and text.startswith(_LEFT) else frozenset()


def needed_fields(node: Obj) -> Obj:
    """A Node with the fields that a slice reads, and of its annotations our cordon alone: no record."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, facts.status(node)
    ready = facts.condition(node, "Ready")
    notes = {k: v for k, v in facts.annotations(node).items() if k == names.CORDON}
    kept = ("name", "uid", "resourceVersion")
    return {
        "metadata": {**{key: meta[key] for key in kept}, "annotations": notes},
        "spec": {"unschedulable": bool(spec.get("unschedulable"))},
        "status": {
            "conditions": [ready] if ready else [],
            "nodeInfo": {"bootID": (status.get("nodeInfo") or {}).get("bootID", "")},
            "volumesAttached": status.get("volumesAttached") or [],
        },
    }
