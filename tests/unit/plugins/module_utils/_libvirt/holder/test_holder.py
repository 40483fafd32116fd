"""The holder without libvirt: socket, client, where a VM is."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import client as holder_client
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import daemon
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import server as holder_server
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.client import HolderClient
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.migrate import Place, place_of
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import parse_order
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.probe import to_sample
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.server import Server
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import HolderError, HolderSilent

ORDER: dict[str, Any] = {
    "order": "migrate",
    "uuid": "u",
    "name": "n",
    "attempt": 2,
    "node": "a",
    "target": "b",
    "target_uri": "qemu+tls://b/system",
}


def test_where_a_vm_is() -> None:
    """Every pair of states: never at the target while the source has not let go."""
    for source, target, job in itertools.product(State, State, (False, True)):
        place = place_of(source, target, job)
        if job:
            assert place is Place.MOVING
        if place is Place.TARGET:
            assert source in (State.ABSENT, State.SHUTOFF)
            assert target in (State.RUNNING, State.PAUSED, State.CRASHED)
        if place is Place.SOURCE:
            assert source in (State.RUNNING, State.PAUSED, State.CRASHED)
        if place is Place.NOWHERE:
            assert {source, target} <= {State.ABSENT, State.SHUTOFF}
    assert place_of(State.RUNNING, State.RUNNING, False) is Place.BOTH
    assert place_of(State.POSTCOPY_FAILED, State.POSTCOPY_FAILED, False) is Place.MOVING
    assert place_of(State.ABSENT, State.UNKNOWN, False) is Place.UNKNOWN
    assert place_of(State.PAUSED, State.UNKNOWN, False) is Place.UNKNOWN


def test_a_dirty_rate_comes_in_pages() -> None:
    sample = to_sample(
        {
            "data_processed": 5,
            "memory_dirty_rate": 3,
            "memory_page_size": 4096,
            "memory_total": 9,
            "time_elapsed": 1500,
        },
        7.0,
    )
    assert (sample.dirty_rate, sample.elapsed, sample.memory) == (12288, 1.5, True)
    assert not to_sample({"disk_total": 5}, 0.0).memory


class Orders:
    """Stands for the board."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    @property
    def idle(self) -> bool:
        return not self.jobs

    def order(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        order = parse_order(raw)
        told = {"uuid": order.uuid, "run_id": order.run_id, "attempt": order.attempt}
        self.jobs.append({**told, "watch": order.watch})
        return {"result": "accepted"}

    def save(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {"result": "accepted", "name": raw["name"]}

    def shutdown(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {"result": "accepted", "name": raw["name"]}

    def unsave(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {"result": "withdrawn", "name": raw["name"]}

    def queued(self) -> list[str]:
        return ["q"]

    def stops(self) -> dict[str, dict[str, Any]]:
        return {"g": {"sent": True, "error": ""}}

    def saves(self) -> dict[str, str]:
        return {"s": "the disk is full"}

    def abort(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        self.jobs = [job for job in self.jobs if job["uuid"] != raw["uuid"]]
        return {"result": "aborting", "message": raw["uuid"]}

    def status(self) -> list[dict[str, Any]]:
        return self.jobs


class Clock:
    """The server's: goes on as time does, and an hour when told to."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A server with a board that does nothing. `an_hour`: passes, which is its linger."""
    orders, clock = Orders(), Clock()
    monkeypatch.setattr(holder_server, "time", clock)
    server = Server(daemon.listen(str(tmp_path)), linger=3600)
    thread = threading.Thread(target=server.serve, args=(orders,))
    thread.start()

    def an_hour() -> None:
        clock.ahead += 3600
        server.publish({"event": "an hour later"})  # it looks at its clock at once

    yield SimpleNamespace(path=str(tmp_path), orders=orders, server=server, thread=thread, an_hour=an_hour)
    orders.jobs.clear()
    for _hour in range(1200):
        if thread.is_alive():
            an_hour()
            thread.join(0.05)
    assert not thread.is_alive(), "it did not end though there was nothing to do"


def connect(served: SimpleNamespace) -> HolderClient:
    client = HolderClient.connect(served.path)
    assert client is not None
    return client


def test_orders_answers_and_events(served: SimpleNamespace) -> None:
    client = connect(served)
    assert client.status() == []
    assert client.order(ORDER)["result"] == "accepted"
    assert client.held() == frozenset({"u"})
    assert client.order({"order": "save", "uuid": "s", "name": "web"})["name"] == "web"
    assert client.order({"order": "unsave", "uuid": "s", "name": "web"})["result"] == "withdrawn"
    assert (client.saves, client.queued) == ({"s": "the disk is full"}, {"q"})
    assert client.order({"order": "shutdown", "uuid": "g", "name": "db"})["name"] == "db"
    assert client.stops == {"g": {"sent": True, "error": ""}}
    with pytest.raises(HolderError, match="dance"):
        client.order({"order": "dance"})
    assert client.wait(0.05) == []
    served.server.publish({"event": "change", "job": {"uuid": "u"}})
    assert [e["event"] for e in client.wait(60)] == ["change"]
    assert client.abort("u")["result"] == "aborting"
    client.close()


def test_the_holder_tells_whose_attempt_it_began(served: SimpleNamespace) -> None:
    """Who began what it only watches it cannot know."""
    client = connect(served)
    client.order({**ORDER, "run_id": "run-1"})
    client.order({**ORDER, "order": "watch", "uuid": "w", "run_id": "run-1"})
    assert client.held() == frozenset({"u", "w"})
    assert client.held_for == {"u": ("run-1", 2)}
    client.close()


def test_ticks_come_to_those_who_asked(served: SimpleNamespace) -> None:
    quiet, eager = connect(served), connect(served)
    quiet.subscribe()
    eager.subscribe(0.05)
    assert [e["event"] for e in eager.wait(60)][:1] == ["tick"]
    assert quiet.wait(0.2) == []
    quiet.close()
    eager.close()


def test_events_between_order_and_answer_are_not_lost(served: SimpleNamespace) -> None:
    client = connect(served)
    client.subscribe()
    for number in range(50):
        served.server.publish({"event": "change", "job": {"number": number}})
        client.status()
    seen: list[int] = []
    while len(seen) < 50:
        events = client.wait(60)
        assert events
        seen += [e["job"]["number"] for e in events]
    assert seen == list(range(50))
    client.close()


def test_rubbish_does_no_harm(served: SimpleNamespace) -> None:
    client = connect(served)
    assert client._sock is not None
    client._sock.sendall(b"rubbish\n[]\n\xff\n")
    assert client.status() == []
    client.close()


def test_it_ends_by_itself_but_not_while_someone_is_there(served: SimpleNamespace) -> None:
    client = connect(served)
    client.status()
    for _hour in range(3):
        served.an_hour()
        assert client.status() == []  # it has looked at its clock, and answers
    client.close()
    deadline = time.monotonic() + 60
    while served.thread.is_alive():
        served.an_hour()
        served.thread.join(0.05)
        assert time.monotonic() < deadline


def test_a_holder_that_went(served: SimpleNamespace) -> None:
    client = connect(served)
    client._where = (client._where[0], served.path + "/none", client._where[2])
    assert client._sock is not None
    client._sock.shutdown(2)
    assert client.status() == []
    assert client.held() == frozenset()
    assert client.wait(0.05) == []
    assert not client.alive


def silent_holder(path: Path) -> socket.socket:
    """One that stands still: the kernel takes connections for it, and nobody reads."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path / "holder.sock"))
    listener.listen(1)
    return listener


def test_a_holder_that_does_not_answer_has_not_let_go(
    served: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = connect(served)
    client.order({**ORDER, "run_id": "run-1"})
    assert (client.held(), client.silent) == (frozenset({"u"}), "")
    monkeypatch.setattr(holder_client, "ANSWER_FOR", 0.1)
    still = tmp_path / "still"
    still.mkdir()
    with silent_holder(still):
        client._where = (client._where[0], str(still), client._where[2])
        client.close()
        assert client.held() == frozenset({"u"})
        assert client.held_for == {"u": ("run-1", 2)}
        assert "did not answer" in client.silent
        with pytest.raises(HolderSilent) as caught:
            client.order(ORDER)
        assert caught.value.sent
    assert client.held() == frozenset()  # it has ended: nothing listens any more
    assert client.silent == ""


def test_a_holder_with_too_many_who_wait_is_there(tmp_path: Path) -> None:
    with silent_holder(tmp_path), contextlib.ExitStack() as queue:
        for _number in range(2):  # one more than its backlog
            client = HolderClient.connect(str(tmp_path))
            assert client is not None
            queue.callback(client.close)
        with pytest.raises(HolderSilent):
            HolderClient.connect(str(tmp_path))


def test_a_connection_that_the_holder_dropped_is_made_anew(served: SimpleNamespace) -> None:
    client = connect(served)
    client.order(ORDER)
    assert client._sock is not None
    client._sock.shutdown(2)
    assert client.held() == frozenset({"u"})
    client.close()


@pytest.mark.parametrize("sent", [True, False])
def test_an_order_that_was_sent_may_be_carried_out_though_no_holder_starts(
    served: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    client = connect(served)

    def no_start(*_where: Any) -> HolderClient:
        raise HolderError("does not start")

    monkeypatch.setattr(holder_client, "ensure_holder", no_start)
    client._where = (client._where[0], served.path + "/none", client._where[2])
    assert client._sock is not None
    if sent:
        client._sock.shutdown(2)
    else:
        client.close()
    with pytest.raises(HolderError) as caught:
        client.order(ORDER)
    assert getattr(caught.value, "sent", False) is sent


def test_no_holder(tmp_path: Path) -> None:
    assert HolderClient.connect(str(tmp_path)) is None


def test_the_lock_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "LOCK_FOR", 0.1)
    assert daemon.take_lock(str(tmp_path)) is not None
    assert daemon.take_lock(str(tmp_path)) is None


def test_the_log_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "LOG_LIMIT", 1000)
    log = daemon.Log(str(tmp_path / "log"))
    for number in range(100):
        log(f"line {number}")
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < 1200
