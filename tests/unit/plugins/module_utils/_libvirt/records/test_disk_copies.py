"""What stays of copied disks when something dies just then: the source's own, and half copies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Job,
    Node,
    Observation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import DomainNow, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import disk_copies
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.disk_copies import DiskCopies
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import LibvirtPlatform
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import StoreError

UUID = "11111111-2222-3333-4444-555555555555"


def seen(state: State) -> dict[str, DomainNow]:
    return {UUID: DomainNow(UUID, "web", state, 1024)}


@pytest.fixture
def stamped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose files got their time."""
    found: list[str] = []
    notes = SimpleNamespace(stamp_copies_left=lambda _conn, uuid: found.append(uuid))
    monkeypatch.setattr(disk_copies, "copied_disks", notes)
    return found


def host(
    here: State | None = None,
    there: State | None = State.RUNNING,
    error: str = "",
    unread: bool = False,
    held: bool = False,
    acts: bool = True,
) -> Any:
    """Host a, whose store has the note, and its peer b. The VM as each of them has it."""
    names = [f"made.{UUID}.2", "record.1", "cordon"]
    mine = HostNow("a", seen(here) if here else {}, names=names, error=error)
    mine.unread = {UUID: "its job cannot be read"} if unread else {}
    reads = {"a": mine, "b": HostNow("b", seen(there) if there else {})}
    nodes = {n: Node(n, capacity_mib=9999) for n in "ab"}
    made: Any = LibvirtPlatform.__new__(LibvirtPlatform)
    peers: Any = {"b": SimpleNamespace(name="b", conn="b", store=None)}
    made.hosts = {}
    made.source = SimpleNamespace(name="a", conn=None, store=SimpleNamespace(names=lambda: names))
    made.observer = SimpleNamespace(observe=lambda *_args: Observation(nodes, {}), reads=reads)
    made._held = lambda: (frozenset({UUID} if held else ()), "")
    made._holder, made._outcomes, made._acts = None, {}, acts
    made.disk_copies = DiskCopies(made.source, peers)
    made.stale_claims = SimpleNamespace(check=lambda *_args: None)
    return made


@pytest.mark.parametrize("there", [State.RUNNING, State.PAUSED])
def test_the_next_run_notes_the_time_of_what_stays(stamped: list[str], there: State) -> None:
    it = host(there=there)
    it.observe(None)
    it.observe(None)
    assert stamped == [UUID]  # and once, not at each look


@pytest.mark.parametrize(
    "case",
    [
        {"here": State.SHUTOFF},
        {"here": State.RUNNING, "there": State.INCOMING},
        {"unread": True},
        {"held": True},
        {"there": State.SHUTOFF},
        {"there": State.UNKNOWN},
        {"there": State.INCOMING},
        {"there": State.CRASHED},
        {"there": None},
        {"error": "libvirt does not answer"},
        {"acts": False},
    ],
    ids=lambda case: "-".join(f"{k}-{v}".lower() for k, v in case.items()).replace(" ", "-"),
)
def test_no_time_is_noted_while_the_vm_may_use_the_files(stamped: list[str], case: dict[str, Any]) -> None:
    host(**case).observe(None)
    assert stamped == []


def test_a_store_that_does_not_write_hinders_no_drain(stamped: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> None:
        raise StoreError("no space")

    monkeypatch.setattr(disk_copies, "libvirt", SimpleNamespace(libvirtError=RuntimeError))
    monkeypatch.setattr(disk_copies, "copied_disks", SimpleNamespace(stamp_copies_left=full))
    it = host()
    it.observe(None)
    later = SimpleNamespace(stamp_copies_left=lambda _conn, uuid: stamped.append(uuid))
    monkeypatch.setattr(disk_copies, "copied_disks", later)
    it.observe(None)
    assert stamped == [UUID]


def test_a_vm_that_came_back_and_left_again_is_noted_again(stamped: list[str]) -> None:
    it = host()
    it.observe(None)
    it.observer.reads["a"].domains = seen(State.RUNNING)
    it.observe(None)
    it.observer.reads["a"].domains = {}
    it.observe(None)
    assert stamped == [UUID, UUID]


@pytest.fixture
def cleared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done about the notes in the peer's store."""
    found: list[str] = []

    def stays() -> list[str]:
        found.append("remove")
        return ["it was changed since"]

    volumes = SimpleNamespace(finish=lambda: found.append("finish"), remove_unfinished=stays)
    monkeypatch.setattr(disk_copies, "TargetVolumes", lambda *_args: volumes)
    return found


def half(here: State | None, there: State | None, third: State | None = None, **more: Any) -> Any:
    """The note of a half copy is in the store of b. c: another peer."""
    it = host(here=here, there=there, **more)
    it.observer.reads["a"].names = []
    it.observer.reads["b"].names = [f"made.{UUID}.7"]
    it.observer.reads["c"] = HostNow("c", seen(third) if third else {})
    return it


@pytest.mark.parametrize(
    ("here", "there", "done"),
    [
        (State.RUNNING, None, ["remove"]),
        (State.PAUSED, None, ["remove"]),
        (State.SHUTOFF, None, ["remove"]),
        (None, State.RUNNING, ["finish"]),
        (None, State.INCOMING, []),
        (None, None, []),
        (State.RUNNING, State.INCOMING, []),
        (State.RUNNING, State.SHUTOFF, []),
    ],
)
def test_a_half_copy_of_a_vm_that_stayed_goes(
    cleared: list[str], here: State | None, there: State | None, done: list[str]
) -> None:
    it = half(here, there)
    it.observe(None)
    it.observe(None)
    assert cleared == done
    told = ["On b: it was changed since"] if done == ["remove"] else []
    assert it.disk_copies.warnings == told


@pytest.mark.parametrize(
    "case",
    [{"held": True}, {"unread": True}, {"error": "libvirt does not answer"}, {"acts": False}],
    ids=lambda case: next(iter(case)),
)
def test_a_copy_that_may_go_on_is_not_touched(cleared: list[str], case: dict[str, Any]) -> None:
    half(State.RUNNING, None, **case).observe(None)
    assert cleared == []


@pytest.mark.parametrize("kind", ["half 1 2", 17])
def test_a_copy_on_which_the_vm_may_have_run_last_stays_and_is_named(
    cleared: list[str], monkeypatch: pytest.MonkeyPatch, kind: object
) -> None:
    """Off on both, defined on both: which disk has its last writes nobody can tell. A file left long ago is no copy."""
    monkeypatch.setattr(disk_copies.copied_disks, "read", lambda _store, _uuid: {"/images/web.qcow2": kind})
    it = half(State.SHUTOFF, State.SHUTOFF)
    it.observe(None)
    assert cleared == []
    assert [text[:29] for text in it.disk_copies.warnings] == ["On b: web is defined and off,"] * (kind == "half 1 2")
    it.observer.reads["b"].domains = seen(State.RUNNING)
    it.observe(None)
    assert (cleared, it.disk_copies.warnings) == ([], [])


@pytest.mark.parametrize("third", [State.RUNNING, State.SHUTOFF])
def test_of_a_vm_that_is_off_here_and_elsewhere_somebody_else_may_copy(cleared: list[str], third: State) -> None:
    half(State.SHUTOFF, None, third).observe(None)
    assert cleared == []


def test_a_copy_of_an_outgoing_job_is_not_touched(cleared: list[str]) -> None:
    it = half(State.RUNNING, None)
    it.observer.reads["a"].domains[UUID].job = Job(outgoing=True)
    it.observe(None)
    assert cleared == []
