"""Who asked for a mark or a migration. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from . import facts, names

Obj = dict[str, Any]
# In our signature: the source of an eviction before ours, noted when we signed.
SOURCE_BEFORE = "source_before"
_VOLUME_UPDATE = "kubevirt.io/volume-update-migration"


def eviction_source(vmi: Obj) -> str:
    """Who asked for its eviction, as KubeVirt records it; usually empty.

    A VMI that had no annotations gets the key escaped. The note stays after the migration: what
    stood there before we asked (see Signature) is of an eviction that is over.
    """
    if SOURCE_BEFORE in facts.request(vmi):
        return ""
    notes = facts.annotations(vmi)
    keys = (names.EVICTION_SOURCE, names.EVICTION_SOURCE.replace("/", "~1"))
    return next((notes[key] for key in keys if notes.get(key)), "")


def from_descheduler(vmi: Obj) -> bool:
    """Did it ask for the eviction?"""
    return eviction_source(vmi) == "descheduler"


def mark_is_ours(vmi: Obj, node: str, runs: Sequence[str], asked: bool) -> bool:
    """Does the mark on it come from a run of `runs`? `asked`: it did when it was last looked at.

    We sign before we ask, and what is withdrawn is no longer signed: a mark on a VMI without a
    signature was set by others since. Not all that we ask for makes a mark, and what another run
    signs after our mark hides ours.
    """
    note = facts.request(vmi)
    if facts.mark(vmi) != node or not note:
        return False
    signed = note.get("node") == node and note.get("run") in runs
    return asked or (signed and note.get("marks", True))


def is_ours(migration: Obj, node: str, runs: Sequence[str], asked: bool) -> bool:
    """Did a run of `runs` ask for it? `asked`: the mark on its VM is ours (see mark_is_ours)."""
    made_for_it = asked and facts.annotations(migration).get(names.EVACUATION) == node
    return made_for_it or facts.request(migration).get("run") in runs


def two_loops(vmi: Obj, migration: Obj) -> Finding | None:
    """It is marked for evacuation, and the migration under way is not that evacuation's."""
    mark, notes = facts.mark(vmi), facts.annotations(migration)
    if not mark or names.EVACUATION in notes or vmi["spec"].get("evictionStrategy") == "External":
        return None  # the mark asks the owner of an External one to make one
    mover, who = asked_by(vmi, migration), _marked_by(vmi, mark)
    text = f"{migration['metadata']['name']} of {mover} moves it, and {who} asks to move it too."
    return Finding(Reason.TwoLoops, text)


def _marked_by(vmi: Obj, node: str) -> str:
    """Who set the mark, for people."""
    source, note = eviction_source(vmi), facts.request(vmi)
    if source:
        return f"{source} (eviction from {node})"
    if note.get("node") == node and "attempt" not in note:
        by, run = note.get("by") or "unknown", note.get("run", "?")
        return f"{by} (run {run}, drain of {node})"
    return f"an eviction from {node}"


def by_others(vmi: Obj, migration: Obj, asked: bool, ours: bool) -> Finding | None:
    """Who else is moving it. `asked`: the mark on it comes from us."""
    notes, name = facts.annotations(migration), migration["metadata"]["name"]
    if names.UPDATE in notes:
        who = "KubeVirt's workload updater"
    elif names.EVACUATION in notes and from_descheduler(vmi):
        who = "the descheduler"
    elif names.EVACUATION in notes and not ours:
        who = f"an evacuation of {notes[names.EVACUATION]} that this run did not start"
    elif ours:
        return None
    else:
        who = asked_by(None, migration) if names.REQUEST in notes else "someone"
    if asked and vmi["spec"].get("evictionStrategy") == "External":
        return None  # its owner moves it, as the mark asked for
    if asked:
        text = f"{who} asks to move it ({name}), and so does this run."
        return Finding(Reason.TwoLoops, text[0].upper() + text[1:])
    return Finding(Reason.AdoptedMigration, f"Asked for by {who} ({name}).")


def asked_by(vmi: Obj | None, migration: Obj) -> str:
    """Who wanted this migration, for people."""
    note, notes = facts.request(migration), facts.annotations(migration)
    if note:
        return f"{note.get('by') or 'unknown'} (run {note.get('run', '?')})"
    if names.EVACUATION in notes:
        node = notes[names.EVACUATION]
        return _marked_by(vmi, node) if vmi else f"an eviction from {node}"
    if names.UPDATE in notes:
        return "KubeVirt's workload updater"
    if _VOLUME_UPDATE in facts.labels(migration):
        return "a volume update"
    return "someone else (virtctl migrate, or by hand)"
