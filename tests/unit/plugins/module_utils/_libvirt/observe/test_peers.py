"""A peer that is off costs a few seconds once, and is taken back when it answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import (
    HostUnreachable,
    LibvirtMissing,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import peers as module
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import Host, HostConfig, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.peers import Peers


class Wires:
    """Peers b, c, ... of which some hang and some refuse; how often each was dialled.

    Who hangs is given up when he hangs, and all others are waited for: no time goes by.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hang: set[str] = set()
        self.refuse: set[str] = set()
        self.dialled: list[str] = []
        self.over = threading.Event()
        self.stuck: set[module.Task] = set()
        self.slow: set[str] = set()  # takes a connection at once, and answers when `over`
        self.here = threading.local()
        run = module.Task.run
        monkeypatch.setattr(Host, "read", lambda host, _jobs: self.read(host))
        monkeypatch.setattr(module.Task, "run", lambda task: (self.begin(task), run(task)))
        monkeypatch.setattr(module.Task, "wait", lambda task, _patience: self.wait(task))

    def begin(self, task: module.Task) -> None:
        self.here.task = task

    def wait(self, task: module.Task) -> bool:
        while not task.done.wait(0.001):
            if task in self.stuck and not self.over.is_set():
                return False
        return True

    def hangs(self) -> None:
        self.stuck.add(self.here.task)
        self.over.wait()

    def open(self, uri: str) -> Any:
        name = uri[-1]
        self.dialled.append(name)
        if name in self.hang:
            self.hangs()
        if name in self.refuse or name in self.hang:
            raise HostUnreachable(uri, "no route to host", "Is it on?")
        return SimpleNamespace(isAlive=lambda: True, close=lambda: None)

    def read(self, host: Host) -> HostNow:
        try:
            assert host.conn
        except HostUnreachable as exc:
            return HostNow(host.name, error=str(exc))
        if host.name in self.slow:
            self.hangs()
        return HostNow(host.name)

    def peers(self, noted: str = "", names: str = "bc") -> Peers:
        return Peers([Host(HostConfig(n, f"x://{n}"), self.open) for n in names], noted)


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
    assert errors(peers) == {"b": "", "c": "x://c: did not answer within 20 s"}
    for _again in range(20):
        assert errors(peers)["c"]
        assert list(peers._asked) == ["b"]
    assert wires.dialled.count("c") <= 2  # the second one in the background
    peers.close()


def test_whoever_else_uses_it_does_not_wait_either(wires: Wires) -> None:
    """A copy of the record, a claim: they go to the next host at once."""
    wires.hang = {"c"}
    host = Host(HostConfig("c", "x://c"), wires.open)
    peers = Peers([host])
    errors(peers)
    with pytest.raises(HostUnreachable, match="did not answer within"):
        assert host.conn
    assert wires.dialled == ["c"]


def test_one_that_refuses_is_told_in_its_own_words_and_not_dialled_at_each_read(wires: Wires) -> None:
    wires.refuse = {"c"}
    peers = wires.peers()
    for _again in range(5):
        assert errors(peers)["c"] == "x://c: no route to host. Is it on?"
    assert wires.dialled.count("c") <= 2


def test_one_that_answers_again_is_read_again(wires: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN", 0.0)
    wires.refuse = {"c"}
    peers = wires.peers()
    assert errors(peers)["c"]
    wires.refuse = set()
    while errors(peers)["c"]:
        pass
    assert errors(peers) == {"b": "", "c": ""}


def test_the_next_slice_does_not_wait_as_long(wires: Wires, tmp_path: Path) -> None:
    noted = str(tmp_path / "silent")
    wires.hang = {"c"}
    first = wires.peers(noted)
    assert errors(first)["c"]
    first.close()
    second = wires.peers(noted)
    assert errors(second) == {"b": "", "c": "x://c: did not answer within 3 s"}
    wires.hang = set()
    second.close()
    third = wires.peers(noted)
    assert errors(third) == {"b": "", "c": ""}
    third.close()
    assert wires.peers(noted)._known == {}


def test_one_that_took_the_connection_has_more_time(wires: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, and busy: it answers when its time to connect is long over."""
    wires.slow = {"c"}

    def waited(task: module.Task, patience: float) -> bool:
        if patience >= module._READ_FOR:
            wires.over.set()
        return wires.wait(task)

    monkeypatch.setattr(module.Task, "wait", waited)
    assert errors(wires.peers()) == {"b": "", "c": ""}


def test_one_that_never_answers_is_not_waited_for_at_length_in_each_slice(wires: Wires, tmp_path: Path) -> None:
    """It takes connections, and no more."""
    wires.slow = {"c"}
    noted = str(tmp_path / "silent")
    for words in ("within 50 s", "within 13 s"):
        peers = wires.peers(noted)
        assert errors(peers)["c"].endswith(words)
        peers.close()


@pytest.mark.parametrize("connects", [True, False])
def test_one_that_was_late_once_gets_its_whole_time_again(
    wires: Wires, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, connects: bool
) -> None:
    """A read of it takes 30 s, for it is large: the short patience would never do. One that is off gets no more."""
    (wires.slow if connects else wires.hang).add("c")
    now, noted, found = [1000.0], str(tmp_path / "silent"), []
    monkeypatch.setattr(module, "_now", lambda: now[0])

    def waited(task: module.Task, patience: float) -> bool:
        if found and patience > module.PATIENCE:
            wires.over.set()
        return wires.wait(task)

    monkeypatch.setattr(module.Task, "wait", waited)
    for _slice in range(14):
        peers = wires.peers(noted)
        found.append(errors(peers)["c"].rpartition(" within ")[2])
        peers.close()
        now[0] += 10.0
    assert found == (["50 s", *["13 s"] * 11, "", ""] if connects else ["20 s", *["3 s"] * 13])


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
    found = errors(Peers([*hosts, *living]))
    assert [name for name, error in found.items() if not error] == ["b", "c"]


def test_no_thread_is_left_that_an_end_of_the_process_would_wait_for(wires: Wires) -> None:
    wires.hang = {"c"}
    before = set(threading.enumerate())
    peers = wires.peers()
    errors(peers)
    peers.close()
    assert all(thread.daemon for thread in set(threading.enumerate()) - before)


def test_what_runs_too_long_is_given_up_and_what_waits_for_a_thread_is_not() -> None:
    threads, hang = module.Threads(1), threading.Event()
    first, then = threads.submit(hang.wait), threads.submit(lambda: "done")
    assert not first.wait(0.01)
    hang.set()
    assert then.wait(60.0) and then.result == "done"
    threads.close()


def test_what_fails_besides_the_host_reaches_who_waits_at_once() -> None:
    """A binding of libvirt that is missing was told after the whole patience with hosts that hang."""
    threads = module.Threads()

    def broken() -> None:
        raise LibvirtMissing("no module")

    try:
        with pytest.raises(LibvirtMissing, match="install python3-libvirt"):
            threads.submit(broken).wait(3600.0)
    finally:
        threads.close()
