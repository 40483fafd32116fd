"""Whose cordon stands? The volume's content is the run that made it; one by hand has none.

The record alone cannot tell: it is written before the act, and somebody else may have cordoned
the host in between. Such a cordon stays when the host is restored.
"""

from __future__ import annotations

from ..._core.model.observation import Node
from ..._core.model.record import NodeRecord
from .names import CORDON
from .volumes import Store, VolumeMissing, VolumeTorn


def is_ours(store: Store, record: NodeRecord) -> bool:
    """Was it made by a run of this record? False as well when there is none."""
    try:
        return store.read(CORDON).decode(errors="replace") in record.runs
    except VolumeMissing:
        return False
    except VolumeTorn as exc:
        # Only a run writes content, one at a time on a host: it died between making and writing.
        return exc.begun and record.cordoned_by_us


def by_others(node: Node, record: NodeRecord | None) -> bool:
    """Is it cordoned, and not by the runs of this record?"""
    if not node.cordoned or record is None or node.our_cordon is None:
        return node.cordoned and not (record is not None and record.cordoned_by_us)
    return not node.our_cordon
