"""Reasons and requesters of any text: they are carried as they are, and nobody evaluates them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays
from kubesim.kinds import BY_PLURAL, VMIMS

pytestmark = pytest.mark.full

EVENTS = BY_PLURAL["events"]
REQUEST = "virtops.maintenance/request"
LIMIT = 1024  # of an Event's message
ODD = {
    "mixed": "-x 'q\" \\ {{ 7*7 }} {{ lookup('pipe', 'touch evil-has-run') }} {% raw %} $(id)\n"
    "host-a  Drained\x1b[2K Büro 東京 \U0001f600 " + "n" * 100,
    "endless": "ü" * 3000,
}


@pytest.mark.parametrize("text", ODD.values(), ids=list(ODD))
def test_a_reason_is_carried_as_it_is(sim: Any, plays: Plays, tmp_path: Path, text: str) -> None:
    sim.add_vm("vm", "n1")
    given = tmp_path / "given.yml"
    quoted = json.dumps(text, ensure_ascii=False)
    given.write_text(
        f"maintenance_reason: !unsafe {quoted}\nmaintenance_requester: !unsafe {quoted}\n", encoding="utf-8"
    )
    ended = plays.own("drain", "-e", f"@{given}", maintenance_hosts="n1")
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert "\x1b" not in ended.stdout
    store = sim.world.store
    asked = [
        json.loads(note)
        for one in store.all(VMIMS)
        for key, note in one["metadata"].get("annotations", {}).items()
        if key == REQUEST
    ]
    assert asked and all((one["by"], one["reason"]) == (text, text) for one in asked)
    told = [e for e in store.all(EVENTS) if e["reason"] == "MaintenanceRequested"]
    assert told
    for event in told:
        assert len(event["message"].encode()) <= LIMIT
        assert text in event["message"] or event["message"].endswith("...")
    ended = plays.own("restore", "-e", f"@{given}", maintenance_hosts="n1")
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert not list(tmp_path.rglob("evil-has-run"))
