"""A job that could not be read is not "no job": nothing is concluded from that read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.reconcile import Situation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import migrate
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import host, observe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import Host, HostConfig, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.observe import Observer
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.vm import unreadable

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

MIGRATES = {"type": 2, "operation": 5}


class Domain:
    """Runs, and answers for its job as it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.now = [1, 1]

    def UUIDString(self) -> str:  # noqa: N802 - libvirt's name
        return "u"

    def ID(self) -> int:  # noqa: N802 - libvirt's name
        return 1

    def name(self) -> str:
        return "web"

    def isActive(self) -> bool:  # noqa: N802 - libvirt's name
        return True

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        return "<domain/>"

    def state(self) -> list[int]:
        return self.now

    def jobStats(self, _flags: int) -> dict[str, Any]:  # noqa: N802 - libvirt's name
        if isinstance(self.answer, Exception):
            raise self.answer
        return dict(self.answer)


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = fakes.Binding()
    made.VIR_DOMAIN_JOB_NONE, made.VIR_DOMAIN_JOB_COMPLETED = 0, 3
    for module in (host, migrate, observe):
        monkeypatch.setattr(module, "libvirt", made)
    return made


def error(binding: Any, code: str) -> Exception:
    made: Exception = fakes.LibvirtError("cannot acquire state change lock", getattr(binding, f"VIR_ERR_{code}"))
    return made


def source(domain: Domain) -> Host:
    conn = SimpleNamespace(
        isAlive=lambda: True,
        close=lambda: None,
        getAllDomainStats=lambda _wanted, _flags: [
            (domain, {"state.state": domain.now[0], "state.reason": domain.now[1]})
        ],
    )
    return Host(HostConfig("a", "qemu:///system", 8192), lambda _uri: conn)


def read(domain: Domain) -> HostNow:
    now = HostNow("a", identity="a")
    source(domain)._read_domains(now, True)
    return now


@pytest.mark.parametrize("code", ["OPERATION_INVALID", "OPERATION_UNSUPPORTED"])
def test_no_job_is_no_job(binding: Any, code: str) -> None:
    domain = Domain(error(binding, code))
    now = read(domain)
    assert (now.domains["u"].state, now.domains["u"].job) == (State.RUNNING, None)
    assert not now.unread
    assert migrate.outgoing_job(domain) is None


def test_what_libvirt_left_paused_is_not_arriving(binding: Any) -> None:
    """It says of a domain that arrives that it has no statistics, and of others what they do."""
    domain = Domain({"type": 0})
    domain.now = [3, 2]
    conn = SimpleNamespace(lookupByUUIDString=lambda _uuid: domain)
    assert read(domain).domains["u"].state is State.PAUSED
    assert read(domain).domains["u"].resumable
    assert migrate.read_side(conn, "u").state is State.PAUSED
    domain.answer = error(binding, "OPERATION_UNSUPPORTED")
    assert read(domain).domains["u"].state is State.INCOMING
    assert migrate.read_side(conn, "u").state is State.INCOMING
    domain.answer, domain.now = {"type": 0}, [3, 11]  # it is just being started
    assert read(domain).domains["u"].state is State.INCOMING


def test_one_that_is_gone_is_not_here(binding: Any) -> None:
    now = read(Domain(error(binding, "NO_DOMAIN")))
    assert (now.domains, now.unread) == ({}, {})


def test_one_that_cannot_be_read_is_not_known(binding: Any) -> None:
    now = read(Domain(error(binding, "OPERATION_TIMEOUT")))
    assert now.domains["u"].state is State.UNKNOWN
    assert "state change lock" in now.unread["u"]


def test_a_connection_that_breaks_is_the_hosts(binding: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(host, "is_lost", lambda _exc: True)
    with pytest.raises(fakes.LibvirtError):
        read(Domain(error(binding, "OPERATION_TIMEOUT")))


def test_a_migration_that_cannot_be_read_is_not_lost(binding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder is dead, and the answer for its job was an error once."""
    domain = Domain(MIGRATES)
    own = source(domain)

    def read_own(_jobs: bool) -> HostNow:
        return read(domain)

    monkeypatch.setattr(own, "read", read_own)
    monkeypatch.setattr(observe, "read_vm_facts", lambda host_, _peers, dom, _reads: unreadable(host_, dom, "x"))
    observer = Observer(own, [], "boot", "")
    record = begin(NodeRecord("a", "run"), "a", "drained", "run", 0.0, "boot")
    entry = record.vms["u"] = VMRecord("u", "web")
    entry.attempts.append(Attempt(1, "a", "", 0.0, "boot", run_id="run"))

    def look() -> tuple[Situation, bool, str]:
        obs = observer.observe(record, 100.0, frozenset(), {})
        decision = decide(obs, {"a": record}, Policy())
        told = decision.records["a"].vms["u"]
        assert told.last is not None
        assert not told.last.ended
        return decision.situations["u"], obs.full, told.message

    assert look()[:2] == (Situation.MOVING, True)
    domain.answer = error(binding, "OPERATION_TIMEOUT")
    situation, full, message = look()
    assert (situation, full) == (Situation.UNREADABLE, False)
    assert "its job on a cannot be read" in message


def test_a_vm_that_was_never_read_is_not_taken_to_be_off(binding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain(error(binding, "OPERATION_TIMEOUT"))
    own = source(domain)
    monkeypatch.setattr(own, "read", lambda _jobs: read(domain))
    monkeypatch.setattr(observe, "read_vm_facts", lambda host_, _peers, dom, _reads: unreadable(host_, dom, "x"))
    obs = Observer(own, [], "boot", "").observe(None, 1.0, frozenset(), {})
    record = begin(None, "a", "drained", "run", 0.0, "boot")
    decision = decide(obs, {"a": record}, Policy())
    assert decision.records["a"].vms == {}
    assert not decision.final
    assert obs.vms["u"].active


def test_an_io_error_is_told_with_its_disks(binding: Any) -> None:
    failed = SimpleNamespace(diskErrors=lambda _flags: {"vdb": binding.VIR_DOMAIN_DISK_ERROR_NO_SPACE, "vda": -1})
    text = host._paused_by(failed, 3, 5)
    assert text == "an I/O error of a disk (vda: unspecified error, vdb: no space)"
    assert host._paused_by(SimpleNamespace(), 3, 1) == "someone suspended it (virsh suspend)"

    def refuse(_flags: int) -> None:
        raise error(binding, "VIR_ERR_OPERATION_TIMEOUT")

    assert host._paused_by(SimpleNamespace(diskErrors=refuse), 3, 5) == "an I/O error of a disk"
