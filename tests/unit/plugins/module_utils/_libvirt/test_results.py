"""Every result has the VMs, their counts and the certificate; and the documentation says so."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    Intent,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import migration
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.migration import MigrationRequest
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import history
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import check_mode, service
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import VolumeTorn
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm
from fleetsim.fleet import Fleet
from fleetsim.machines import Fate
from fleetsim.platform import ModelPlatform

MODULES = Path(check_mode.__file__).parents[3] / "modules"
PACKAGE = "ansible_collections.virtops.maintenance.plugins.modules"
# Those that tell what becomes, or has become, of VMs.
EXPECTED = {
    "kubevirt_drain": "vms",
    "kubevirt_migration": "vms",
    "kubevirt_node_info": "vms",
    "virt_drain": "vms",
    "virt_host_info": "vms",
    "virt_migration": "vms",
    "virt_migration_info": "migrations",
}


def returned(name: str) -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load(importlib.import_module(f"{PACKAGE}.{name}").RETURN) or {}
    return told


class Volumes:
    """The store as far as history is kept in it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read_record(self, prefix: str) -> str | None:
        if self.texts.get(prefix) == "torn":
            raise VolumeTorn(prefix)
        return self.texts.get(prefix)

    def write_record(self, prefix: str, text: str) -> None:
        self.texts[prefix] = text


class Platform(ModelPlatform):
    """The model as far as these functions know the platform of libvirt."""

    boot_id = "boot"
    observer: Any = SimpleNamespace(read_hosts=dict, reads={})  # every peer answers
    few: Any = SimpleNamespace(begin=lambda *_of: None, read_all=None, end=lambda *_of: None)
    warnings: tuple[str, ...] = ()
    hosts: Any = ()
    quorum_hosts: tuple[str, ...] = ()
    store: Any = Volumes()
    running: tuple[NodeRecord, ...] = ()

    def single_migrations(self) -> tuple[list[NodeRecord], list[NodeRecord]]:
        return list(self.running), history.kept_in(self.store)

    def keep_history(self, record: NodeRecord) -> None:
        history.keep(self.store, record)

    def renew_copies(self, _record: NodeRecord) -> None:
        """There are none."""

    def forget(self, _record: NodeRecord) -> None:
        """One VM's record is the model's only one."""
        self.own.record = None
        self.own.outcomes.clear()

    def close(self) -> None:
        """There is no connection."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Two hosts; on a, two VMs that can migrate and one that wants to be shut down."""
    vms = [vm(1, "a"), vm(2, "a"), vm(3, "a", declared_strategy="None")]
    found = fleet([("a", one) for one in vms], {"a": 8192, "b": 8192})
    monkeypatch.setattr(Platform, "store", Volumes())
    monkeypatch.setattr(Platform, "running", ())
    monkeypatch.setattr(service, "LibvirtPlatform", lambda *_a, **_k: Platform(found, "a"))
    monkeypatch.setattr(service.roll, "check_host", lambda *_where, **_how: None)
    return found


def request(intent: Intent = Intent.DRAINED, **more: Any) -> Request:
    own, peer = HostConfig("a", "qemu:///system"), HostConfig("b", "qemu+tls://b/system")
    asked = {"policy": POLICY, "run_id": "r", "requester": "alice@ctl", "seconds": 500.0, **more}
    return Request(own=own, peers=[peer], intent=intent, **asked)


def migrate(made: Fleet, **more: Any) -> dict[str, Any]:
    """One VM's own migration, as virt_migration does it."""
    asked = request(more.pop("intent", Intent.MIGRATED), **{"only": "u1", **more})
    found = service._slice(Platform(made, "a"), asked)
    del found["needs"]  # as virt_migration does: rules' hooks are left aside there
    return found


def already(_made: Fleet) -> dict[str, Any]:
    own, peer = HostConfig("a", "x"), HostConfig("b", "y")
    asked = MigrationRequest(own, [peer], POLICY, Intent.MIGRATED, "r", name="vm1")
    return migration._already(asked, migration.Found("u1", "vm1"), "b")


def undone(_made: Fleet) -> dict[str, Any]:
    read = SimpleNamespace(cordoned=False)
    platform: Any = SimpleNamespace(
        source=SimpleNamespace(read=lambda _jobs: read), release_left=lambda: None, warnings=[]
    )
    return service._nothing_to_restore(platform, request(Intent.ACTIVE))


def drained(made: Fleet) -> dict[str, Any]:
    """Its certificate is the only one."""
    del made.machines["a"].domains["u3"]
    return service._slice(Platform(made, "a"), request())


RESULTS: dict[str, tuple[str, Callable[[Fleet], dict[str, Any]], int]] = {
    "drain": ("virt_drain", drained, 2),
    "check mode": ("virt_drain", lambda _made: check_mode.plan(request()), 3),
    "nothing to undo": ("virt_drain", undone, 0),
    "migration": ("virt_migration", migrate, 1),
    "there already": ("virt_migration", already, 1),
    "look": ("virt_host_info", lambda _made: check_mode.read_host(request()), 3),
    "migrations": ("virt_migration_info", lambda _made: check_mode.migrations(request()), 0),
}


@pytest.fixture(autouse=True)
def _unlike_libvirt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "by_others", lambda _node, _record: False)
    monkeypatch.setattr(check_mode, "by_others", lambda _node, _record: False)


@pytest.mark.parametrize("which", RESULTS)
def test_every_result_has_the_vms_their_counts_and_the_certificate(made: Fleet, which: str) -> None:
    module, ask, total = RESULTS[which]
    found, documented = ask(made), returned(module)
    vms = found[EXPECTED[module]]
    assert found["counts"]["total"] == len(vms) == total
    assert sum(found["counts"].values()) == 2 * total
    assert bool(found["certificate"]) is (which == "drain")
    assert found["findings"] == []
    assert set(found) - set(documented) - {"changed"} == set()
    for row in vms:
        assert set(row) - set(documented[EXPECTED[module]]["contains"]) - {"judged"} == set()  # for the report alone


@pytest.mark.parametrize("path", sorted(MODULES.glob("*.py")), ids=lambda path: path.stem)
def test_the_documentation_of_every_module_has_them(path: Path) -> None:
    documented = returned(path.stem) if path.stem != "__init__" else {}
    lists = [key for key in ("vms", "migrations") if key in documented]
    lists = [key for key in lists if "verdict" in documented[key].get("contains", {})]
    assert lists == ([EXPECTED[path.stem]] if path.stem in EXPECTED else [])
    if lists:
        assert {"counts", "certificate", "findings"} <= set(documented)
        assert documented["certificate"]["returned"] == documented["counts"]["returned"] == "success"


def test_an_ended_migration_of_one_vm_is_told_with_its_times_and_its_requester(made: Fleet) -> None:
    assert migrate(made)["phase"] == "Migrated"
    assert made.machines["a"].record is None
    (row,) = check_mode.migrations(request())["migrations"]
    assert (row["name"], row["verdict"], row["phase"]) == ("vm1", "moved", "Succeeded")
    assert (row["target"], row["requested_by"]) == ("b", "alice@ctl")
    assert "1970-01-01T00:00:00Z" <= row["start"] < row["end"] < "1970-01-01T00:30:00Z"


def test_it_is_kept_until_the_next_one_of_that_vm(made: Fleet) -> None:
    made.fate = lambda _vm, _attempt: Fate(fail_at=0.5)
    assert migrate(made)["phase"] == "Blocked"
    assert migrate(made, only="u2")["phase"] == "Blocked"
    told = check_mode.migrations(request())
    assert [row["name"] for row in told["migrations"]] == ["vm1", "vm2"]
    assert (told["counts"]["blocked"], told["counts"]["total"]) == (2, 2)
    made.fate = lambda _vm, _attempt: Fate()
    assert migrate(made, run_id="again", requester="bob")["phase"] == "Migrated"
    rows = check_mode.migrations(request())["migrations"]
    assert [(row["verdict"], row["requested_by"]) for row in rows] == [("moved", "bob"), ("blocked", "alice@ctl")]


def test_the_one_under_way_is_told_and_not_the_last_one(made: Fleet) -> None:
    """Of one VM's own run, with its requester; and of somebody else, without."""
    made.fate = lambda _vm, _attempt: Fate(fail_at=0.5)
    migrate(made)
    made.fate = lambda _vm, _attempt: Fate()
    platform = Platform(made, "a")
    now = platform.now()
    begun = begin(None, "a", "migrated", "two", now, "boot", "bob", only="u1", wall="")
    engine = Engine(platform, POLICY, begun)
    for _step in range(20):
        engine.step()
        made.advance(made.clock + 0.2)
        if any(one.state is State.INCOMING for one in made.machines["b"].domains.values()):
            break
    one, made.machines["a"].record = platform.load(), None
    assert one is not None
    (row,) = check_mode.migrations(request())["migrations"]  # as if somebody else had begun it
    assert row["progress"] and (row["start"], row["requested_by"]) == ("", "")
    Platform.running = (one,)
    (row,) = check_mode.migrations(request())["migrations"]
    assert row["progress"] and row["start"] and row["requested_by"] == "bob"
    assert (row["end"], row["verdict"]) == ("", "pending")


def test_history_is_bounded_and_its_loss_no_failure() -> None:
    store: Any = Volumes()
    for number in range(history.LAST + 3):
        record = NodeRecord("a", "r", only=f"u{number}")
        history.keep(store, record)
        assert bool(store.texts) is bool(number)  # nothing was migrated yet
        entry = record.vms[record.only] = VMRecord(record.only, "vm")
        entry.attempts.append(Attempt(1, "b", "", 0.0, "boot"))
        history.keep(store, record)
    assert [one.only for one in history.kept_in(store)][::31] == ["u3", "u34"]
    for lost in ("torn", "{", "[1]", '["{}"]', "7"):
        store.texts[history.VOLUMES] = lost
        assert history.kept_in(store) == []
    history.keep(store, record)
    assert len(history.kept_in(store)) == 1


@pytest.mark.parametrize("name", ["virt_drain", "virt_migration"])
def test_what_a_person_should_know_of_the_copies_is_in_the_result(
    made: Fleet, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request() if name == "virt_drain" else request(Intent.MIGRATED, only="u1")
    assert "warnings" not in service._slice(Platform(made, "a"), asked)
    monkeypatch.setattr(Platform, "warnings", ["1 of 2 copies"])
    assert service._slice(Platform(made, "a"), asked)["warnings"] == ["1 of 2 copies"]
    assert returned(name)["warnings"]["type"] == "list"
