"""Who runs KubeVirt reads of nodes and objects, never of hosts and libvirtd."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import (
    TABLE,
    Finding,
    Platform,
    Reason,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.result import finding_of

OF_HOSTS = re.compile(r"\bhosts?\b|libvirt|virsh|\bdomains?\b|QEMU|copies|(un)?defined\b|(completion|progress)_timeout")


MODULE_UTILS = Path(__file__).resolve().parents[5] / "plugins" / "module_utils"


def reported_on_kubevirt() -> list[Reason]:
    """KubeVirt's own, which come first, and those that the loop or this platform can report."""
    parts = list((MODULE_UTILS / "_kubevirt").rglob("*.py"))
    parts += [MODULE_UTILS / "_core" / "run" / "engine.py", *(MODULE_UTILS / "_core/decision").glob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in parts)
    named = set(re.findall(r"Reason\.(\w+)", text))
    own = list(Reason)[: list(Reason).index(Reason.PersistentReservationNotLiveMigratable) + 1]
    return [reason for reason in Reason if reason.name in named or reason in own]


@pytest.mark.parametrize("reason", reported_on_kubevirt())
def test_no_reason_speaks_of_hosts(reason: Reason) -> None:
    told = Finding(reason).to_dict(Platform.KUBEVIRT)
    words = f"{told['message']} {told['remedy']}".replace("host-model", "")
    assert OF_HOSTS.findall(words) == []
    assert told["reason"] == reason.value and told["message"] and told["remedy"]
    of_one_vm = "{message} {remedy}".format(**finding_of(Finding(reason)))
    assert OF_HOSTS.findall(of_one_vm.replace("host-model", "")) == []


ON_KUBEVIRT = [
    reason for reason, row in TABLE.items() if row.preflight and Platform.KUBEVIRT in row.preflight.platforms
]


@pytest.mark.parametrize("reason", ON_KUBEVIRT)
def test_no_code_of_the_preflight_speaks_of_hosts(reason: Reason) -> None:
    row = TABLE[reason]
    words = row.words_beforehand(Platform.KUBEVIRT)
    text = f"{words.sentence} {words.remedy} {row.decides(Platform.KUBEVIRT)}"
    assert OF_HOSTS.findall(text.replace("host-model", "")) == []


def test_a_message_of_its_own_stays() -> None:
    finding = Finding(Reason.VMVanished, "The VirtualMachine a/b was deleted.")
    told = finding.to_dict(Platform.KUBEVIRT)
    assert told["message"] == "The VirtualMachine a/b was deleted."
    assert "audit log" in told["remedy"]
