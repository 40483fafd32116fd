"""Three real hosts, of which one is switched off: the drain of another one goes on without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo import plays, traces

from lab import GuestSpec, Lab

pytestmark = pytest.mark.lab

GUESTS = ("web", "ops")


@pytest.fixture(scope="module")
def lab(shared: Callable[[int], Lab]) -> Lab:
    """Two guests on host-a; host-c has lost its power. What ran stays so to the end."""
    lab = shared(3)
    for guest in GUESTS:
        lab.run("host-a", GuestSpec(guest, memory_mib=128, fill_mib=32))
    lab.wait_ticking(list(GUESTS))
    lab.kill("host-c")
    return lab


def module(lab: Lab, folder: Path, called: str, *, check: bool = False, **options: Any) -> dict[str, Any]:
    """Call a module on host-a, without the roles; what it returned."""
    hosts = [lab.host(f"host-{letter}") for letter in "bc"]
    peers = [{"name": h.name, "uri": h.peer_uri, "memory": h.memory_mib} for h in hosts]
    task = {f"virtops.maintenance.{called}": {"node": "host-a", "peers": peers, **options}}
    task |= {"register": "told", "check_mode": check, "ignore_errors": True}
    told, book = folder / "told.json", folder / "alone.yml"
    copy = {"content": "{{ told | to_json }}", "dest": str(told)}
    write = {"ansible.builtin.copy": copy, "delegate_to": "localhost", "check_mode": False}
    play = {"hosts": "host-a", "gather_facts": False, "tasks": [task, write]}
    book.write_text(json.dumps([play]), encoding="utf-8")
    ended = plays.run(lab, str(book), {})
    assert ended.code == 0, ended.text
    result: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
    assert "Traceback" not in ended.text
    return result


@pytest.mark.full
def test_the_preflight_names_it_and_blocks_nothing(lab: Lab, tmp_path: Path) -> None:
    told = module(lab, tmp_path, "virt_preflight")
    named = [row for row in told["findings"] if row["code"] == "PeerUnreachable"]
    assert [(row["subject"], row["severity"]) for row in named] == [("host host-c", "warning")]
    assert told["node_blockers"] == []


@pytest.mark.full
def test_the_dead_host_as_the_named_target_is_refused_at_once(lab: Lab, tmp_path: Path) -> None:
    """In check mode with the same words."""
    options = {"name": "web", "target": "host-c"}
    checked = module(lab, tmp_path, "virt_migration", check=True, **options)
    ran = module(lab, tmp_path, "virt_migration", **options)
    assert (checked["failed"], ran["failed"]) == (True, True)
    assert "host-c is the target, so no VM can move. Nothing was changed" in ran["msg"]
    assert "host-c is the target, so no VM can move. Nothing was changed" in checked["msg"]
    assert traces.running(lab.host("host-a")) == sorted(GUESTS)


@pytest.mark.full
def test_a_drain_moves_all_and_its_certificate_names_the_dead_host(lab: Lab, tmp_path: Path) -> None:
    check = module(lab, tmp_path, "virt_drain", check=True)
    assert {act["target"] for act in check["planned"] if act["do"] == "migrate"} == {"host-b"}
    told = module(lab, tmp_path, "virt_drain")
    assert told["phase"] == "Drained", told
    assert list(told["certificate"]["unread"]) == ["host-c"]
    assert "sent there" in told["certificate"]["unread"]["host-c"]
    assert traces.running(lab.host("host-b")) == sorted(GUESTS)


@pytest.mark.full
def test_what_moved_to_a_host_that_dies_then_is_named_and_never_certified(lab: Lab, tmp_path: Path) -> None:
    """host-b loses its cable: its guests run on, and nobody can say so."""
    assert module(lab, tmp_path, "virt_drain")["phase"] == "Drained"
    lab.unplug("host-b")
    lab.host("host-a").exec("ip neigh flush all")  # else it asks into the void for as long as it remembers host-b
    try:
        told = module(lab, tmp_path, "virt_drain", pending_timeout=3)
    finally:
        lab.plug("host-b")
    assert (told["phase"], told["certificate"]) == ("Blocked", None)
    rows = {row["name"]: row for row in told["vms"]}
    assert all(rows[name]["reason"] == "PeerUnreachable" for name in GUESTS)
    assert all(rows[name]["message"].startswith("host-b cannot be read") for name in GUESTS)
    assert module(lab, tmp_path, "virt_drain")["phase"] == "Drained"
