"""Names of volumes, and the header by which a torn one is told from a whole one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import MadeName
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import (
    OutcomeName,
    Reservation,
    Slot,
    VolumeTorn,
    format_name,
    pack,
    parse_name,
    unpack,
)

VM = "29994fe9-b1fd-418f-b7ea-43c360888c7c"
NODES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,60}", fullmatch=True)
NUMBERS = st.integers(0, 10**12)
UUIDS = st.uuids().map(str)
NAMES = st.one_of(
    st.builds(Reservation, UUIDS, NUMBERS, NODES),
    st.builds(Slot, UUIDS, NODES),
    st.builds(OutcomeName, UUIDS, NUMBERS),
    st.builds(MadeName, UUIDS, NUMBERS),
)


@given(NAMES)
def test_every_name_reads_back(name: Any) -> None:
    assert parse_name(format_name(name)) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cordon",
        "record",
        "record.",
        "record.x",
        "record.-1",
        "record.01",
        "copy.a",
        "copy.a.0",
        "copy..1",
        f"resv.{VM}.x.a",
        f"resv.{VM}.5",
        "resv.nobody.5.a",
        f"slot.{VM}",
        f"slot.{VM}./",
        f"outcome.{VM}.",
        f"outcome.{VM.upper()}.1",
        f"else.{VM}.1",
        "definitions.3",
        ".1",
    ],
)
def test_other_names_are_ignored(text: str) -> None:
    assert parse_name(text) is None


def test_a_node_with_dots() -> None:
    name = Reservation(VM, 512, "host-a.example.com")
    assert format_name(name) == f"resv.{VM}.512.host-a.example.com"
    assert [parse_name(other) for other in ("cordon", "record.1", "copy.host-a.12")] == [None] * 3


@pytest.mark.parametrize("name", [Slot(VM, "a/b"), Slot("x", "a"), Slot(VM, "")])
def test_what_cannot_stand_in_a_name(name: Any) -> None:
    with pytest.raises(ValueError, match="not a name"):
        format_name(name)


@given(st.binary(max_size=500), st.integers(0, 600), st.booleans())
def test_torn_is_told_from_whole(data: bytes, cut: int, zeros: bool) -> None:
    raw = pack(data)
    assert unpack("v", raw) == data
    torn = raw[:cut] + (b"\0" * (len(raw) - cut) if zeros else b"")
    if (torn.rstrip(b"\0") == raw.rstrip(b"\0") and len(torn) == len(raw)) or not torn:
        return
    if torn != raw:
        with pytest.raises(VolumeTorn):
            unpack("v", torn)
