"""One VM: what a run finds that was killed while the VM moved."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import migration
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import VMNotHere
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.migration import (
    MigrationRequest,
    run_migration,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig
from ansible_collections.virtops.maintenance.plugins.plugin_utils._progress import summary, would_not

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).with_name("fakes.py"))
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

VM = "11111111-2222-3333-4444-555555555555"


class World:
    """A VM that runs on host-b, and the volumes of host-a, where it was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.volumes: list[str] = []
        self.slices: list[Any] = []
        self.ended = "final"
        self.acted: list[bool] = []
        monkeypatch.setattr(migration, "Host", self.host)
        monkeypatch.setattr(migration, "_lookup", lambda host, _name: host.vm)
        monkeypatch.setattr(migration, "run_slice", self.run)
        monkeypatch.setattr(migration, "plan", self.run)

    def host(self, config: HostConfig, acts: bool) -> Any:
        self.acted.append(acts)
        store = SimpleNamespace(names=lambda: self.volumes)
        vm = migration.Found(VM, "web") if config.name == "host-b" else None
        return SimpleNamespace(name=config.name, store=store, vm=vm, close=lambda: None)

    def run(self, request: Any) -> dict[str, Any]:
        self.slices.append(request)
        return {"ended": self.ended, "msg": "a slice"}

    def ask(self, **more: Any) -> dict[str, Any]:
        own, peer = HostConfig("host-a", "x"), HostConfig("host-b", "y")
        peers = [peer, HostConfig("host-c", "z")]
        asked = {"intent": Intent.MIGRATED, "name": "web", **more}
        return run_migration(MigrationRequest(own, peers, Policy(), run_id="run-2", **asked))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


class Connection:
    """`names`: its VMs. `error`: what it answers instead."""

    def __init__(self, binding: Any, names: tuple[str, ...] = (), error: str = "") -> None:
        self.binding, self.names, self.error = binding, names, error

    def lookupByName(self, name: str) -> Any:  # noqa: N802 - libvirt's name
        if self.error:
            raise fakes.LibvirtError(self.error, self.binding.VIR_ERR_INTERNAL_ERROR)
        if name not in self.names:
            raise fakes.LibvirtError(name, self.binding.VIR_ERR_NO_DOMAIN)
        return SimpleNamespace(UUIDString=lambda: VM, name=lambda: "web")

    lookupByUUIDString = lookupByName  # noqa: N815 - libvirt's name


def test_a_peer_that_could_not_be_asked_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = fakes.Binding()
    monkeypatch.setattr(migration, "libvirt", binding)
    conns = {"a": Connection(binding), "b": Connection(binding, error="socket is closed")}

    def host(config: HostConfig, acts: bool) -> Any:
        return SimpleNamespace(conn=conns[config.name], close=lambda: None)

    monkeypatch.setattr(migration, "Host", host)

    def ask(name: str) -> Any:
        own, peers = HostConfig("a", "x"), [HostConfig("b", "y")]
        request = MigrationRequest(own, peers, Policy(), Intent.MIGRATED, "run-2", name=name)
        return migration._find(request)

    with pytest.raises(VMNotHere, match=r"may be on a peer that could not be read: b \(socket is closed\)"):
        ask("web")
    conns["b"] = Connection(binding, (VM,))
    assert ask(VM) == ((VM, "web"), "b")
    with pytest.raises(VMNotHere, match="nor on its peers"):
        ask("web")
    conns["a"] = Connection(binding, error="socket is closed")  # then nothing is known
    with pytest.raises(fakes.LibvirtError):
        ask("web")


@pytest.mark.parametrize("check", [False, True])
def test_what_a_killed_run_left_is_put_right(world: World, check: bool) -> None:
    world.volumes = [f"single.{VM}.definitions.1", f"single.{VM}.record.3"]
    assert world.ask(check=check)["msg"] == "a slice"
    assert [request.only for request in world.slices] == [VM]
    assert set(world.acted) == {not check}


@pytest.mark.parametrize("volumes", [[], ["record.2", "single.other.record.1"]])
def test_one_that_is_there_already_needs_no_slice(world: World, volumes: list[str]) -> None:
    world.volumes = volumes
    assert "is on host-b" in world.ask()["msg"]
    assert world.slices == []


def test_after_a_last_answer_that_was_lost_it_is_where_it_was_brought(world: World) -> None:
    result = world.ask(begun=True)
    assert (result["ended"], result["phase"], result["changed"]) == ("final", "Migrated", True)
    assert world.slices == []


def test_another_target_than_the_one_it_is_on_is_refused_at_the_end(world: World) -> None:
    world.volumes, world.ended = [f"single.{VM}.record.3"], "out_of_time"
    assert world.ask(to="host-c")["ended"] == "out_of_time"
    world.ended = "final"
    with pytest.raises(VMNotHere, match="run the module on host-b"):
        world.ask(to="host-c")
    assert world.ask(to="host-b")["ended"] == "final"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_an_abort_of_a_vm_that_is_there_already_came_too_late(world: World, begun: bool, check: bool) -> None:
    """Also where the answer that said so was lost on its way."""
    result = world.ask(intent=Intent.ACTIVE, name=VM, begun=begun, check=check)
    assert (result["ended"], result["phase"]) == ("final", "Blocked")
    row = result["vms"][0]
    assert (row["name"], row["at"], row["reason"]) == ("web", "host-b", "TooLateToAbort")
    said = summary(result, "Active").splitlines()
    assert said[0] == "VM web is Blocked, not Active."
    assert said[1].startswith("web (moved, on host-b): TooLateToAbort: Not aborted: it runs on host-b. ")
    assert would_not(result, "Active") == ("VM web would not become Active because of web (TooLateToAbort).")
    assert world.slices == []
