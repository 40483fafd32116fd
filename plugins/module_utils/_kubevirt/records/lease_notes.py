"""Keep on the node's Lease what must outlive a Node that somebody deletes while it is drained.

Always the runs that worked on it, by which marks and migrations of ours are known. The whole record
once anything was stopped, for nobody else starts it again, or once the Node is found to be gone. A
restore takes the Lease away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..._core.model.record import Ending, NodeRecord, RecordError
from ..api.client import Client
from ..objects import names
from ..objects.facts import annotations
from .node_record import Records

Obj = dict[str, Any]
_MOST = 20  # runs
# How a VM ends that was asked to stop, and then stays off until somebody starts it; none: it was asked just then.
_STAYS_OFF = frozenset({Ending.NONE.value, Ending.STOPPED.value})
OURS = (names.RUNS, names.RECORD, names.INSTANCES, names.PODS)


def with_run(notes: Mapping[str, str], node_uid: str, run_id: str) -> dict[str, str]:
    """The annotations of the Lease, with this run among those that worked on the Node.

    The UID stays that of the Node on which the first of them worked.
    """
    uid, *runs = notes.get(names.RUNS, "").split() or [node_uid]
    kept = [run for run in runs if run != run_id][1 - _MOST :]
    return {**notes, names.RUNS: " ".join([uid, *kept, run_id])}


def record_from_lease(lease: Obj, records: Records, node_uid: str, run_id: str) -> NodeRecord | None:
    """The record of the Node before this one; None where this is the Node of all runs.

    Raises RecordError.
    """
    uid, runs = _runs(lease)
    runs = [run for run in runs if run != run_id]
    if not runs or uid == node_uid:
        return None
    kept = records.load(lease)
    if kept is not None:
        return kept
    return NodeRecord(node=lease["metadata"]["name"].removeprefix(names.LEASE), run_id=runs[-1], runs=runs)


def no_node(node: str, lease: Obj | None, client: Client) -> str:
    """There is none of this name; and what a drain of it has left. Raises RecordError."""
    text = names.no_node(node, client.list(f"{names.CORE}/nodes")[0])
    stopped = _stopped(node, lease, client)
    if stopped:
        text += (
            f" Its drain stopped {', '.join(stopped)}: start them (virtctl start), or register the node again and "
            "restore it."
        )
    return text


def left_behind(leases: Iterable[Obj], nodes: Iterable[Obj], client: Client) -> dict[str, str]:
    """Nodes that were deleted while they were drained, and had VMs stopped for it: name -> what to do. Whether these
    were started since is not read."""
    there = {node["metadata"]["name"]: node for node in nodes}
    found: dict[str, str] = {}
    for lease in leases:
        node = str(lease["metadata"]["name"]).removeprefix(names.LEASE)
        # One that has its record is still drained. One with the same UID was restored, and this is all that is left
        # where the restore was killed just then.
        if node in there and (names.RECORD in annotations(there[node]) or _runs(lease)[0] == _uid(there[node])):
            continue
        try:
            stopped = _stopped(node, lease, client)
        except RecordError as exc:
            found[node] = str(exc)
            continue
        if not stopped:
            continue
        stops = f"after a drain that stopped {', '.join(stopped)}"
        if node in there:
            found[node] = f"registered again {stops}: run the playbook restore"
        else:
            found[node] = f"deleted {stops}: start them if they are off, and delete the Lease {names.LEASE}{node}"
    return found


def _runs(lease: Obj) -> tuple[str, list[str]]:
    """The UID of the Node on which they worked, and the runs."""
    uid, *runs = annotations(lease).get(names.RUNS, "").split() or [""]
    return uid, runs


def _uid(node: Obj) -> str:
    return str(node["metadata"].get("uid", ""))


def _stopped(node: str, lease: Obj | None, client: Client) -> list[str]:
    """VMs that the drain of this Node stopped and that a restore of it would start; empty: its Lease has no record.

    One whose runStrategy is Always has started elsewhere by itself.
    """
    record = Records(client, node).load(lease) if lease is not None else None
    entries = record.vms.values() if record is not None else ()
    return sorted(one.name for one in entries if one.asked_to_stop and one.ending in _STAYS_OFF)


def message(node: str) -> str:
    """The reason that ends a run on a Node that is gone."""
    return (
        f"There is no Node {node}: someone deleted it. Its record is kept on the Lease "
        f"{names.LEASE}{node}; marks and migrations are left as they are. Once the node is "
        "registered again, drain or restore it: that continues with this record."
    )
