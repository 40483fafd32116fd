"""A slice that goes on with a drain connects to the peers that can matter, not to all 60."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import Host, HostConfig, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.last_read import ReadOfFew, take
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.observe import Observer

PEERS = [f"h{number:02}" for number in range(1, 60)]
MOVED = {"u": VMRecord("u", "web", ending="moved", at="h20")}
RECORD = NodeRecord("h00", "run", vms=MOVED)


class Slice:
    """What a slice has of the fleet: an observer, 59 peers, and the note of the slice before."""

    def __init__(self, note: Path, dead: str = "", odd: str = "") -> None:
        self.dialled: list[str] = []
        self.dead, self.odd = dead, odd
        own = Host(HostConfig("h00", "x://h00", 1024), self.open)
        peers = {name: Host(HostConfig(name, f"x://{name}", 1024), self.open) for name in PEERS}
        silent = str(note.with_name("silent"))
        self.observer = Observer(own, list(peers.values()), "boot", "", noted=silent)
        self.few = ReadOfFew(self.observer, peers, ("h01", "h02"), str(note))

    def open(self, uri: str) -> Any:
        name = uri[-3:]
        self.dialled.append(name)
        if name == self.dead:
            raise HostUnreachable(uri, "no route to host", "Is it on?")
        return SimpleNamespace(isAlive=lambda: True, close=lambda: None)

    def read(self, host: Host) -> HostNow:
        try:
            assert host.conn
        except HostUnreachable as exc:
            return HostNow(host.name, error=str(exc))
        return HostNow(host.name, error="the host UUID of h05" if host.name == self.odd else "")

    def work(self, now: float, goes_on: bool = True, ends: bool = True) -> Observation:
        self.few.begin(RECORD, Policy(), now, goes_on)
        obs = self.observer.observe(RECORD, now, frozenset(), {})
        if ends:
            self.few.end(obs, RECORD)
            self.observer.close()
        return obs

    @property
    def connections(self) -> set[str]:
        return set(self.dialled) - {"h00"}


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def read(host: Host, _jobs: bool) -> HostNow:
        return host._opener.__self__.read(host)  # type: ignore[attr-defined]

    monkeypatch.setattr(Host, "read", read)
    return tmp_path / "last-read.json"


def test_of_60_hosts_few_are_dialled_by_the_slices_after_the_first(note: Path) -> None:
    first, second, third = Slice(note), Slice(note), Slice(note)
    assert first.work(10.0, goes_on=False).not_asked == frozenset()
    assert first.connections == set(PEERS)
    obs = second.work(13.0)
    assert second.connections == {"h01", "h02", "h20", *(f"h{n:02}" for n in range(3, 11))}
    assert obs.not_asked == set(PEERS) - second.connections
    assert not any(obs.nodes[name].reachable for name in obs.not_asked)
    third.work(16.0)
    assert len(third.connections) == 11


def test_what_could_not_settle_it_is_read_whole_in_the_same_slice(note: Path) -> None:
    Slice(note).work(10.0)
    again = Slice(note)
    again.work(13.0, ends=False)
    again.few.read_all()
    assert again.observer.observe(RECORD, 13.1, frozenset(), {}).not_asked == frozenset()
    assert again.connections == set(PEERS)
    assert len(again.dialled) == len(PEERS) + 1  # none of them twice


def test_after_a_slice_that_was_killed_all_are_read(note: Path) -> None:
    Slice(note).work(10.0)
    Slice(note).work(13.0, ends=False)
    assert not note.exists()
    after = Slice(note)
    after.work(16.0)
    assert after.connections == set(PEERS)


def test_where_something_of_ours_was_asked_for_is_read(note: Path) -> None:
    first, second = Slice(note), Slice(note)
    first.few.claimed.add("h44")
    first.work(10.0)
    second.work(13.0)
    assert "h44" in second.connections


def test_one_that_is_off_is_still_known_to_be_off(note: Path) -> None:
    Slice(note, dead="h55").work(10.0)
    for when in (13.0, 16.0):
        later = Slice(note, dead="h55")
        obs = later.work(when)
        assert "h55" in later.connections
        assert "h55" not in obs.not_asked


def test_beside_one_that_cannot_be_believed_all_are_read(note: Path) -> None:
    Slice(note, odd="h06").work(10.0)
    assert not note.exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"run": 1}', '{"run":"r","at":1,"whole_at":1,"needed":3,"room":{}}'])
def test_a_note_that_nobody_wrote_is_none(note: Path, text: str) -> None:
    note.write_text(text, encoding="utf-8")
    assert take(str(note)) is None


def test_the_note_of_a_thousand_hosts_is_small(note: Path) -> None:
    Slice(note).work(10.0)
    raw = json.loads(note.read_text(encoding="utf-8"))
    assert sorted(raw) == ["at", "needed", "room", "run", "whole_at"]
    assert len(note.read_bytes()) < 60 * 60
