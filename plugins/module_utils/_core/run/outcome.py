"""Say what became of each VM when its host was restored, in words that fit one VM or several. Pure."""

from __future__ import annotations

from ..model.record import Ending, NodeRecord, VMRecord
from ..reasons.reason import Platform


def outcomes(record: NodeRecord, platform: Platform) -> list[dict[str, str]]:
    """One entry for each VM that the drain ever saw, by name."""
    entries = sorted(record.vms.values(), key=lambda entry: (entry.name, entry.uuid))
    found = []
    for entry in entries:
        outcome, text = _outcome(entry, record.node, platform)
        at = entry.at or record.node
        found.append({"name": entry.name, "at": at, "outcome": outcome, "message": text})
    return found


def _outcome(entry: VMRecord, node: str, platform: Platform) -> tuple[str, str]:
    ending, last = entry.ending, entry.last
    if ending == Ending.MOVED.value:
        late = last is not None and last.abort_status == "Failed"
        return "moved", f"left on {entry.at}" + (", the abort came too late" if late else _left(entry, platform))
    if ending == Ending.COLD_MOVED.value and entry.start_tries and not entry.cold_target:
        return "started", f"started again, on {entry.at}"
    if ending == Ending.COLD_MOVED.value:
        return "moved", f"left on {entry.at}{_left(entry, platform)}"
    if ending in (Ending.OFF.value, Ending.GONE.value):
        return "off", f"left off: {_why(entry, platform) or 'as before'}"
    if ending != Ending.RESTORED.value:
        return "open", _why(entry, platform) or "not restored yet"
    if entry.start_tries:
        return "started", f"started again on {node}"
    if last is not None and last.abort_status == "Succeeded":
        return "aborted", f"migration aborted, runs on {node}"
    return "untouched", f"not touched, on {node}"


def _left(entry: VMRecord, platform: Platform) -> str:
    """The VM's reason with its remedy, as the end of a sentence; empty: it has none."""
    why = _why(entry, platform)
    return f": {why}" if why else ""


def _why(entry: VMRecord, platform: Platform) -> str:
    found = entry.finding
    if found is None:
        return ""
    shown = found.to_dict(platform)
    return f"{shown['reason']}: {shown['message']} {shown['remedy']}".strip()
