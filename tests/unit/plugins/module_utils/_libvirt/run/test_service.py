"""A slice that finds no record: which run's doing is that?"""

from __future__ import annotations

import fcntl
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Intent,
    NodeRecord,
    Superseded,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import PlaybookEnded, RollTakenOver
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import slice_lock
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import LockHeld, PeerUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import service
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import LibvirtPlatform
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request, _slice
from ansible_collections.virtops.maintenance.plugins.plugin_utils._unanswered import within


def again(intent: Intent, old: NodeRecord | None = None, **more: Any) -> dict[str, Any]:
    """A slice of a run that has begun."""
    read = SimpleNamespace(cordoned=False)
    said: list[str] = []
    platform: Any = SimpleNamespace(
        load=lambda: old,
        source=SimpleNamespace(read=lambda _jobs: read),
        release_left=lambda: said.append("Removed the reservation"),
        warnings=said,
    )
    own = HostConfig("host-a", "x")
    return _slice(platform, Request(own, [], Policy(), intent, "run-1", begun=True, **more))


@pytest.mark.parametrize("only", ["", "u1"])
def test_a_restore_whose_last_answer_was_lost_is_done(only: str) -> None:
    result = again(Intent.ACTIVE, only=only)
    assert (result["ended"], result["phase"], result["changed"]) == ("final", "Active", True)
    # Without a record the host's claims are nobody's; those of one VM alone are a drain's business.
    assert result.get("warnings") == (None if only else ["Removed the reservation"])


def test_a_drain_without_its_record_was_taken_over() -> None:
    with pytest.raises(Superseded, match=r"record of this run .* was removed"):
        again(Intent.DRAINED)


@pytest.mark.parametrize("intent", [Intent.ACTIVE, Intent.DRAINED])
def test_the_record_of_another_run_is_the_end_of_this_one(intent: Intent) -> None:
    with pytest.raises(Superseded, match=r"Run run-2 .* took over"):
        again(intent, NodeRecord("host-a", "run-2"))


@pytest.mark.parametrize(
    ("begun", "answered", "uri", "tries"),
    [(True, False, "x", 3), (False, True, "x", 3), (False, False, "x", 1), (True, True, "qemu+tls://b/system", 1)],
)
def test_a_libvirtd_that_is_restarted_in_the_middle_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, begun: bool, answered: bool, uri: str, tries: int
) -> None:
    """Not one that never answered, nor a peer's: whoever gave a wrong URI hears it at once."""
    closed: list[str] = []
    platform = SimpleNamespace(source=SimpleNamespace(answered=answered), close=lambda: closed.append("closed"))

    def turn(_platform: Any, _request: Request) -> dict[str, Any]:
        if len(closed) < 2:
            raise HostUnreachable(uri, "Connection refused")
        return {"phase": "Drained"}

    monkeypatch.setattr(service, "platform_of", lambda _request: platform)
    monkeypatch.setattr(service, "libvirt", SimpleNamespace(libvirtError=OSError))
    monkeypatch.setattr(service, "one_at_a_time", nullcontext)
    monkeypatch.setattr(service, "_in_turn", turn)
    monkeypatch.setattr(service.time, "sleep", lambda _seconds: None)
    request = Request(HostConfig("host-a", "x"), [], Policy(), Intent.DRAINED, "run-1", begun=begun)
    if tries == 1:
        with pytest.raises(HostUnreachable):
            service.run_slice(request)
    else:
        assert service.run_slice(request) == {"phase": "Drained"}
    assert len(closed) == tries


@pytest.mark.parametrize("where", ["slice", "next"])
def test_a_slice_that_hangs_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """It waits in storage whose server is gone, or for a libvirtd; so may the one that waits before us."""
    monkeypatch.setattr(slice_lock, "RUN_DIR", str(tmp_path))
    monkeypatch.setattr(slice_lock, "PATIENCE", 0.2, raising=False)
    with slice_lock.one_at_a_time():
        pass
    with open(tmp_path / f"{where}.lock", "a", encoding="ascii") as theirs, within(10):
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert slice_lock.is_wanted() is (where == "next")
        with pytest.raises(LockHeld, match=rf"process {os.getpid()} .* host"), slice_lock.one_at_a_time():
            raise AssertionError
    assert not slice_lock.is_wanted()
    with slice_lock.one_at_a_time():
        assert not slice_lock.is_wanted()


class Slice(SimpleNamespace):
    """What `_slice` needs of a platform, and what it was told to copy, keep and forget."""

    def __getattr__(self, name: str) -> Any:
        return lambda record: self.told.append((name, _endings_of(record)))


def _endings_of(record: NodeRecord) -> set[str]:
    return {vm.ending for vm in record.vms.values()}


@pytest.mark.parametrize(
    ("before", "after", "done", "only", "told"),
    [
        (None, "", (), "", []),
        (None, "", (), "u1", ["keep_history", "forget"]),
        ("", "stopped", (), "", ["renew_copies"]),
        ("stopped", "stopped", (), "", []),
        ("stopped", "restored", (Do.FORGET,), "", []),
    ],
)
def test_the_copy_is_renewed_when_a_vm_has_ended_otherwise(
    monkeypatch: pytest.MonkeyPatch, before: Any, after: str, done: Any, only: str, told: Any
) -> None:
    def record(ending: str) -> NodeRecord:
        vms = {"u1": VMRecord("u1", "web", ending=ending)} if ending else {}
        return NodeRecord("host-a", "run-1", vms=vms)

    acts = [SimpleNamespace(do=do) for do in done]
    obs = SimpleNamespace(claims={}, held=(), nodes={}, vms={})
    outcome = SimpleNamespace(ended=SliceEnd.FINAL, record=record(after), actions_done=acts, observation=obs)
    engine = SimpleNamespace(run=lambda _until, live: outcome)
    monkeypatch.setattr(service, "Engine", lambda *_args, **_more: engine)
    monkeypatch.setattr(service, "start", lambda *_args, **_more: record(after))
    reported = SimpleNamespace(to_dict=lambda **more: more)
    monkeypatch.setattr(service, "_reported", lambda *_args: reported)
    old = None if before is None else record(before)
    platform: Any = Slice(
        load=lambda: old,
        now=lambda: 0.0,
        wall=lambda: "",
        boot_id="boot",
        told=[],
        observer=SimpleNamespace(read_hosts=dict),
        few=SimpleNamespace(begin=lambda *_of: None, read_all=None, end=lambda *_of: None),
        warnings=["web has 0 of 2 copies"],
        forget=lambda kept: (platform.told.append(("forget", _endings_of(kept))), forgot()),
    )

    def forgot() -> None:
        platform.warnings = []  # of a record that is gone there is nothing to copy

    request = Request(HostConfig("host-a", "x"), [], Policy(), Intent.DRAINED, "run-1", only=only)
    found = _slice(platform, request)
    assert found["warnings"] == ["web has 0 of 2 copies"]
    assert found.get("old", {}) == ({"u1": "stopped"} if before == "stopped" else {}), "no news of this drain"
    assert [name for name, _endings in platform.told] == told
    assert all(endings == ({after} if after else set()) for _name, endings in platform.told)


class Began(Exception):
    """The engine was asked for."""


RUNS = {"u": DomainNow("u", "web", State.RUNNING, 1024)}
ALL = ("host-b", "host-c")


@pytest.mark.parametrize(
    ("intent", "to", "dead", "refused"),
    [
        (Intent.DRAINED, "", ["host-c"], ""),  # host-b takes its VMs
        (Intent.DRAINED, "", ["host-b"], "Slots are counted on host-b, and a majority"),
        (Intent.DRAINED, "", ALL, "No peer answers"),
        (Intent.CORDONED, "", ALL, ""),  # asks nothing of a peer
        (Intent.MIGRATED, "", ["host-c"], ""),
        (Intent.MIGRATED, "host-c", ["host-c"], "host-c is the target"),
        (Intent.MIGRATED, "host-b", ["host-c"], ""),
        (Intent.MIGRATED, "host-c", ["host-b"], "Slots are counted on host-b, and a majority"),
    ],
)
@pytest.mark.parametrize("carried_on", [False, True])  # then what can move still moves
@pytest.mark.parametrize("active", [False, True])  # of an empty host nothing depends on peers
def test_a_drain_does_not_begin_while_a_host_that_it_needs_is_silent(
    monkeypatch: pytest.MonkeyPatch,
    intent: Intent,
    to: str,
    dead: list[str],
    refused: str,
    carried_on: bool,
    active: bool,
) -> None:
    def begins(*unused_args: Any, **unused_more: Any) -> None:
        raise Began

    monkeypatch.setattr(service, "start", begins)
    reads = {name: HostNow(name, error="no route" if name in dead else "") for name in ALL}
    reads["host-a"] = HostNow("host-a", RUNS if active else {})
    platform: Any = SimpleNamespace(
        load=lambda: NodeRecord("host-a", "run-0") if carried_on else None,
        now=lambda: 0.0,
        wall=lambda: "",
        boot_id="boot",
        quorum_hosts=("host-b",),
        observer=SimpleNamespace(read_hosts=lambda: reads),
    )
    peers = [HostConfig("host-b", "b"), HostConfig("host-c", "c")]
    only = "u" if intent is Intent.MIGRATED else ""
    request = Request(HostConfig("host-a", "a"), peers, Policy(), intent, "run-1", only=only, to=to)
    begun = carried_on or not (active or only) or not refused
    with pytest.raises(Began if begun else PeerUnreachable) as told:
        _slice(platform, request)
    assert begun or refused in str(told.value)
    assert begun or "Nothing was changed" in str(told.value)


def test_every_write_to_every_host_asks_whether_the_playbook_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(_playbook: str) -> None:
        raise PlaybookEnded

    monkeypatch.setattr(service.lives, "check", ended)
    hosts = [HostConfig(name, f"qemu:///{name}") for name in "ab"]
    made = service.platform_of(service.Request(hosts[0], hosts[1:], Policy(), Intent.DRAINED, "r"))
    try:
        for writes in (made, made._actor, *made.hosts.values()):
            with pytest.raises(PlaybookEnded):
                writes.before_write()
    finally:
        made.close()


@pytest.mark.parametrize("refused", [True, False])
def test_a_vm_whose_autostart_stays_on_is_not_asked_to_stop(monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    """A refusal is kept by VM: a request that was sent all the same would count as not made."""
    made = LibvirtPlatform(HostConfig("a", "test:///default"), [])
    monkeypatch.setattr(made, "_keep_definitions", lambda _actions, _record: {})
    asked: list[tuple[str, Do]] = []

    def apply(action: Action, _record: NodeRecord) -> Finding | None:
        asked.append((action.vm, action.do))
        return Finding(Reason.PeerUnreachable) if refused and action.do is Do.AUTOSTART_OFF else None

    monkeypatch.setattr(made._actor, "apply", apply)
    acts = [Action(Do.AUTOSTART_OFF, "a", "u1"), Action(Do.SHUTDOWN, "a", "u1"), Action(Do.SHUTDOWN, "a", "u2")]
    record = NodeRecord("a", "r", vms={uuid: VMRecord(uuid, uuid) for uuid in ("u1", "u2")})
    wrong = {uuid: finding.reason for uuid, finding in made.apply(acts, record).items()}
    assert wrong == ({"u1": Reason.StopFailed} if refused else {})  # surely not asked
    own = [] if refused else [("u1", Do.SHUTDOWN)]
    assert asked == [("u1", Do.AUTOSTART_OFF), *own, ("u2", Do.SHUTDOWN)]


def test_while_it_waits_a_slice_asks_whether_it_is_still_wanted() -> None:
    """For nothing is written while migrations run, and a roll is aborted in just that time."""
    made = LibvirtPlatform(HostConfig("a", "test:///default"), [])

    def closed() -> None:
        raise RollTakenOver("aborted")

    made.ask_before_writes(closed)
    with pytest.raises(RollTakenOver):
        made.wait(30.0)


@pytest.mark.parametrize(("begun", "ended"), [(True, [False]), (False, [])])
def test_a_slice_that_begins_after_the_abort_ends_what_those_before_it_began(
    monkeypatch: pytest.MonkeyPatch, begun: bool, ended: list[bool]
) -> None:
    """Between two slices a start of Python lies, and the abort comes to the host after one more."""
    found: list[bool] = []

    def aborted(*_where: Any) -> Any:
        error = RollTakenOver("aborted")
        error.let_finish = False
        raise error

    monkeypatch.setattr(service, "check_roll", aborted)
    monkeypatch.setattr(service.Engine, "call_off", lambda _engine, let_finish: found.append(let_finish))
    made = LibvirtPlatform(HostConfig("a", "test:///default"), [])
    monkeypatch.setattr(made, "load", lambda: NodeRecord(node="a", run_id="r"))
    request = Request(HostConfig("a", "test:///default"), [], Policy(), Intent.DRAINED, "r", begun=begun)
    with pytest.raises(RollTakenOver):
        service._in_turn(made, request)
    assert found == ended
