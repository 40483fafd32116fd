# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A peer that is off costs a few seconds once, and is taken back when it answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import (
    HostUnreachable,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import (
    peers as module,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    Host,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.peers import (
    Peers,
)


class Wires:
    """Peers b, c, ... of which some hang and some refuse; how often each was dialled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hang: set[str] = set()
        self.refuse: set[str] = set()
        self.dialled: list[str] = []
        self.over = threading.Event()
        self.slow: set[str] = set()  # takes a connection at once, and answers when `over`
        monkeypatch.setattr(Host, "read", lambda host, _jobs: self.read(host))

    def open(self, uri: str) -> Any:
        name = uri[-1]
        self.dialled.append(name)
        if name in self.hang:
            self.over.wait(30)
        if name in self.refuse or name in self.hang:
            raise HostUnreachable(uri, "no route to host", "Is it on?")
        return SimpleNamespace(isAlive=lambda: True, close=lambda: None)

    def read(self, host: Host) -> HostNow:
        try:
            assert host.conn
        except HostUnreachable as exc:
            return HostNow(host.name, error=str(exc))
        if host.name in self.slow:
            self.over.wait(30)
        return HostNow(host.name)

    def peers(self, noted: str = "", names: str = "bc", patience: float = 0.5) -> Peers:
        return Peers([Host(HostConfig(n, f"x://{n}"), self.open) for n in names], noted, patience)


@pytest.fixture
def wires(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wires]:
    made = Wires(monkeypatch)
    yield made
    made.over.set()


def errors(peers: Peers) -> dict[str, str]:
    peers.ask()
    return {name: read.error for name, read in peers.answers().items()}


def test_one_that_hangs_is_waited_for_once(wires: Wires) -> None:
    wires.hang = {"c"}
    peers = wires.peers()
    assert errors(peers) == {"b": "", "c": "x://c: did not answer within 0.5 s"}
    for _again in range(20):
        assert errors(peers)["c"]
        assert list(peers._asked) == ["b"]
    assert wires.dialled.count("c") <= 2  # the second one in the background
    peers.close()


def test_whoever_else_uses_it_does_not_wait_either(wires: Wires) -> None:
    """A copy of the record, a claim: they go to the next host at once."""
    wires.hang = {"c"}
    host = Host(HostConfig("c", "x://c"), wires.open)
    peers = Peers([host], "", 0.2)
    errors(peers)
    with pytest.raises(HostUnreachable, match="did not answer within"):
        assert host.conn
    assert wires.dialled == ["c"]


def test_one_that_refuses_is_told_in_its_own_words_and_not_dialled_at_each_read(
    wires: Wires,
) -> None:
    wires.refuse = {"c"}
    peers = wires.peers()
    for _again in range(5):
        assert errors(peers)["c"] == "x://c: no route to host. Is it on?"
    assert wires.dialled.count("c") <= 2


def test_one_that_answers_again_is_read_again(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN", 0.0)
    wires.refuse = {"c"}
    peers = wires.peers(patience=5.0)
    assert errors(peers)["c"]
    wires.refuse = set()
    end = time.monotonic() + 60
    while errors(peers)["c"]:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert errors(peers) == {"b": "", "c": ""}


def test_the_next_slice_does_not_wait_as_long(
    wires: Wires, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KNOWN_SILENT", 0.05)
    noted = str(tmp_path / "silent")
    wires.hang = {"c"}
    first = wires.peers(noted, patience=0.5)
    assert errors(first)["c"]
    first.close()
    second = wires.peers(noted, patience=5.0)
    assert errors(second) == {"b": "", "c": "x://c: did not answer within 0.05 s"}
    wires.hang = set()
    second.close()
    third = wires.peers(noted, patience=5.0)
    monkeypatch.setattr(module, "_KNOWN_SILENT", 60.0)
    assert errors(third) == {"b": "", "c": ""}
    third.close()
    assert wires.peers(noted)._known == {}


def test_one_that_took_the_connection_has_more_time(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there, and busy: it answers when its time to connect is long over."""
    wires.slow = {"c"}
    wait = module.Task.wait

    def waited(task: module.Task, patience: float) -> bool:
        if patience >= module._READ_FOR:
            wires.over.set()
        return wait(task, patience)

    monkeypatch.setattr(module.Task, "wait", waited)
    assert errors(wires.peers(patience=0.1)) == {"b": "", "c": ""}


def test_one_that_never_answers_is_not_waited_for_at_length_in_each_slice(
    wires: Wires, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes connections, and no more."""
    for name, seconds in (("_READ_FOR", 0.2), ("_READ_AGAIN_FOR", 0.1), ("_KNOWN_SILENT", 0.05)):
        monkeypatch.setattr(module, name, seconds)
    wires.slow = {"c"}
    noted = str(tmp_path / "silent")
    for words in ("within 0.3 s", "within 0.15 s"):
        peers = wires.peers(noted, patience=0.1)
        assert errors(peers)["c"].endswith(words)
        peers.close()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"c": "x"}', '{"c": 1}', '{"c": 1e300}'])
def test_a_note_that_is_damaged_or_old_is_none(wires: Wires, tmp_path: Path, text: str) -> None:
    (tmp_path / "silent").write_text(text, encoding="utf-8")
    assert wires.peers(str(tmp_path / "silent"))._known == {}


def test_many_dead_ones_do_not_starve_the_others(wires: Wires) -> None:
    """More of them than there are threads."""
    dead = [f"d{n}" for n in range(30)]
    hosts = [Host(HostConfig(n, f"x://{n}/d"), wires.open) for n in dead]
    wires.refuse = {"d"}
    living = [Host(HostConfig(n, f"x://{n}/l"), wires.open) for n in "bc"]
    found = errors(Peers([*hosts, *living], "", 5.0))
    assert [name for name, error in found.items() if not error] == ["b", "c"]


def test_no_thread_is_left_that_an_end_of_the_process_would_wait_for(wires: Wires) -> None:
    wires.hang = {"c"}
    before = set(threading.enumerate())
    peers = wires.peers()
    errors(peers)
    peers.close()
    assert all(thread.daemon for thread in set(threading.enumerate()) - before)
