"""Names that are no names, through what is written and sent: volumes, orders, outcomes, plans."""

from __future__ import annotations

import json

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.text import table
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import AttemptEnd, parse_order
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.claim_text import (
    LONGEST,
    owner_text,
    read_owner_note,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import (
    MadeName,
    Name,
    OutcomeName,
    Reservation,
    Slot,
    alive_of,
    can_name_a_node,
    format_name,
    parse_name,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import pack, unpack

VM = "29994fe9-b1fd-418f-b7ea-43c360888c7c"
ID = "_0123456789ab"
ODD = (
    "-x 'q\" $(id) `id` ; rm -rf / {{ 7*7 }} {% raw %} %s {0}",
    "--all",
    "n" * 200,
    "büro 東京 \u0645",
    "web\nhost-a  Drained\x1b[2K\u202e\x9b31m",
    "..",
    "record.1",
    f"resv.{VM}.96.{ID}.a",
    "",
    " ",
)


@pytest.mark.parametrize("node", ODD)
def test_such_a_host_has_no_volumes(node: str) -> None:
    """Its name would stand in theirs: it is refused before, and never cut or quoted."""
    if can_name_a_node(node):  # dots and hyphens are no trouble
        assert node in ("n" * 150, "record.1", f"resv.{VM}.96.{ID}.a")
        assert parse_name(format_name(Slot(VM, node, ID))) == Slot(VM, node, ID)
        return
    parts: tuple[Name, ...] = (Reservation(VM, 96, node, ID), Slot(VM, node, ID), Slot(VM, node))
    for name in parts:
        with pytest.raises(ValueError, match="not a name of the store"):
            format_name(name)


@pytest.mark.parametrize("vm", ODD)
def test_no_volume_is_named_by_the_name_of_a_vm(vm: str) -> None:
    """A UUID is; whatever else stands in its place is nobody's volume."""
    parts: tuple[Name, ...] = (Reservation(vm, 96, "a", ID), OutcomeName(vm, 1), MadeName(vm, 1))
    for name in parts:
        with pytest.raises(ValueError, match="not a name of the store"):
            format_name(name)
    assert parse_name(f"slot.{vm}.a") is None
    assert parse_name(vm) is None or vm.startswith("resv.")
    assert alive_of([vm]) == ""


@pytest.mark.parametrize("vm", ODD)
def test_it_goes_through_an_order_and_comes_back_with_the_outcome(vm: str) -> None:
    """As they are sent, a line each."""
    order = {"order": "migrate", "uuid": VM, "name": vm, "attempt": 1, "node": "a", "target": "b"}
    line = json.dumps({**order, "target_uri": "qemu+tls://b/system"}).encode() + b"\n"
    assert line.count(b"\n") == 1 and line.isascii()
    understood = parse_order(json.loads(line))
    assert (understood.name, understood.uuid) == (vm, VM)
    ended = AttemptEnd(VM, understood.name, 1, ok=True, source="a", target="b", at="b")
    assert json.loads(json.dumps(ended.to_dict()))["name"] == vm


@pytest.mark.parametrize("vm", ODD)
def test_it_goes_through_the_record_and_its_volume(vm: str) -> None:
    record = NodeRecord(node="a", run_id="r", requester=vm, reason=vm)
    record.vms[VM] = VMRecord(VM, vm)
    text = unpack("record.1", pack(record.to_json().encode())).decode()
    read = NodeRecord.from_json(text)
    assert (read.vms[VM].name, read.requester, read.reason) == (vm, vm, vm)


@pytest.mark.parametrize("vm", ODD)
def test_what_another_host_says_of_a_claim_is_one_line(vm: str) -> None:
    said = read_owner_note(json.dumps({"name": vm, "by": vm}).encode())
    text = owner_text(Reservation(VM, 96, "a", ID), said, "")
    assert text.isprintable()
    assert len(text) <= 2 * LONGEST + 100
    assert not vm.isprintable() or vm[:LONGEST] in text


@pytest.mark.parametrize("vm", ODD)
def test_a_plan_has_it_as_it_is(vm: str) -> None:
    """What is shown of a line is the action's business, which writes out what a terminal obeys."""
    move = {"vm": VM, "name": vm, "way": "migrate", "swap_for": "", "source": "a", "target": "b"}
    move |= {"memory_mib": 96, "start": 0.0, "duration": 1.0, "pause_ms": 9.0, "why": vm}
    step = {"number": 1, "hosts": ["a"], "moves": [move], "second_moves": 0, "duration": 1.0}
    step |= {"spare_mib": 0, "largest_mib": 0, "largest_on": "", "fits_if": [move]}
    plan = {"steps": [step], "warnings": [], "refusal": None, "hosts_left": [], "fits_if": [move]}
    plan |= {"moves": 1, "vms_moved": 1, "moves_per_vm": 1.0, "duration": 1.0}
    lines = table(plan)
    assert sum(vm in line for line in lines) >= 2
    assert len(lines) == 4
