"""QEMU's own blockers are read only where somebody has used the domain's monitor before."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import qemu_blockers

OTHERS = "tainted: running with undesirable elevated privileges"
MONITOR = "tainted: custom monitor control commands issued"
AUDIO = "non-migratable device: 0000:00:1d.0/1/usb-audio"


class FakeError(Exception):
    def get_error_code(self) -> int:
        return int(self.args[1])


class Monitor:
    """libvirt's binding for the monitor. `says`: its answer, or the error that it raises."""

    def __init__(self, says: object) -> None:
        self.says = says
        self.commands: list[str] = []

    def qemuMonitorCommand(self, _dom: object, command: str, _flags: int) -> str:  # noqa: N802
        self.commands.append(json.loads(command)["execute"])
        if isinstance(self.says, Exception):
            raise self.says
        return self.says if isinstance(self.says, str) else json.dumps({"return": self.says})


def ask(monkeypatch: pytest.MonkeyPatch, says: object, *messages: str) -> tuple[Any, list[str]]:
    binding = SimpleNamespace(libvirtError=FakeError, VIR_DOMAIN_MESSAGE_TAINTING=2)
    monitor = Monitor(says)
    monkeypatch.setattr(qemu_blockers, "libvirt", binding)
    monkeypatch.setitem(sys.modules, "libvirt_qemu", monitor)  # type: ignore[arg-type]
    dom = SimpleNamespace(messages=lambda _flags: list(messages))
    return qemu_blockers.qemu_blockers(dom), monitor.commands


def test_they_are_told_in_qemus_words(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(monkeypatch, {"blocked-reasons": [AUDIO]}, OTHERS, MONITOR)
    assert found == ((AUDIO,), ["query-migrate"])


def test_nobody_is_tainted_for_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, {"blocked-reasons": [AUDIO]}, OTHERS) == ((), [])


@pytest.mark.parametrize("says", [{}, "nonsense", FakeError("no answer from the monitor", 86)])
def test_no_answer_is_no_blocker(monkeypatch: pytest.MonkeyPatch, says: object) -> None:
    assert ask(monkeypatch, says, MONITOR)[0] == ()


def test_a_lost_connection_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FakeError):
        ask(monkeypatch, FakeError("client socket is closed", 1), MONITOR)


def test_a_libvirt_that_does_not_tell_of_taints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt_qemu", Monitor({}))  # type: ignore[arg-type]
    assert qemu_blockers.qemu_blockers(SimpleNamespace()) == ()


def test_without_the_binding_for_the_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt_qemu", None)
    assert qemu_blockers.qemu_blockers(SimpleNamespace()) == ()


@pytest.mark.parametrize(
    ("text", "blocked"),
    [
        (f"Requested operation is not valid: cannot migrate domain: {AUDIO}", True),
        ("internal error: unable to execute QEMU command 'migrate': State blocked by"
         " non-migratable device '0/usb'", True),
        ("Requested operation is not valid: cannot migrate domain with 1 snapshots", False),
        ("operation failed: job 'migration out' unexpectedly failed", False),
    ],
)  # fmt: skip
def test_a_migration_that_qemu_refuses(text: str, blocked: bool) -> None:
    assert qemu_blockers.is_blocked(FakeError(text, 55)) is blocked
