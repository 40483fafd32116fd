"""Declaring a strategy: live and defined, never during a job, all or nothing."""

from __future__ import annotations

import importlib.util
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Job, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import declare as product
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.metadata import (
    strategy_of,
    with_strategy,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import migrate
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import VMNotHere
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import host
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    HostConfig,
    HostNow,
)

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).with_name("fakes.py"))
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

LABELLED = "<vm><label name='tier'>gold</label></vm>"


class FakeDomain:
    """A domain whose live and persistent metadata are told apart. None: there is no such side."""

    def __init__(self, binding: Any, live: str | None, config: str | None) -> None:
        self.flags = {binding.VIR_DOMAIN_AFFECT_LIVE: live, binding.VIR_DOMAIN_AFFECT_CONFIG: config}
        self.binding = binding
        self.writes: list[int] = []
        self.job: dict[str, Any] = {}
        self.broken = False

    def isActive(self) -> bool:  # noqa: N802 - libvirt's name
        return self.flags[self.binding.VIR_DOMAIN_AFFECT_LIVE] is not None

    def isPersistent(self) -> bool:  # noqa: N802 - libvirt's name
        return self.flags[self.binding.VIR_DOMAIN_AFFECT_CONFIG] is not None

    def metadata(self, _kind: int, _namespace: str, flags: int) -> str:
        text = self.flags[flags]
        if not text:
            raise fakes.LibvirtError("none", self.binding.VIR_ERR_NO_DOMAIN_METADATA)
        return text

    def setMetadata(  # noqa: N802 - libvirt's name
        self, _kind: int, text: str, _prefix: str, _namespace: str, flags: int
    ) -> None:
        if self.broken:
            raise fakes.LibvirtError("cannot acquire state change lock")
        self.flags[flags] = text
        self.writes.append(flags)

    def jobStats(self, _flags: int) -> dict[str, Any]:  # noqa: N802 - libvirt's name
        return self.job


class World:
    """One host with domains, in place of libvirt's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.binding = fakes.Binding()
        self.domains: dict[str, FakeDomain] = {}
        self.now = HostNow("host-a")
        self.documents: dict[str, dict[str, Any]] = {}
        self.errors: dict[str, int] = {}
        self.locked = 0
        monkeypatch.setattr(product, "libvirt", self.binding)
        monkeypatch.setattr(host, "libvirt", self.binding)
        monkeypatch.setattr(migrate, "libvirt", self.binding)
        monkeypatch.setattr(product, "Host", lambda _config: self)
        monkeypatch.setattr(product, "one_at_a_time", self._lock)
        monkeypatch.setattr(product, "read_vm_facts", self._facts)
        self.name = "host-a"

    def _lock(self) -> Any:
        self.locked += 1
        return nullcontext()

    def _facts(self, _host: Any, _peers: Any, domain: DomainNow, _reads: Any) -> Any:
        if domain.uuid in self.errors:
            raise fakes.LibvirtError("an error", self.errors[domain.uuid])

        class Facts:
            document = self.documents[domain.uuid]

        return Facts

    def add(self, name: str, live: str | None = "", config: str | None = "", job: Job | None = None) -> FakeDomain:
        uuid = f"u-{name}"
        dom = FakeDomain(self.binding, live, config)
        self.domains[uuid] = dom
        self.now.domains[uuid] = DomainNow(uuid, name, State.RUNNING, 1024, job)
        return dom

    def read(self, with_jobs: bool) -> HostNow:
        assert with_jobs
        return self.now

    def domain(self, uuid: str) -> FakeDomain:
        return self.domains[uuid]

    def close(self) -> None:
        pass

    def declare(self, strategy: str = "External", **more: Any) -> dict[str, Any]:
        own = HostConfig("host-a", "qemu:///system")
        return product.declare(product.DeclareRequest(own=own, strategy=strategy, **more))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def declared(dom: FakeDomain) -> list[str]:
    return [strategy_of(text) for text in dom.flags.values() if text is not None]


def test_live_and_defined_are_both_written_and_the_rest_is_kept(world: World) -> None:
    dom = world.add("db-1", LABELLED, LABELLED)
    result = world.declare(names=["db-1"])
    assert declared(dom) == ["External", "External"]
    assert all('<label name="tier">gold</label>' in str(t) for t in dom.flags.values())
    assert result["changed"]
    assert result["vms"][0]["written"] == ["live", "config"]
    assert world.locked == 1
    assert not world.declare(names=["u-db-1"])["changed"]
    assert len(dom.writes) == 2


def test_only_what_differs_is_written(world: World) -> None:
    external = with_strategy(None, "External")
    dom = world.add("db-1", external, LABELLED)
    result = world.declare(names=["db-1"])
    assert result["vms"][0] == {
        "name": "db-1",
        "uuid": "u-db-1",
        "live": "External",
        "config": "",
        "written": ["config"],
    }
    assert dom.writes == [world.binding.VIR_DOMAIN_AFFECT_CONFIG]
    assert "label" not in str(dom.flags[world.binding.VIR_DOMAIN_AFFECT_LIVE])


@pytest.mark.parametrize(("live", "config", "written"), [(None, "", ["config"]), ("", None, ["live"])])
def test_a_vm_that_is_off_and_one_that_is_transient(
    world: World, live: str | None, config: str | None, written: list[str]
) -> None:
    world.add("vm", live, config)
    assert world.declare(names=["vm"])["vms"][0]["written"] == written


def test_check_mode_tells_and_writes_nothing(world: World) -> None:
    dom = world.add("db-1")
    result = world.declare(names=["db-1"], check=True)
    assert result["changed"]
    assert result["diff"]["after"].splitlines()[0] == "VM db-1 (live): External"
    assert (dom.writes, world.locked) == ([], 0)


def test_it_is_taken_away(world: World) -> None:
    dom = world.add("db-1", with_strategy(LABELLED, "None"), "")
    result = world.declare("", names=["db-1"])
    assert declared(dom) == ["", ""]
    assert result["vms"][0]["written"] == ["live"]
    assert "gold" in str(dom.flags[world.binding.VIR_DOMAIN_AFFECT_LIVE])


def test_nothing_is_written_while_one_of_them_has_a_job(world: World) -> None:
    first = world.add("a")
    world.add("b", job=Job())
    with pytest.raises(product.DeclareError, match="b: a job is under way"):
        world.declare(names=["a", "b"])
    assert first.writes == []


def test_a_job_on_a_vm_that_needs_no_change_is_no_hindrance(world: World) -> None:
    done = with_strategy(None, "External")
    world.add("b", done, done, job=Job())
    assert not world.declare(names=["b"])["changed"]


def test_a_job_that_begins_meanwhile_is_seen_before_the_write(world: World) -> None:
    first, second = world.add("a"), world.add("b")
    second.job = {"type": 2}
    with pytest.raises(product.DeclareError, match=r"b: a job has begun.*before: a \(live\)"):
        world.declare(names=["a", "b"])
    assert (len(first.writes), second.writes) == (2, [])


def test_an_error_of_libvirt_says_what_was_changed_before(world: World) -> None:
    world.add("a")
    world.add("b").broken = True
    with pytest.raises(product.DeclareError, match=r"b: cannot acquire.*a \(live\), a \(config\)"):
        world.declare(names=["a", "b"])


def test_a_name_that_is_not_there_stops_it_before_anything_is_written(world: World) -> None:
    dom = world.add("a")
    with pytest.raises(VMNotHere, match="no VM zz on host-a"):
        world.declare(names=["a", "zz"])
    assert dom.writes == []


def test_by_jmespath(world: World) -> None:
    gold, other = world.add("a"), world.add("b")
    world.documents = {"u-a": {"labels": {"tier": "gold"}}, "u-b": {"labels": {}}}
    result = world.declare(when="labels.tier == 'gold'")
    assert [row["name"] for row in result["vms"]] == ["a"]
    assert (len(gold.writes), other.writes) == (2, [])


def test_what_cannot_be_told_stops_it_before_anything_is_written(world: World) -> None:
    dom = world.add("a")
    world.add("b")
    world.documents = {"u-a": {"dirty_rate": 500}, "u-b": {"dirty_rate": None}}
    with pytest.raises(product.DeclareError, match=r"b \(dirty_rate\)"):
        world.declare(when="dirty_rate > `100`")
    assert dom.writes == []


def test_only_a_vm_that_left_is_left_out(world: World) -> None:
    dom = world.add("a")
    world.add("b")
    world.documents = {"u-a": {"name": "a"}}
    world.errors = {"u-b": world.binding.VIR_ERR_NO_DOMAIN}
    assert len(world.declare(when="name == 'a'")["vms"]) == 1
    world.errors = {"u-b": world.binding.VIR_ERR_OPERATION_FAILED}
    with pytest.raises(product.DeclareError, match="b cannot be read: an error"):
        world.declare(when="name == 'a'", strategy="None")
    assert len(dom.writes) == 2


def test_a_wrong_expression_is_named(world: World) -> None:
    with pytest.raises(PolicyError, match="when: there is no field nam"):
        world.declare(when="nam == 'x'")


def test_a_host_that_cannot_be_read(world: World) -> None:
    world.now.error = "refused"
    with pytest.raises(product.DeclareError, match="host-a cannot be read: refused"):
        world.declare(names=["a"])
