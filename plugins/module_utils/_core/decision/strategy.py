"""Decide what to do with a VM under a policy: the table of strategies.

| effective strategy      | migratable | not migratable               | not known yet |
| LiveMigrate             | migrate    | on_not_migratable            | wait          |
| LiveMigrateIfPossible   | migrate    | stop (needs allow_stop)      | wait          |
| None                    | stop       | stop (needs allow_stop)      | stop          |
| External                | external   | external                     | external      |

A VM that could not be read is waited for, whatever the policy says: what it declares and which rule
is its own is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ..model.observation import VM, EvictionStrategy, OnNotMigratable
from ..model.policy import Hooks, MigrationSettings, Policy, Rule
from ..reasons.reason import TABLE, Finding, Platform, Reason


class Way(str, Enum):
    """The ways to treat a VM in a drain."""

    MIGRATE = "migrate"
    SHUTDOWN = "shutdown"
    SAVE = "save"
    COLD_MIGRATE = "cold_migrate"
    EXTERNAL = "external"
    WAIT = "wait"
    SKIP = "skip"
    BLOCK = "block"


@dataclass(frozen=True)
class Choice:
    """The way for one VM, who decided it, and the reasons when it is not simply migrated.

    `asked`: the migration settings that its rule names, for a platform that has its own. `allows_older`: it may go to
    an older hypervisor."""

    way: Way
    strategy: EvictionStrategy
    decided_by: str
    findings: tuple[Finding, ...] = ()
    priority: int = 0
    migration: MigrationSettings = field(default_factory=MigrationSettings)
    hooks: Hooks = field(default_factory=Hooks)
    asked: Mapping[str, Any] = field(default_factory=dict)
    allows_older: bool = False


_NO_STOP = frozenset({Reason.StopNotAllowed, Reason.RunsTheMaintenance})
_STOPS = {
    OnNotMigratable.SHUTDOWN: Way.SHUTDOWN,
    OnNotMigratable.SAVE: Way.SAVE,
    OnNotMigratable.COLD_MIGRATE: Way.COLD_MIGRATE,
}


def choose(vm: VM, policy: Policy, no_target: tuple[Finding, ...] = ()) -> Choice:
    """Decide what to do with `vm`. `no_target`: why no node takes it (empty: one does)."""
    if not vm.known:
        why = vm.findings or (Finding(Reason.MigratableNotKnown),)
        default = policy.default_strategy
        return Choice(Way.WAIT, default, "default", why, migration=policy.migration)
    rule, unknown_rule = _first_rule(vm, policy)
    if unknown_rule is not None:
        return _cannot_tell(vm, policy, unknown_rule)
    return _by_rule(vm, policy, rule, no_target)


def _by_rule(vm: VM, policy: Policy, rule: Rule | None, no_target: tuple[Finding, ...]) -> Choice:
    strategy, decided_by, bad = _effective(vm, policy, rule)
    if rule is not None and rule.strategy is None:
        decided_by = f"{decided_by}, with rule {rule.name}"
    priority = rule.priority if rule and rule.priority is not None else 0
    migration = rule.migration if rule and rule.migration is not None else policy.migration
    hooks = rule.hooks if rule and rule.hooks is not None else Hooks()
    asked = rule.asked if rule is not None else {}
    older = rule is not None and rule.allow_older_hypervisor

    def result(way: Way, findings: tuple[Finding, ...] = ()) -> Choice:
        return Choice(way, strategy, decided_by, findings, priority, migration, hooks, asked, older)

    if bad is not None:
        return result(Way.BLOCK, (bad,))
    allow_stop = _pick(rule.allow_stop if rule else None, policy.allow_stop)
    on_not = rule.on_not_migratable if rule and rule.on_not_migratable else policy.on_not_migratable
    reasons = vm.findings + no_target
    if strategy is EvictionStrategy.EXTERNAL:
        return result(Way.EXTERNAL)
    if strategy is EvictionStrategy.NONE:
        return result(*_stop(vm, Way.SHUTDOWN, allow_stop, ()))
    if vm.migratable is None:
        return result(Way.WAIT, reasons or (Finding(Reason.MigratableNotKnown),))
    if vm.migratable and not no_target:
        return result(Way.MIGRATE)
    if strategy is EvictionStrategy.LIVE_MIGRATE_IF_POSSIBLE:
        way = _STOPS.get(on_not, Way.SHUTDOWN)
        return result(*_stop(vm, way, allow_stop, reasons))
    if on_not is OnNotMigratable.SKIP:
        return result(Way.SKIP, (*reasons, Finding(Reason.SkippedByPolicy)))
    if on_not is OnNotMigratable.BLOCK:
        return result(Way.BLOCK, reasons)
    return result(*_stop(vm, _STOPS[on_not], allow_stop, reasons))


def _cannot_tell(vm: VM, policy: Policy, rule: Rule) -> Choice:
    text = f"Rule {rule.name!r} compares a value that is not known for this VM"
    what = rule.explain(vm.document) if rule.explain else ""
    why = (Finding(Reason.Undecided, f"{text}: {what}." if what else f"{text}."),)
    by, default = f"rule {rule.name}", policy.default_strategy
    return Choice(Way.BLOCK, default, by, why, migration=policy.migration)


def allows_older(vm: VM, policy: Policy) -> bool:
    """Does its rule let it go to a hypervisor older than the one that it runs on?"""
    rule, _unknown = _first_rule(vm, policy)
    return rule is not None and rule.allow_older_hypervisor


def choose_requested(vm: VM, policy: Policy, no_target: tuple[Finding, ...] = ()) -> Choice:
    """Decide for one VM that a person asked to move. Its eviction strategy does not count: that is
    for drains, and so are hooks. It may move while it is off, and is not stopped
    for good."""
    on_not = policy.on_not_migratable
    if on_not is not OnNotMigratable.COLD_MIGRATE:
        on_not = OnNotMigratable.BLOCK
    bare = replace(
        policy,
        default_strategy=EvictionStrategy.LIVE_MIGRATE,
        on_not_migratable=on_not,
        rules=tuple(replace(rule, strategy=None, on_not_migratable=None, hooks=None) for rule in policy.rules),
    )
    choice = choose(replace(vm, declared_strategy=None), bare, no_target)
    return replace(choice, decided_by="asked for")


def strongest(choice: Choice, platform: Platform) -> Finding | None:
    """StopNotAllowed and RunsTheMaintenance say what to do; the others why it came to that."""
    stop = [f for f in choice.findings if f.reason in _NO_STOP]
    why = [f for f in choice.findings if f.reason not in _NO_STOP]
    if stop and why:
        text = f"{TABLE[why[0].reason].words(platform).sentence} {why[0].message}".strip()
        return Finding(stop[0].reason, f"{stop[0].text(platform)} It cannot migrate: {text}")
    return (stop or why or [None])[0]  # type: ignore[list-item]


def _stop(vm: VM, way: Way, allowed: bool, reasons: tuple[Finding, ...]) -> tuple[Way, tuple[Finding, ...]]:
    """A stop is done only where something allows it; else the VM blocks (promise 2).

    Nothing allows the stop of the machine that runs us: nobody would be left to carry on.
    """
    if vm.control_node:
        return Way.BLOCK, (Finding(Reason.RunsTheMaintenance, vm.control_node), *reasons)
    if allowed:
        return way, reasons
    return Way.BLOCK, (*reasons, Finding(Reason.StopNotAllowed))


def _pick(first: bool | None, second: bool) -> bool:
    return second if first is None else first


def _first_rule(vm: VM, policy: Policy) -> tuple[Rule | None, Rule | None]:
    """(the first rule that is true, None) or (None, the first one that is not known)."""
    for rule in policy.rules:
        answer = rule.when(vm.document)
        if answer is None:
            return None, rule
        if answer:
            return rule, None
    return None, None


def _effective(vm: VM, policy: Policy, rule: Rule | None) -> tuple[EvictionStrategy, str, Finding | None]:
    """Rule, then what the VM declares, then the default."""
    if rule is not None and rule.strategy is not None:
        return rule.strategy, f"rule {rule.name}", None
    if vm.declared_strategy:
        try:
            return EvictionStrategy(vm.declared_strategy), "declared by the VM", None
        except ValueError:
            known = ", ".join(s.value for s in EvictionStrategy)
            text = f"The VM declares the strategy {vm.declared_strategy!r}; known strategies are {known}."
            return policy.default_strategy, "default", Finding(Reason.Undecided, text)
    return policy.default_strategy, "default", None
