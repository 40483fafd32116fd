"""How the preflight tells what it found: as severe as policy wants it, blockers first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import check, result, rows
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.facts import NodeSeen, PodSeen
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.found import Found
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.severity import parse_severity
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import (
    CHECKED,
    TABLE,
    About,
    Finding,
    Platform,
    Reason,
    Severity,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.preflight.plants import (
    POLICY,
    K,
    L,
    clean,
    unreachable,
)


def test_what_the_drain_does_not_begin_for_is_of_the_node_and_what_it_leaves_is_of_the_pod() -> None:
    held = PodSeen("shop/held", Reason.DisruptionBudget, "b needs 1")
    odd = PodSeen("shop/odd", Reason.PodNotManaged, "it has no controller", whole=True)
    facts = replace(clean(K), pods=(held, odd))
    told = result(facts, check(facts, POLICY), {})
    about = {row["subject"]: row["about"] for row in told["findings"]}
    assert about == {"pod shop/odd": "node", "pod shop/held": "pod"}
    assert len(told["blockers"]) == 2 and told["node_blockers"] == told["blockers"][:1]
    for row in told["findings"]:
        info = CHECKED[Reason(row["code"])]
        assert About(row["about"]) in (info.about, *info.also)


def test_each_code_can_be_raised_lowered_and_ignored() -> None:
    facts = clean(K)
    for member in CHECKED:
        for wanted in Severity:
            told = [row["severity"] for row in rows(facts, [Found(member, "VM vm0")], {member: wanted})]
            assert told == ([] if wanted is Severity.IGNORE else [wanted.value]), member


def test_a_reason_without_a_check_of_its_own_blocks_its_vm() -> None:
    lone = next(reason for reason in TABLE if reason not in CHECKED)
    (row,) = rows(clean(L), [Found(lone, "VM vm0")], {})
    assert (row["severity"], row["about"], row["code"]) == ("blocker", "vm", lone.value)
    assert row["sentence"] == TABLE[lone].sentence


def test_a_wrong_severity_is_one_clear_error() -> None:
    assert parse_severity({"ClockSkew": "blocker"}) == {Reason.ClockSkew: Severity.BLOCKER}
    with pytest.raises(PolicyError, match=r"'ClokSkew', which is not a preflight code.*Did you mean ClockSkew"):
        parse_severity({"ClokSkew": "blocker"})
    with pytest.raises(PolicyError, match="'fatal': expected blocker, warning, ignore"):
        parse_severity({"ClockSkew": "fatal"})


def test_a_host_that_does_not_answer_is_a_warning_while_nothing_depends_on_it() -> None:
    facts = unreachable()
    told = result(facts, check(replace(facts, needed={}), POLICY), {})
    assert (told["blockers"], told["node_blockers"]) == ([], [])
    assert told["cautions"][0].startswith("WARNING PeerUnreachable host c: no route to host -> ")


def test_blockers_come_first_one_line_each_with_the_remedy() -> None:
    facts = unreachable()
    facts.observation.vms["u0"] = replace(
        facts.observation.vms["u0"], migratable=False, findings=(Finding(Reason.DisksNotLiveMigratable, "vda."),)
    )
    facts = replace(facts, own=NodeSeen(cordoned_by_others=True))
    told = result(facts, check(facts, POLICY), {})
    assert [row["severity"] for row in told["findings"]] == ["blocker", "blocker", "warning"]
    assert told["blockers"] == [
        "BLOCKER PeerUnreachable host c: no route to host It keeps the slots. -> "
        + CHECKED[Reason.PeerUnreachable].remedy,
        "BLOCKER DisksNotLiveMigratable VM vm0: vda. -> "
        + TABLE[Reason.DisksNotLiveMigratable].words(Platform.LIBVIRT).remedy,
    ]
    assert told["node_blockers"] == told["blockers"][:1]
    assert told["cautions"][0].startswith("WARNING CordonedByOthers node a: ")
    assert told["vms_checked"] == 2
    assert CHECKED[Reason.DisksNotLiveMigratable].about is About.VM
