"""Read and write what we keep on the Node: the record, and which instance each VM of it is."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..._core.model.record import NodeRecord, RecordError
from ..api.client import Client
from ..objects import names
from ..objects.facts import annotations

# Annotations of one object may have 256 KiB in all.
_PACK_FROM = 32 * 1024


@dataclass
class Instance:
    """Which instance of a VM the run knows. `old`: migrations from before our request."""

    namespace: str
    name: str
    uid: str
    bare: bool = False  # no VirtualMachine owns it
    maker: str = ""  # who makes another one when it has ended: see facts.maker
    asked: bool = False  # the mark on it, if there is one, comes from us
    old: list[str] = field(default_factory=list)
    refused: dict[str, list[str]] = field(default_factory=dict)  # attempt -> reason, message
    handed_off: str = ""  # when the guest changed its node, as KubeVirt reports it
    settings: dict[str, Any] = field(default_factory=dict)  # with which KubeVirt migrates it
    nudges: int = 0  # how often it stood marked without a migration, and we ended that
    wanted: dict[str, Any] = field(default_factory=dict)  # settings that its rule asks for

    @property
    def kept(self) -> bool:
        """Does something keep its definition when it has ended?"""
        return not self.bare or bool(self.maker)


def instance_of(client: Client, found: Instance) -> dict[str, Any] | None:
    """Its VMI; None if it is gone or was started anew. Raises KubeError."""
    path = names.kubevirt(found.namespace, "virtualmachineinstances", found.name)
    vmi = client.find(path)
    return vmi if vmi is not None and vmi["metadata"]["uid"] == found.uid else None


class Records:
    """Reads and writes them. Raises KubeError, RecordError."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node
        self.instances: dict[str, Instance] = {}
        self.pods: dict[str, dict[str, Any]] = {}  # namespace/name of those that had to go

    def load(self, node: dict[str, Any]) -> NodeRecord | None:
        """Load the record from the Node object, or from the Lease that outlives it."""
        notes = annotations(node)
        text = notes.get(names.RECORD)
        if text is None:
            return None
        try:
            found = json.loads(unpack(notes.get(names.INSTANCES, "{}")))
            self.instances = {uuid: Instance(**raw) for uuid, raw in found.items()}
            self.pods = dict(json.loads(unpack(notes.get(names.PODS, "{}"))))
        except (ValueError, TypeError, AttributeError) as exc:
            raise RecordError(f"the annotation {names.INSTANCES} of {self._node} is not readable: {exc}") from exc
        try:
            return NodeRecord.from_json(unpack(text))
        except RecordError as exc:
            where = f"annotation {names.RECORD} of {self._node}"
            raise RecordError(f"{exc} ({where}). Nothing was changed.") from exc

    def save(self, record: NodeRecord) -> dict[str, Any]:
        """The Node as it then is."""
        return self._note(self.notes(record))

    def notes(self, record: NodeRecord) -> dict[str, str]:
        """The annotations in which all of it is stored."""
        notes = {names.RECORD: pack(record.to_json()), names.INSTANCES: self._instances_json()}
        if self.pods:
            notes[names.PODS] = pack(json.dumps(self.pods, separators=(",", ":")))
        return notes

    def nudge(self, uuids: Sequence[str], wall: str) -> dict[str, Any]:
        """Any write to the Node wakes KubeVirt's evacuation controller; nothing else may.

        For these VMs it is made, and the same write counts it: a kill loses no count.
        """
        for uuid in uuids:
            self.instances[uuid].nudges += 1
        return self._note({names.NUDGE: wall, names.INSTANCES: self._instances_json()})

    def _instances_json(self) -> str:
        known = {uuid: asdict(found) for uuid, found in sorted(self.instances.items())}
        return pack(json.dumps(known, separators=(",", ":")))

    def _note(self, notes: dict[str, str]) -> dict[str, Any]:
        return self._client.merge(names.node(self._node), {"metadata": {"annotations": notes}})

    def forget(self) -> dict[str, Any]:
        ours = (names.RECORD, names.INSTANCES, names.PODS, names.NUDGE)
        gone: dict[str, None] = dict.fromkeys(ours)
        node = self._client.merge(names.node(self._node), {"metadata": {"annotations": gone}})
        self.instances, self.pods = {}, {}  # not before: refused, it is written again with all of them
        return node


def pack(text: str) -> str:
    """Encode for an annotation: long content is compressed."""
    if len(text) < _PACK_FROM:
        return text
    return "z:" + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> str:
    """Raises RecordError."""
    if not text.startswith("z:"):
        return text
    try:
        return zlib.decompress(base64.b64decode(text[2:])).decode()
    except (ValueError, zlib.error) as exc:
        raise RecordError(f"the record is not readable: {exc}") from exc
