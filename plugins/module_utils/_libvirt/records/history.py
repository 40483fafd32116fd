"""The last migrations of single VMs, kept for who asks later. Nothing is decided by them."""

from __future__ import annotations

import json

from ..._core.model.record import NodeRecord, RecordError
from ..domain.untrusted import load_json
from ..store.volumes import Store, VolumeTorn

VOLUMES = "ended"
# So many VMs are remembered on a host, each with its last migration from there.
LAST = 32


def keep(store: Store, record: NodeRecord) -> None:
    """Remember the record of one VM in place of the last one of that VM."""
    if not any(entry.attempts for entry in record.vms.values()):
        return  # nothing was migrated
    kept = [old for old in kept_in(store) if old.only != record.only]
    store.write_record(VOLUMES, json.dumps([r.to_json() for r in [*kept, record][-LAST:]]))


def kept_in(store: Store) -> list[NodeRecord]:
    """The records that were kept, the oldest first. What cannot be read is lost history, and no reason to fail."""
    try:
        text = store.read_record(VOLUMES)
        return [] if text is None else [NodeRecord.from_json(one) for one in load_json(text)]
    except (VolumeTorn, RecordError, ValueError, TypeError):
        return []
