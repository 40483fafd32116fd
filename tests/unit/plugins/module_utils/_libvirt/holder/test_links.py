"""The holder's connections: a migration never waits behind another one's call.

libvirtd answers five requests of a connection at a time. With one connection for all, the sixth
migration was queued, and it started after the others were aborted (seen).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import MigrationMethod
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import copy_signs, migrate
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import links as holder_links
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.job import Job
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.links import Links, Local
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import parse_order
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.probe import Pace
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable


class LibvirtError(Exception):
    """As libvirt.libvirtError."""


class Connection:
    """`alive`: as its isAlive answers."""

    def __init__(self, uri: str, how: dict[str, Any]) -> None:
        self.uri, self.how = uri, how
        self.alive = True
        self.closed = False

    def isAlive(self) -> bool:  # noqa: N802 - libvirt's name
        return self.alive

    def close(self) -> None:
        self.closed = True


class Opened(list[Connection]):
    """Every connection that was opened, in order."""

    def open(self, uri: str, **how: Any) -> Connection:
        self.append(Connection(uri, how))
        return self[-1]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    opened = Opened()
    monkeypatch.setattr(holder_links, "open_connection", opened.open)
    monkeypatch.setattr(holder_links, "libvirt", SimpleNamespace(libvirtError=LibvirtError))
    return opened


def job(links: Links, uuid: str) -> Job:
    order = {
        "order": "migrate",
        "uuid": uuid,
        "name": uuid,
        "attempt": 1,
        "node": "a",
        "target": "b",
        "target_uri": "qemu+tls://b/system",
    }
    return Job(links, parse_order(order), print, print, Pace())


class Handed(Links):
    """Remembers what it handed out."""

    def __init__(self) -> None:
        super().__init__("qemu:///system")
        self.locals: list[Local] = []

    def local(self) -> Local:
        self.locals.append(super().local())
        return self.locals[-1]


def test_each_migration_has_connections_of_its_own(opened: Opened) -> None:
    """One that the migration's call blocks, one for questions and the abort."""
    links = Handed()
    for number in range(12):
        job(links, f"u{number}")
    assert len({id(local.conn) for local in links.locals}) == 24
    assert len(opened) == 24
    # A keepalive that comes into a call on the same connection ends the process (CVE-2024-4418).
    assert {conn.how["keepalive"] for conn in opened} == {(0, 0)}


def test_a_local_connection_is_kept_and_opened_anew_when_it_was_lost(opened: Opened) -> None:
    local = Links("qemu:///system", opened.open).local()
    first = local.conn
    assert local.conn is first
    opened[0].alive = False
    assert local.conn is not first
    assert first.closed


def test_a_peer_is_asked_by_one_at_a_time(opened: Opened) -> None:
    links = Links("qemu:///system", opened.open)
    inside = threading.Event()

    def asks() -> None:
        with links.peer("b"):
            inside.set()

    other = threading.Thread(target=asks)
    with links.peer("b"), links.peer("c"):
        other.start()
        assert not inside.wait(0.2)
    other.join(60)
    assert inside.is_set()
    assert [conn.uri for conn in opened] == ["b", "c"]


def test_a_call_that_hangs_holds_up_the_others_for_a_moment_only(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place of a VM that has arrived there is read by a connection of its own. Still never two on one."""
    monkeypatch.setattr(holder_links, "BUSY", 0.05)
    links, hangs, inside = Links("qemu:///system", opened.open), threading.Event(), threading.Event()

    def asks() -> None:
        with links.peer("b"):
            inside.set()
            hangs.wait()

    other = threading.Thread(target=asks, daemon=True)
    other.start()
    assert inside.wait(60)
    for _again in range(3):
        with links.peer("b") as conn:
            assert conn is opened[1]
    hangs.set()
    other.join(60)
    assert [conn.closed for conn in opened] == [True, False]
    with links.peer("b") as conn:
        assert conn is opened[1]


def test_work_on_storage_that_hangs_holds_up_nobody_and_is_given_up(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder_links, "STORAGE", 0.2)
    links, back, told = Links("qemu:///system", opened.open), threading.Event(), list[bool]()
    ended = threading.Event()

    def works(conn: Connection, given_up: Callable[[], bool]) -> None:
        told.append(given_up())
        with links.peer("b") as other:  # what somebody else asks meanwhile
            assert other is not conn
        back.wait()
        told.append(given_up())
        ended.set()

    with pytest.raises(HostUnreachable, match=r"b: its storage did not answer within 0\.2 s"):
        links.apart("b", works)
    back.set()
    assert ended.wait(60) and told == [False, True]

    def fails(_conn: Connection, _given_up: Callable[[], bool]) -> None:
        raise LibvirtError("no space")

    with pytest.raises(LibvirtError, match="no space"):
        links.apart("b", fails)
    monkeypatch.setattr(holder_links, "is_lost", lambda _exc: True)
    with pytest.raises(HostUnreachable, match="no space"):
        links.apart("b", fails)
    assert [conn.closed for conn in opened[2:]] == [True, True]


def test_a_sign_of_a_copy_that_hangs_holds_up_its_end_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_signs, "libvirt", SimpleNamespace(libvirtError=LibvirtError))
    monkeypatch.setattr(copy_signs, "SIGN_EVERY", 0.0)
    monkeypatch.setattr(copy_signs, "BUSY", 0.05)
    hangs, inside = threading.Event(), threading.Event()

    def peer(_uri: str) -> Any:
        inside.set()
        hangs.wait()
        raise HostUnreachable("b", "over")

    order: Any = SimpleNamespace(method=MigrationMethod.BLOCK, foreign=False, target_uri="b", uuid="u")
    links: Any = SimpleNamespace(peer=peer)
    ended = threading.Event()

    def copies() -> None:
        with copy_signs.copy_signs(links, order):
            inside.wait(60)
        ended.set()

    threading.Thread(target=copies, daemon=True).start()
    assert inside.wait(60) and ended.wait(60)
    hangs.set()


def test_a_peer_that_was_lost_is_told_and_reached_again(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder_links, "is_lost", lambda exc: str(exc) == "broken pipe")
    links = Links("qemu:///system", opened.open)
    with pytest.raises(LibvirtError, match="no such domain"), links.peer("b"):
        raise LibvirtError("no such domain")
    with pytest.raises(HostUnreachable, match="broken pipe"), links.peer("b"):
        raise LibvirtError("broken pipe")
    with links.peer("b"):
        assert [conn.closed for conn in opened] == [True, False]


def test_statistics_stay_readable_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt forgets them with the first read, unless told to keep them."""
    completed, keep, none = 1, 2, 0
    binding = SimpleNamespace(
        libvirtError=LibvirtError,
        VIR_DOMAIN_JOB_STATS_COMPLETED=completed,
        VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED=keep,
        VIR_DOMAIN_JOB_NONE=none,
    )
    monkeypatch.setattr(migrate, "libvirt", binding)
    left = [{"type": 3, "downtime": 17}]

    def read(flags: int) -> dict[str, Any]:
        if not flags & completed or not left:
            return {"type": none}
        return left[0] if flags & keep else left.pop()

    domain = SimpleNamespace(jobStats=read)
    assert migrate.completed_stats(domain)["downtime"] == 17
    assert migrate.completed_stats(domain)["downtime"] == 17
