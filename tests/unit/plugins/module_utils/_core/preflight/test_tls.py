"""Which certificate QEMU lacks is known before anything moves, on either end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.strategy import Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings, Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.facts import Facts, TLSSeen
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.preflight.plants import (
    PKI,
    POLICY,
    clean,
    found,
)


def fleet(**tls: TLSSeen | None) -> Facts:
    """a is to be drained; b and c take its VMs."""
    facts = clean()
    return replace(facts, hosts=tuple(replace(h, tls=tls.get(h.name, TLSSeen(PKI))) for h in facts.hosts))


def lacking(*files: str, verify: bool = True) -> TLSSeen:
    return TLSSeen(PKI, files, verify)


@pytest.mark.parametrize("file", ["ca-cert.pem", "server-cert.pem", "server-key.pem"])
def test_a_target_without_its_own_is_one_less(file: str) -> None:
    row = found(fleet(b=lacking(file)))[Reason.QEMUCertificatesMissing]
    assert (row["subject"], row["severity"]) == ("host b", "warning")
    assert row["message"] == f"Not in {PKI}: {file}."
    row = found(fleet(b=lacking(file), c=lacking(file)))[Reason.QEMUCertificatesMissing]
    assert row["severity"] == "blocker"


@pytest.mark.parametrize("file", ["ca-cert.pem", "client-cert.pem", "client-key.pem"])
def test_a_source_without_its_own_sends_nothing(file: str) -> None:
    row = found(fleet(a=lacking(file)))[Reason.QEMUCertificatesMissing]
    assert (row["subject"], row["severity"]) == ("host a", "blocker")


def test_what_the_other_end_does_not_ask_for_is_not_missed() -> None:
    client = lacking("client-cert.pem", "client-key.pem", verify=False)
    assert found(fleet(a=client, b=client, c=client)) == {}
    assert found(fleet(a=lacking("server-cert.pem", "server-key.pem"))) == {}
    assert Reason.QEMUCertificatesMissing in found(fleet(a=client, b=client))


def test_what_nobody_listed_is_not_taken_for_there() -> None:
    row = found(fleet(a=None, c=None))[Reason.NotChecked]
    assert row["message"] == "Whether QEMU has certificates on a, c."


def test_in_the_clear_nothing_is_missed_and_the_vms_are_named() -> None:
    told = found(fleet(a=None, b=lacking("ca-cert.pem")), Policy())
    assert set(told) == {Reason.MigrationInTheClear}
    assert told[Reason.MigrationInTheClear]["message"] == "VMs: vm0, vm1."
    assert told[Reason.MigrationInTheClear]["severity"] == "warning"


def test_a_rule_says_otherwise_for_one_vm() -> None:
    clear = MigrationSettings()
    rule = Rule("old", lambda document: document.get("name") == "vm1", migration=clear)
    facts = fleet()
    for vm in facts.observation.vms.values():
        vm.document["name"] = vm.name
    told = found(facts, replace(POLICY, rules=(rule,)))
    assert told[Reason.MigrationInTheClear]["message"] == "VMs: vm1."
