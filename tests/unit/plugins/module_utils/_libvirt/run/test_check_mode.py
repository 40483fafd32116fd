"""Check mode and info on a model fleet: they tell what would be done, and write nothing."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    EvictionStrategy,
    Observation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Hooks,
    Limits,
    PolicyError,
    Rule,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import PeerUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import check_mode, service
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request, _slice
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm
from fleetsim.fleet import Fleet
from fleetsim.platform import ModelPlatform

ALLOWED = replace(POLICY, allow_stop=True)


class Platform(ModelPlatform):
    """The model as far as plans know the platform of libvirt."""

    boot_id = "boot"
    observer: Any = SimpleNamespace(read_hosts=dict, reads={})  # every peer answers
    few: Any = SimpleNamespace(begin=lambda *_of: None, read_all=None, end=lambda *_of: None)
    warnings: tuple[str, ...] = ()
    hosts: Any = ()
    quorum_hosts: tuple[str, ...] = ()

    observed = 0

    def observe(self, record: NodeRecord | None) -> Observation:
        Platform.observed += 1
        return super().observe(record)

    def renew_copies(self, _record: NodeRecord) -> None:
        """There are none."""

    def close(self) -> None:
        """There is no connection."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Two hosts; on a, two VMs that can migrate and one that wants to be shut down."""
    vms = [vm(1, "a"), vm(2, "a"), vm(3, "a", declared_strategy="None", autostart=True)]
    found = fleet([("a", one) for one in vms], {"a": 8192, "b": 8192})
    monkeypatch.setattr(service, "LibvirtPlatform", lambda *_a, **_k: Platform(found, "a"))
    monkeypatch.setattr(service.roll, "check_host", lambda *_where, **_how: None)
    return found


def request(intent: Intent, **more: Any) -> Request:
    own, peer = HostConfig("a", "qemu:///system"), HostConfig("b", "qemu+tls://b/system")
    return Request(own=own, peers=[peer], policy=ALLOWED, intent=intent, run_id="r", **more)


def unchanged(made: Fleet, result: Any) -> Any:
    """What `result` gives; nothing on any host is other than before it."""
    before = copy.deepcopy(made.machines)
    found = result()
    assert made.machines == before
    assert not made.moves
    return found


@pytest.mark.parametrize("intent", list(Intent))
def test_check_mode_writes_nothing(made: Fleet, intent: Intent) -> None:
    unchanged(made, lambda: check_mode.plan(request(intent)))


@pytest.mark.parametrize("intent", [Intent.DRAINED, Intent.ACTIVE])
def test_check_mode_writes_nothing_on_top_of_a_run(made: Fleet, intent: Intent) -> None:
    platform = Platform(made, "a")
    record = begin(None, "a", "drained", "r", platform.now(), "boot", "", "", "")
    Engine(platform, ALLOWED, record).run(platform.now() + 100)
    assert made.machines["a"].record
    unchanged(made, lambda: check_mode.plan(request(intent)))


@pytest.mark.parametrize("intent", [Intent.DRAINED, Intent.ACTIVE])
def test_check_mode_is_refused_where_a_living_roll_refuses_the_run(
    made: Fleet, monkeypatch: pytest.MonkeyPatch, intent: Intent
) -> None:
    def belongs(_hosts: Any, _quorum: Any, host: str, roll_run: str, begun: bool, drains: bool, **_tell: Any) -> None:
        raise RollRefused(f"{host} belongs to roll 1, not to {roll_run}, begun {begun}, drains {drains}")

    monkeypatch.setattr(service.roll, "check_host", belongs)
    with pytest.raises(
        RollRefused, match=f"a belongs to roll 1, not to mine, begun False, drains {intent is Intent.DRAINED}"
    ):
        unchanged(made, lambda: check_mode.plan(request(intent, roll_run="mine")))


@pytest.mark.parametrize("to", ["", "b"])
def test_check_mode_answers_as_the_run_does_where_no_peer_does(
    made: Fleet, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    reads = {
        "a": HostNow("a", {"u1": DomainNow("u1", "vm1", State.RUNNING, 1024)}),
        "b": HostNow("b", error="x://b: no route to host"),
    }
    silent = SimpleNamespace(read_hosts=lambda: reads, reads=reads)
    monkeypatch.setattr(Platform, "observer", silent)
    asked = request(Intent.MIGRATED if to else Intent.DRAINED, to=to)
    with pytest.raises(PeerUnreachable) as run:
        _slice(Platform(made, "a"), asked)
    with pytest.raises(PeerUnreachable) as check:
        unchanged(made, lambda: check_mode.plan(asked))
    assert str(check.value) == str(run.value)
    assert "no route to host" in str(run.value)


def test_check_mode_tells_what_would_be_done(made: Fleet) -> None:
    found = unchanged(made, lambda: check_mode.plan(request(Intent.DRAINED)))
    assert found["changed"] is True
    assert found["certificate"] is None
    assert {(act["do"], act["vm"], act["target"]) for act in found["planned"]} >= {
        ("migrate", "vm1", "b"),
        ("migrate", "vm2", "b"),
    }


def test_check_mode_foresees_times_by_the_limits_and_the_links(made: Fleet) -> None:
    """Two VMs of 1024 MiB each; one at a time over 100 MiB/s; vm2 writes all the time."""
    speeds = {"link": 100, "setup": 1, "switch": 2, "overhead": 3, "dirty_rates": {"vm2": 50}}
    policy = replace(ALLOWED, limits=Limits(1, 1, 1))
    asked = replace(request(Intent.DRAINED, speeds=speeds), policy=policy)
    found = unchanged(made, lambda: check_mode.plan(asked))
    rows = {row["name"]: row for row in found["vms"]}
    size = made.machines["a"].domains[rows["vm1"]["uuid"]].spec.memory_mib
    assert rows["vm1"]["predicted_duration"] == pytest.approx(1 + size / 100 + 2, abs=0.1)
    assert rows["vm2"]["predicted_duration"] == pytest.approx(1 + size / 50 + 2, abs=0.1)
    assert rows["vm1"]["predicted_pause_ms"] < rows["vm2"]["predicted_pause_ms"]
    assert rows["vm3"]["predicted_duration"] == 10.0 and rows["vm3"]["predicted_pause_ms"] is None
    assert found["predicted_duration"] == pytest.approx(3 + 6 + size * 0.03, abs=0.3)
    assert found["would_stay"] == []


def test_check_mode_names_what_would_stay(made: Fleet) -> None:
    asked = replace(request(Intent.DRAINED), policy=replace(ALLOWED, allow_stop=False))
    found = unchanged(made, lambda: check_mode.plan(asked))
    assert found["would_stay"] == ["vm3"]
    assert "would_stay" not in check_mode.plan(request(Intent.ACTIVE))
    policy = replace(asked.policy, default_strategy=EvictionStrategy.EXTERNAL)
    owned = unchanged(made, lambda: check_mode.plan(replace(asked, policy=policy)))
    asks = [row["message"] for row in owned["vms"] if row["name"] in owned["predicted_without"]]
    assert all(text.startswith("Its owner would be asked to move it, and would have ") for text in asks)
    assert owned["predicted_without"] == ["vm1", "vm2"], "how long its owner takes nobody knows"


WEB = Rule("web", lambda _document: True, hooks=Hooks("out.yml", "back.yml"))


def test_check_mode_names_hooks_and_waits_for_none(made: Fleet) -> None:
    asked = replace(request(Intent.DRAINED), policy=replace(ALLOWED, rules=(WEB,)))
    found = unchanged(made, lambda: check_mode.plan(asked))
    files = {"before": "out.yml", "after": "back.yml"}
    assert [row["hooks"] for row in found["vms"]] == [files] * 3
    assert (found["ended"], found["needs"], found["would_stay"]) == ("final", [], [])
    acts = {act["vm"]: act["do"] for act in found["planned"] if act["vm"]}
    assert acts == {"vm1": "migrate", "vm2": "migrate", "vm3": "shutdown"}


def test_a_slice_waits_and_goes_on_with_the_answers(made: Fleet) -> None:
    """The answers are in the record before anything is done with a VM."""
    asked = replace(request(Intent.DRAINED), policy=replace(ALLOWED, rules=(WEB,)))
    platform: Any = Platform(made, "a")
    first = _slice(platform, asked)
    assert (first["ended"], len(first["needs"])) == ("needs", 3)
    with pytest.raises(PolicyError, match=r"hooks_done\[0\].hook is 'x'"):
        _slice(platform, replace(asked, begun=True, hooks_done=[{"uuid": "u1", "hook": "x"}]))
    saved: list[dict[str, str]] = []
    platform.fails = lambda _action: saved.append(
        {uuid: entry.hook_stage for uuid, entry in platform.load().vms.items()}
    )
    more = _slice(platform, replace(asked, begun=True, hooks_done=first["needs"]))
    assert saved and set(saved[0].values()) == {"before"}
    assert more["run_id"] == first["run_id"] and more["needs"] != first["needs"]


def test_a_wrong_speed_is_named(made: Fleet) -> None:
    with pytest.raises(PolicyError, match=r"speeds\.links of b is 0"):
        check_mode.plan(request(Intent.DRAINED, speeds={"links": {"b": 0}}))
    with pytest.raises(PolicyError, match="dirty_rate of vm1 is 'much'"):
        check_mode.plan(request(Intent.DRAINED, speeds={"dirty_rates": {"vm1": "much"}}))


def test_a_look_writes_nothing(made: Fleet) -> None:
    found = unchanged(made, lambda: check_mode.read_host(request(Intent.DRAINED)))
    assert {row["name"] for row in found["vms"]} == {"vm1", "vm2", "vm3"}


def test_all_that_a_look_tells_is_of_one_read(made: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Platform, "observed", 0)
    check_mode.read_host(request(Intent.DRAINED))
    assert Platform.observed == 1


class Opened(Exception):
    """A platform was opened."""


@pytest.mark.parametrize("function", ["plan", "read_host", "migrations"])
def test_the_platform_is_opened_for_looking(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_args: Any, **more: Any) -> None:
        raise Opened(more["acts"])

    monkeypatch.setattr(service, "LibvirtPlatform", opened)
    with pytest.raises(Opened, match="False"):
        getattr(check_mode, function)(request(Intent.DRAINED))
