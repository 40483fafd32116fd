"""What each release before this one wrote is read by this one, whole: a record, a claim, a mark, an order.

tests/recorded/written/VERSION.json has it all with no field at its default. It is not written again: a release that
writes more gets a file of its own.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.nodes import NodeRecovery
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.record import Recovery
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Roll
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import Instance, unpack
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import RollLease
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain import metadata
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import parse_order
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import roll
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.claim_text import read_owner_note
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.protected import Kept
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import _outcome
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store import names, volumes
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import (
    OutcomeName,
    Reservation,
    Slot,
    format_name,
    is_alive,
    parse_name,
)

Texts = dict[str, Any]
FILES = sorted((Path(__file__).resolve().parents[3] / "recorded" / "written").glob("*.json"))
READ: dict[str, Callable[[str], Any]] = {
    "NodeRecord": NodeRecord.from_json,
    "Roll": Roll.from_json,
    "Recovery": Recovery.from_json,
    "NodeRecovery": NodeRecovery.from_json,
    "Kept": Kept.from_json,
}


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def written(request: pytest.FixtureRequest) -> Texts:
    return dict(json.loads(request.param.read_text(encoding="utf-8")))


def lost(before: Any, after: Any, at: str = "") -> list[str]:
    """What stands in the one and not, or otherwise, in the other. More may stand there, and a schema be newer."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in before if key != "schema"]
        return [text for key in keys for text in lost(before[key], after.get(key), f"{at}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [text for n, one in enumerate(before) for text in lost(one, after[n], f"{at}[{n}]")]
    return [] if before == after else [f"{at} was {before!r}, is {after!r}"]


@pytest.mark.parametrize("kind", READ)
def test_a_record_is_read_and_nothing_of_it_is_lost(kind: str, written: Texts) -> None:
    assert lost(written[kind], json.loads(READ[kind](json.dumps(written[kind])).to_json())) == []


def test_what_is_lost_is_found() -> None:
    assert lost({"schema": 1, "a": [{"b": 1}], "c": 2}, {"a": [{"b": 2}], "d": 0}) == [
        ".a[0].b was 1, is 2",
        ".c was 2, is None",
    ]


def test_instances_of_vms_on_a_node_are_read(written: Texts) -> None:
    assert lost(written["Instance"], dataclasses.asdict(Instance(**written["Instance"]))) == []


def test_a_volume_and_an_annotation_are_unpacked(written: Texts) -> None:
    packed = written["packed"]
    assert volumes.unpack("record.3", packed["volume"].encode()).decode() == packed["text"]
    assert unpack(packed["annotation"]) == packed["text"]


def test_the_lease_of_a_roll_is_found_and_read(written: Texts) -> None:
    meta = written["lease"]["metadata"]
    there = {f"/apis/coordination.k8s.io/v1/namespaces/{meta['namespace']}/leases/{meta['name']}": written["lease"]}
    roll, _seen = RollLease(SimpleNamespace(find=there.get), meta["namespace"]).read()
    assert roll is not None and lost(written["Roll"], json.loads(roll.to_json())) == []


def test_an_order_is_carried_out_as_it_was_given(written: Texts) -> None:
    given = dict(written["order"])
    order = parse_order(given)
    assert (given.pop("order"), order.watch) == ("migrate", False)
    assert (given.pop("method"), given.pop("disks")) == (order.method.value, list(order.disks or ()))
    settings = given.pop("settings")
    assert lost(settings, json.loads(json.dumps(dataclasses.asdict(order.settings)))) == []
    assert lost(given, {key: getattr(order, key) for key in given}) == []


def test_how_an_attempt_ended_is_read(written: Texts) -> None:
    said = written["outcome"]
    found = _outcome(OutcomeName(said["uuid"], said["attempt"]), said)
    assert found.finding is not None and (found.finding.reason.value, found.finding.message) == (
        said["reason"],
        said["message"],
    )
    plain = ("attempt", "ok", "target", "at", "processed", "seconds", "downtime_ms", "paused", "writes")
    assert lost({key: said[key] for key in plain}, dataclasses.asdict(found)) == []
    assert (found.mode.value, list(found.steps)) == (said["mode"], said["steps"])


def test_claims_slots_and_their_owners_are_known(written: Texts) -> None:
    (claim,), (slot,) = (
        [one for one in map(parse_name, written["volumes"]) if isinstance(one, kind)] for kind in (Reservation, Slot)
    )
    assert claim == Reservation(slot.vm, 512, "host-a", slot.id) and slot.source == "host-a" and slot.id
    assert {format_name(claim), format_name(slot)} < set(written["volumes"])
    assert read_owner_note(json.dumps(written["claim"]).encode()) == written["claim"]
    assert len([name for name in written["volumes"] if is_alive(name)]) == 1
    # The head under which each is looked for: a volume of another one is not seen.
    heads = {name.split(".")[0] for name in written["volumes"]}
    known = set(re.findall(r"^    ([a-z]+)[ .]", str(names.__doc__), re.MULTILINE))
    assert heads - known == {"definitions", "protect", roll.PREFIX, roll.RECOVERY}


def test_marks_on_a_domain_are_seen_and_taken_away(written: Texts) -> None:
    assert written["namespace"] == metadata.NAMESPACE
    assert metadata.is_marked(written["domain"]) and metadata.strategy_of(written["domain"]) == "LiveMigrate"
    rest = metadata.without_marks(written["domain"])
    assert not metadata.is_marked(rest) and metadata.strategy_of(rest) == "LiveMigrate" and "lastMigration" in rest
    assert "evictionRequested" not in rest and "evacuationNodeName" not in rest
