"""Preflight of one VM. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..decision.strategy import Choice, Way
from ..model.observation import ARRIVING, VM, State
from ..reasons.reason import About, Reason
from .facts import Facts, VMSeen
from .found import ASKED_ALL_THE_SAME, Found

_STOPS = frozenset({Way.SHUTDOWN, Way.SAVE})
_STAYS = frozenset({Way.BLOCK, Way.WAIT})
# Of two reasons why no node takes a VM, the later one came nearer to taking it.
_NEARER = (
    Reason.NoTargetForSelector,
    Reason.NoTargetForCPUVendor,
    Reason.CPUModelNotLiveMigratable,
    Reason.NoTargetTolerated,
    Reason.NoTargetWithCapacity,
)
_LISTED = 5
_OFF = (State.ABSENT, State.SHUTOFF)
# (check, message, soft) -> a finding about the VM in hand
_Report = Callable[..., Found]


def vm_findings(facts: Facts, vm: VM, seen: VMSeen, choice: Choice) -> Iterator[Found]:
    """An active VM of the node."""
    by = f"strategy {choice.strategy.value} ({choice.decided_by})"

    def report(check: Reason, message: str = "", soft: bool = False) -> Found:
        return Found(check, f"VM {vm.name}", message, soft, by, _about(check))

    if seen.starting:
        # It has no say yet in whether it can migrate.
        yield report(Reason.VMStarting, f"Its phase is {seen.starting}.")
        return
    if vm.state in ARRIVING:
        yield Found(Reason.InboundMigration, f"node {facts.node}", f"{vm.name} is arriving.")
        return
    yield from _state(facts, vm, seen, report)
    yield from _way(facts, vm, choice, report)
    if vm.next_start and not any(f.reason is Reason.PendingChanges for f in vm.findings):
        yield report(Reason.PendingChanges, vm.next_start, soft=True)
    if choice.way is Way.MIGRATE:
        yield from _target(facts, seen, report)
    if choice.way in (Way.MIGRATE, Way.COLD_MIGRATE):
        yield from (report(Reason.NotChecked, f"{text}.") for text in vm.unshown)
    if seen.local_media:
        text = f"In its drives: {', '.join(seen.local_media)}."
        yield report(Reason.LocalMedium, text, choice.way not in _STAYS)
    yield from _budgets(seen, choice, report)
    yield from _busy(vm, seen, report)
    if choice.way in _STOPS and seen.stays_off:
        yield report(Reason.StaysOff, seen.stays_off)
    if choice.way is Way.EXTERNAL:
        yield report(Reason.ExternalOwner)
    if seen.stale_mark and not facts.own.record:
        yield report(Reason.LeftoverMark, seen.stale_mark)
    if seen.tried is not None:
        check, text = seen.tried
        yield report(check, text, check is Reason.DisruptionBudget and choice.way not in _STOPS)


def _about(check: Reason) -> About | None:
    """Return what a finding with this code is about, where that differs from the code's own row; None: it does not.
    About a host NewerToOlder says that it is older, about a VM that all its targets are."""
    return About.VM if check is Reason.NewerToOlder else None


def inactive_findings(vm: VM, moves: bool) -> Iterator[Found]:
    """A VM that is off. `moves`: the policy moves those too."""
    if vm.autostart and not moves:
        yield Found(Reason.StartsWithHost, f"VM {vm.name}")
    if vm.crashed:
        text = "It is off because its process failed."
        yield Found(Reason.VMCrashed, f"VM {vm.name}", text, soft=True)
    if vm.managed_save:
        yield Found(Reason.ManagedSavePresent, f"VM {vm.name}")


def _state(facts: Facts, vm: VM, seen: VMSeen, report: _Report) -> Iterator[Found]:
    if vm.state is State.CRASHED:
        yield report(Reason.VMCrashed)
    elif vm.state is State.POSTCOPY_FAILED:
        obs = facts.observation
        elsewhere = not obs.full or any(s.state not in _OFF for s in obs.sightings.get(vm.uuid, ()))
        yield report(Reason.PostCopyBroken if elsewhere else Reason.Irrecoverable)
    elif seen.paused:
        yield report(Reason.StateNotLiveMigratable, seen.paused, seen.paused_soft)
    elif vm.state is State.PAUSED:
        yield report(Reason.StateNotLiveMigratable, f"It is paused{vm.paused_by and f': {vm.paused_by}'}.")


def _way(facts: Facts, vm: VM, choice: Choice, report: _Report) -> Iterator[Found]:
    """Find what keeps the VM from migrating, and from the stop, the save or the cold migration that the policy chooses
    in its place."""
    answered = choice.way not in _STAYS
    for finding in choice.findings:
        if finding.reason is Reason.RunsTheMaintenance:
            continue  # said of the node
        # The drain waits for it.
        waits = finding.reason is Reason.MigratableNotKnown and facts.platform.traits.tells_late
        soft = (answered or waits) and finding.reason is not Reason.SkippedByPolicy
        yield report(finding.reason, finding.message, soft)
    if choice.way in (Way.SHUTDOWN, Way.COLD_MIGRATE):
        for finding in vm.shutdown_findings:
            yield report(finding.reason, f"To be shut down: {finding.text(facts.platform)}")
    if choice.way is Way.COLD_MIGRATE:
        for finding in vm.cold_findings:
            yield report(finding.reason, f"For a cold migration: {finding.text(facts.platform)}")
    if choice.way is Way.SAVE:
        for finding in vm.save_findings:
            yield report(finding.reason, f"To be saved: {finding.text(facts.platform)}")


def _target(facts: Facts, seen: VMSeen, report: _Report) -> Iterator[Found]:
    """A VM that is to be migrated: is there a place for it?"""
    if facts.targets and set(facts.targets) <= set(seen.refused):
        nearest = max((check for check, _text in seen.refused.values()), key=_NEARER.index)
        parts = [f"{node}: {text}" for node, (_check, text) in sorted(seen.refused.items())]
        more = f"; and {len(parts) - _LISTED} more" if len(parts) > _LISTED else ""
        text = "; ".join(parts[:_LISTED]) + more + "."
        # What its taints keep away from all nodes the drain sees by itself.
        asked = any(check is not Reason.NoTargetTolerated for check, _text in seen.refused.values())
        yield report(nearest, f"{text} {ASKED_ALL_THE_SAME}" if asked else text)
    if seen.unchecked:
        text = f"Whether a target fits what its pod requires: {', '.join(seen.unchecked)}."
        yield report(Reason.NotChecked, text)
    for text in seen.unsupported:
        yield report(Reason.RuleSettingsNotApplied, text)
    if seen.foreseen is not None:
        yield report(seen.foreseen.reason, seen.foreseen.message)
    for quota in seen.quotas:
        if quota.left < quota.required:
            yield report(
                Reason.QuotaExceeded,
                f"Quota {quota.quota} leaves {number(quota.left)} of {quota.resource}; the target"
                f" pod needs {number(quota.required)}. {ASKED_ALL_THE_SAME}",
            )
    if seen.local_disks:
        yield report(Reason.StorageOnlyHere, f"Copied: {', '.join(seen.local_disks)}.")


def _budgets(seen: VMSeen, choice: Choice, report: _Report) -> Iterator[Found]:
    """A budget is asked when the pod is really evicted; before a migration it is not."""
    stopped = choice.way in _STOPS
    if len(seen.budgets) > 1:
        names = ", ".join(budget.name for budget in seen.budgets)
        text = f"More than one budget selects its pod ({names}): no eviction is allowed."
        yield report(Reason.DisruptionBudget, text, not stopped)
        return
    for budget in seen.budgets:
        if budget.never:
            text = f"{budget.name} can never allow an eviction: {budget.never}."
            yield report(Reason.DisruptionBudget, text, not stopped)
        elif stopped and budget.left == 0:
            yield report(Reason.DisruptionBudget, f"{budget.name} allows no eviction now.")


def _busy(vm: VM, seen: VMSeen, report: _Report) -> Iterator[Found]:
    for check, text in (
        (Reason.BackupInProgress, seen.backup),
        (Reason.SnapshotInProgress, seen.snapshot),
        (Reason.UtilityVolumesPresent, seen.utility_volumes),
        (Reason.MigrationInFlight, seen.foreign),
    ):
        if text:
            yield report(check, text)
    if vm.managed_save:
        yield report(Reason.ManagedSavePresent)


def number(value: float) -> str:
    """Format a number without needless decimals."""
    return f"{value:g}" if value < 10**6 else f"{value:.0f}"
