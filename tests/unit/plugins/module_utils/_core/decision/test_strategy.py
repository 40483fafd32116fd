"""The table of strategies, row by row; rules; what cannot be decided."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.strategy import (
    EvictionStrategy,
    Way,
    choose,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, OnNotMigratable
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy, Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason

WHY = (Finding(Reason.HostDeviceNotLiveMigratable, "a card"),)
ON = OnNotMigratable


def vm(strategy: str | None, migratable: bool | None) -> VM:
    findings = WHY if migratable is False else ()
    return VM("u", "vm", "a", declared_strategy=strategy, migratable=migratable, findings=findings)


@pytest.mark.parametrize(
    ("strategy", "migratable", "on_not", "allow_stop", "way"),
    [
        ("LiveMigrate", True, ON.BLOCK, False, Way.MIGRATE),
        ("LiveMigrate", False, ON.BLOCK, True, Way.BLOCK),
        ("LiveMigrate", False, ON.SHUTDOWN, True, Way.SHUTDOWN),
        ("LiveMigrate", False, ON.SHUTDOWN, False, Way.BLOCK),
        ("LiveMigrate", False, ON.SAVE, True, Way.SAVE),
        ("LiveMigrate", False, ON.SAVE, False, Way.BLOCK),
        ("LiveMigrate", False, ON.COLD_MIGRATE, True, Way.COLD_MIGRATE),
        ("LiveMigrate", False, ON.COLD_MIGRATE, False, Way.BLOCK),
        ("LiveMigrate", False, ON.SKIP, False, Way.SKIP),
        ("LiveMigrate", None, ON.SHUTDOWN, True, Way.WAIT),
        ("LiveMigrateIfPossible", True, ON.BLOCK, True, Way.MIGRATE),
        ("LiveMigrateIfPossible", False, ON.BLOCK, True, Way.SHUTDOWN),
        ("LiveMigrateIfPossible", False, ON.BLOCK, False, Way.BLOCK),
        ("LiveMigrateIfPossible", False, ON.SAVE, True, Way.SAVE),
        ("LiveMigrateIfPossible", None, ON.SHUTDOWN, True, Way.WAIT),
        ("None", True, ON.BLOCK, True, Way.SHUTDOWN),
        ("None", True, ON.BLOCK, False, Way.BLOCK),
        ("None", False, ON.BLOCK, True, Way.SHUTDOWN),
        ("None", None, ON.BLOCK, True, Way.SHUTDOWN),
        ("None", None, ON.BLOCK, False, Way.BLOCK),
        ("External", True, ON.SHUTDOWN, True, Way.EXTERNAL),
        ("External", False, ON.SHUTDOWN, True, Way.EXTERNAL),
        ("External", None, ON.SHUTDOWN, True, Way.EXTERNAL),
        (None, True, ON.BLOCK, False, Way.MIGRATE),
        ("Sometimes", True, ON.SHUTDOWN, True, Way.BLOCK),
    ],
)
def test_row(strategy, migratable, on_not, allow_stop, way) -> None:
    policy = Policy(on_not_migratable=on_not, allow_stop=allow_stop)
    choice = choose(vm(strategy, migratable), policy)
    assert choice.way is way
    reasons = {f.reason for f in choice.findings}
    if way is Way.BLOCK:
        assert reasons
        unknown = strategy == "Sometimes"
        assert (Reason.Undecided in reasons) is unknown
        if on_not is not ON.BLOCK and not unknown:
            assert Reason.StopNotAllowed in reasons
    if migratable is False and way not in (Way.EXTERNAL,) and strategy != "None":
        assert Reason.HostDeviceNotLiveMigratable in reasons


def test_no_target_counts_as_not_migratable() -> None:
    full = (Finding(Reason.NoTargetWithCapacity),)
    assert choose(vm(None, True), Policy(), full).way is Way.BLOCK
    stop = Policy(on_not_migratable=ON.SHUTDOWN, allow_stop=True)
    assert choose(vm(None, True), stop, full).way is Way.SHUTDOWN


def rule(name: str, answer: bool | None, **more) -> Rule:
    return Rule(name, lambda _document: answer, **more)


def test_the_first_true_rule_decides_and_is_named() -> None:
    rules = (
        rule("no", False, strategy=EvictionStrategy.EXTERNAL),
        rule("yes", True, strategy=EvictionStrategy.NONE, allow_stop=True, priority=7),
        rule("late", True, strategy=EvictionStrategy.EXTERNAL),
    )
    choice = choose(vm("LiveMigrate", True), Policy(rules=rules))
    assert (choice.way, choice.decided_by, choice.priority) == (Way.SHUTDOWN, "rule yes", 7)


def test_a_rule_may_forbid_what_the_policy_allows() -> None:
    policy = Policy(rules=(rule("keep", True, allow_stop=False),), allow_stop=True)
    choice = choose(vm("None", True), policy)
    assert choice.way is Way.BLOCK
    assert choice.decided_by == "declared by the VM, with rule keep"


def test_a_rule_that_cannot_be_told_blocks_even_if_a_later_one_fits() -> None:
    rules = (rule("what", None), rule("yes", True, allow_stop=True))
    choice = choose(vm("None", True), Policy(rules=rules, allow_stop=True))
    assert choice.way is Way.BLOCK
    assert choice.findings[0].reason is Reason.Undecided
    assert "what" in choice.findings[0].message
    named = (rule("what", None, explain=lambda _document: "dirty_rate"),)
    choice = choose(vm("None", True), Policy(rules=named))
    assert choice.findings[0].message.endswith("not known for this VM: dirty_rate.")


@pytest.mark.parametrize("declared", ["LiveMigrate", "None", "External", "LiveMigrateIfPossible"])
def test_nothing_but_a_permission_stops_a_vm(declared: str) -> None:
    for on_not in OnNotMigratable:
        for migratable in (True, False, None):
            choice = choose(vm(declared, migratable), Policy(on_not_migratable=on_not))
            assert choice.way not in (Way.SHUTDOWN, Way.SAVE, Way.COLD_MIGRATE)
