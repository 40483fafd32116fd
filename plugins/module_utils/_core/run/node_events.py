"""Notices about a run, to be written on its node for people who look at the node and not at Ansible. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..decision.actions import NodePhase
from ..model.record import Intent
from ..model.tally import tally, words
from .engine import SliceEnd
from .start import Request

_MOST = 3  # reasons that are named


@dataclass(frozen=True)
class Notice:
    """`reason`: one word, as Kubernetes has them. `good`: nobody has to look."""

    reason: str
    message: str
    good: bool = True


def notices(request: Request, found: Mapping[str, Any]) -> Iterator[Notice]:
    """After a slice. `found`: its result. A run that changes nothing is not worth one."""
    word, wanted = _WORDS.get(request.intent, ("", NodePhase.ACTIVE))
    if not word:
        return
    if request.intent is Intent.DRAINED and found["changed"] and not request.begun:
        yield Notice("MaintenanceDrainBegan", f"The drain has begun, {_whose(request)}")
    if found["ended"] != SliceEnd.FINAL.value:
        return
    if found["phase"] != wanted.value:
        text = f"The node is {found['phase']}, not {wanted.value}: {_why(found)}"
        yield Notice(f"Maintenance{word}Failed", f"{text}, {_whose(request)}", good=False)
    elif found["changed"] or request.begun:
        closed = "".join(f", {why}" for why in found.get("closed") or ())
        counts = words(tally(found.get("vms", ())))
        done = f"The node is {wanted.value}{', ' if counts else ''}{counts}{closed}"
        yield Notice(f"Maintenance{word}Ended", f"{done}, {_whose(request)}")


_WORDS = {Intent.DRAINED: ("Drain", NodePhase.DRAINED), Intent.ACTIVE: ("Restore", NodePhase.ACTIVE)}


def _whose(request: Request) -> str:
    who = f" of {request.requester}" if request.requester else ""
    why = f": {request.reason}" if request.reason else ""
    return f"run {request.run_id}{who}{why}"


def _why(found: Mapping[str, Any]) -> str:
    """The reasons, the most frequent first."""
    rows = [*found.get("findings", ()), *(vm for vm in found.get("vms", ()) if vm["verdict"] in ("blocked", "lost"))]
    codes = [code for code, _count in Counter(row["reason"] for row in rows if row["reason"]).most_common()]
    more = f" and {len(codes) - _MOST} more" if len(codes) > _MOST else ""
    return (", ".join(codes[:_MOST]) or "see the run") + more
