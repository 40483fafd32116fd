# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disks that stay on a host when their VM moves away and its holder dies just then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Node,
    Observation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import DomainNow, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import platform
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
    monkeypatch.setattr(platform, "copied_disks", notes)
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
    made.source = SimpleNamespace(name="a", conn=None, store=SimpleNamespace(names=lambda: names))
    made.observer = SimpleNamespace(observe=lambda *_args: Observation(nodes, {}), reads=reads)
    made._held = lambda: (frozenset({UUID} if held else ()), "")
    made._holder, made._outcomes, made._acts, made._stamped = None, {}, acts, set()
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

    monkeypatch.setattr(platform, "libvirt", SimpleNamespace(libvirtError=RuntimeError))
    monkeypatch.setattr(platform, "copied_disks", SimpleNamespace(stamp_copies_left=full))
    it = host()
    it.observe(None)
    later = SimpleNamespace(stamp_copies_left=lambda _conn, uuid: stamped.append(uuid))
    monkeypatch.setattr(platform, "copied_disks", later)
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
