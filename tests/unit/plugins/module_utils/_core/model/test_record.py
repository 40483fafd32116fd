"""Records: what is written is read; what is not ours to read is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    SCHEMA,
    Attempt,
    Ending,
    NodeRecord,
    RecordError,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason

text = st.text(max_size=8)
seconds = st.floats(0, 1e9, allow_nan=False)
attempts = st.builds(Attempt, number=st.integers(1, 9), target=text, method=text,
                     started=seconds, boot_id=text, ok=st.booleans(), ended=st.booleans(),
                     downtime_ms=st.none() | st.integers(0, 9999))  # fmt: skip
vms = st.builds(
    VMRecord,
    uuid=text,
    name=text,
    attempts=st.lists(attempts, max_size=3),
    tries=st.dictionaries(text, st.lists(seconds, min_size=2, max_size=2), max_size=2),
    waiting_since=st.none() | seconds,
    ending=st.sampled_from([e.value for e in Ending]),
)
records = st.builds(
    NodeRecord,
    node=text,
    run_id=text,
    runs=st.lists(text, max_size=3),
    vms=st.lists(vms, max_size=3).map(lambda found: {vm.uuid: vm for vm in found}),
    cordoned_by_us=st.booleans(),
    started=seconds,
)


@given(records)
def test_round_trip(record: NodeRecord) -> None:
    assert NodeRecord.from_json(record.to_json()) == record


@given(records)
def test_a_copy_is_equal_and_shares_nothing(record: NodeRecord) -> None:
    before = record.to_json()
    new = record.copy()
    assert new == record
    new.runs.append("x")
    for entry in new.vms.values():
        entry.tries["x"] = [1, 2.0]
        for tried in entry.tries.values():
            tried[0] = -5
        for attempt in entry.attempts:
            attempt.ok = not attempt.ok
        entry.attempts.append(Attempt(99, "", "", 0.0, ""))
        entry.end(Ending.LOST, "x", Finding(Reason.VMLost))
    new.vms["y"] = VMRecord("y", "y")
    assert record.to_json() == before


GOOD = NodeRecord("a", "r", vms={"u": VMRecord("u", "vm")})


def changed(**more) -> str:
    return json.dumps({**json.loads(GOOD.to_json()), **more})


@pytest.mark.parametrize(
    "bad",
    ["", "{", "null", "[]", "7", '"x"', "{}", "\x00\x00", GOOD.to_json()[:-9],
     changed(vms=[]), changed(vms={"u": 1}), changed(vms={"u": {"attempts": [{}]}}),
     changed(vms={"u": {"uuid": "u", "name": "n", "attempts": None}}),
     changed(surprise=1), json.dumps({"schema": SCHEMA})],
)  # fmt: skip
def test_garbage_is_an_error_and_never_no_record(bad: str) -> None:
    with pytest.raises(RecordError):
        NodeRecord.from_json(bad)


def test_a_newer_schema_is_an_error_that_says_so() -> None:
    with pytest.raises(RecordError, match=f"schema {SCHEMA + 1}"):
        NodeRecord.from_json(changed(schema=SCHEMA + 1))


def test_a_field_of_a_later_version_is_an_error_that_names_it() -> None:
    """Also of a record in it: what it means, this version cannot know."""
    with pytest.raises(RecordError, match="has surprise, which this version does not know: use the version"):
        NodeRecord.from_json(changed(surprise=1))
