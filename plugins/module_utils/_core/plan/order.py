"""The plan of a roll: which hosts, in which order, which together, and where each VM goes. Pure.

It chooses the order, and nothing else: what becomes of a VM and where it goes is what `decide`
answers for the hosts of a step on the fleet as the steps before would leave it. So a step fits
in the plan exactly if the drain, asked then, would find a place for every VM.

Hosts are taken in an order that leaves free hosts where the next ones need them: newer hypervisors
first (their VMs have fewer targets), then fast links, then those that are soonest empty. Among hosts
with the same hypervisor, those that the roll itself depends on come last: a host that does not come
back from its first reboot should be none of them.
A step has as many hosts as `max_unavailable` and the fleet allow. Where no host can be emptied
onto hosts that are done or not in the roll, the one with fewest second moves is taken; where none
fits at all, a VM is moved out of the way first (swap.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..claims.admission import quorum_hosts
from ..decision.strategy import Way
from ..model.policy import Profile
from .back import way_back
from .direction import back_warnings, one_way, swap_warning
from .model import OwnersMove, Plan, PlannedMove, PlanStep, Quota, RollRequest
from .placed import Placed, size_of
from .refusal import refuse
from .schedule import times
from .swap import swaps
from .trial import Fleet, Trial, try_step

# Candidates that are looked at to fill up a step, and to find one with fewest second moves.
FILL_UP = 6
SECOND_BEST = 40
# VMs that a warning about a quota names.
QUOTA_NAMES = 5


def plan_roll(request: RollRequest) -> Plan:
    """The plan, or as much of it as fits and a refusal.

    Where the best first step leaves places unused, filling them costs second moves. It is done if
    that saves a step: the work on the hosts takes longer than moving a few VMs twice.
    """
    narrow = _Roll(request).plan()
    if narrow.fits and request.max_unavailable > 1 and any(_unused(request, step) for step in narrow.steps):
        wide = _Roll(request, wide=True).plan()
        if wide.fits and len(wide.steps) < len(narrow.steps):
            return wide
    return narrow


def _unused(request: RollRequest, step: PlanStep) -> bool:
    """Had it room for another host, but for VMs that would have to move again?"""
    return bool(step.second_moves) and len(step.hosts) < request.max_unavailable


def _fits_otherwise(request: RollRequest) -> str:
    """A placement profile with which it would fit, where placement is ours."""
    policy = request.policy
    if request.platform.traits.schedules or policy.placement_policy.profile is Profile.HIGH:
        return ""
    packed = replace(policy.placement_policy, profile=Profile.HIGH)
    other = _Roll(replace(request, policy=replace(policy, placement_policy=packed)), hint=False).plan()
    return Profile.HIGH.value if other.fits else ""


class _Roll:
    """`wide`: a step is filled up with hosts whose VMs will move again. `hint`: a refusal says whether
    another placement profile would fit."""

    def __init__(self, request: RollRequest, wide: bool = False, hint: bool = True) -> None:
        self._request = request
        self._wide = wide
        self._hint = hint
        self._fleet = Fleet(request)
        self._quorum = quorum_hosts(request.nodes) if request.platform.traits.record_on_hosts else ()
        self._todo = sorted(request.todo, key=self._rank)
        self._steps: list[PlanStep] = []
        self._clock = 0.0
        self._moves = 0
        self._stops = 0
        self._moved: set[str] = set()
        self._off: set[str] = set()  # of these, those that were off for a move, or that their owner moved
        self._warnings: dict[str, None] = {}
        self._waiting: dict[Quota, dict[str, None]] = {}  # quota -> VMs that will wait for it

    def plan(self) -> Plan:
        refusal = None
        while self._todo:
            trial = self._next()
            if trial is None:
                profile = _fits_otherwise(self._request) if self._hint else ""
                refusal = refuse(self._fleet, self._todo, len(self._steps) + 1, profile)
                break
            self._take(trial)
        asked = self._request.move_back and refusal is None
        returning: set[str] = self._moved - self._off if asked else set()
        back, seconds = way_back(self._request, self._fleet, returning) if asked else ((), 0.0)
        self._warnings.update(dict.fromkeys(back_warnings(self._request, self._fleet, returning)))
        return Plan(
            steps=tuple(self._steps),
            refusal=refusal,
            left=tuple(self._todo),
            moves=self._moves,
            vms_moved=len(self._moved),
            duration=self._clock + seconds,
            back=back,
            back_seconds=seconds,
            stops=self._stops,
            warnings=(*self._warnings, *map(_waits, self._waiting, self._waiting.values())),
        )

    # Order

    def _rank(self, host: str) -> tuple[object, ...]:
        """The least is taken first, of equal ones as they were given. Empty hosts at once: they are targets then."""
        speeds = self._request.speeds
        vms = self._fleet.on(host)
        if not vms:
            return (0, (), 0.0, 0.0)
        version = tuple(-part for part in self._fleet.nodes[host].version)
        work = sum(size_of(self._request, vm) for vm in vms)
        runs_us = any(vm.control_node for vm in vms)
        return (1, version, runs_us, host in self._quorum, -speeds.link(host), work / speeds.link(host))

    def _next(self) -> Trial | None:
        """The hosts of the next step, tried on the model; None: no host that is left fits.

        The odd ones come first: they leave places of a step unused, and are soonest empty.
        """
        most = self._request.max_unavailable
        most = len(self._todo) % most or most
        batch = self._at_once(self._todo, most)
        while len(batch) > 1:
            trial = try_step(self._fleet, batch)
            if trial.clean:
                return self._fill_up(trial, most)
            bad = trial.blocking_hosts & set(batch)
            batch = [h for h in batch if h not in bad] if 0 < len(bad) < len(batch) else batch[:-1]
        for host in self._todo:
            trial = try_step(self._fleet, [host])
            if trial.clean:
                return self._fill_up(trial, most)
        return self._second_best()

    def _at_once(self, hosts: Iterable[str], most: int) -> list[str]:
        """The first of them that may be out together, at most so many."""
        found: list[str] = []
        used: Counter[tuple[str, str]] = Counter()
        for host in hosts:
            groups = self._request.groups.get(host, {}).items()
            if all(used[group] < self._request.max_unavailable_per[group[0]] for group in groups):
                found.append(host)
                used.update(groups)
            if len(found) == most:
                break
        return found

    def _fill_up(self, trial: Trial, most: int) -> Trial:
        """Further hosts, as long as all of them fit together."""
        others = [h for h in self._todo if h not in trial.hosts]
        for host in others[:FILL_UP]:
            if len(trial.hosts) >= most:
                break
            if len(self._at_once([*trial.hosts, host], most)) <= len(trial.hosts):
                continue
            more = try_step(self._fleet, [*trial.hosts, host])
            if more.clean or (trial.second and more.fits and not more.over_budget):
                trial = more
        return trial

    def _second_best(self) -> Trial | None:
        """One host, with VMs that will have to move again; or after others made room."""
        best: Trial | None = None
        for host in self._todo[:SECOND_BEST] + self._todo[SECOND_BEST:]:
            trial = try_step(self._fleet, [host])
            if trial.fits and (best is None or trial.second < best.second):
                best = trial
            if best is not None and self._todo.index(host) >= SECOND_BEST:
                break
        if best is not None:
            return self._fill_up(best, self._request.max_unavailable) if self._wide else best
        for host in self._todo:
            swapped = swaps(self._fleet, host)
            if swapped is not None:
                return swapped
        return None

    # What a step does

    def _take(self, trial: Trial) -> None:
        """Enter the step, and let the fleet be as it leaves it."""
        number = len(self._steps) + 1
        rows: list[PlannedMove] = []
        seconds = 0.0
        for placed in trial.before:  # one after the other: each makes room
            found, taken = times(self._request, [placed])
            rows += [_later(row, seconds) for row in found]
            seconds += taken
        found, taken = times(self._request, trial.placed)
        rows += [_later(row, seconds) for row in found]
        rows = [replace(row, order=order) for order, row in enumerate(rows, 1)]
        seconds += taken + (self._request.speeds.overhead if rows else 0.0)
        owners = []
        for placed in [*trial.before, *trial.placed]:
            if placed.way == Way.EXTERNAL.value:
                owners.append(_owners(placed))
                text = (
                    f"{placed.vm.name} on {placed.vm.node} waits for its owner to move it;"
                    f" the plan keeps room for it on {placed.target}."
                )
                self._warnings[text] = None
            elif placed.moves and placed.vm.control_node:
                text = f"{placed.vm.control_node} Step {number} migrates it from {placed.vm.node} to {placed.target}."
                self._warnings[text] = None
            self._check_budgets(placed)
            self._check_quotas(placed)
            if placed.moves and placed.way != Way.EXTERNAL.value:
                self._moves += 1
                self._moved.add(placed.vm.uuid)
            self._stops += placed.stops and not placed.moves
            if placed.moves and (placed.way != Way.MIGRATE.value or not placed.vm.active):
                self._off.add(placed.vm.uuid)
        against = (placed for placed in trial.before if one_way(self._fleet, placed))
        self._warnings.update(dict.fromkeys(map(swap_warning, against)))
        self._check_at_once(trial)
        self._fleet.apply(trial)
        spare, largest, where, cpu = self._fleet.spare(trial.hosts)
        self._steps.append(
            PlanStep(
                number,
                tuple(trial.hosts),
                tuple(rows),
                seconds,
                spare,
                largest,
                where,
                trial.second,
                self._clock,
                tuple(owners),
                cpu,
            )
        )
        self._clock += seconds
        self._todo = [h for h in self._todo if h not in trial.hosts]
        self._fleet.done(trial.hosts)

    def _check_budgets(self, placed: Placed) -> None:
        """Warn of a budget that allows no eviction now of a VM that is to be stopped. It is no refusal: the budget may
        allow it when the VM's step comes."""
        for budget in self._request.budgets:
            if placed.stops and budget.left == 0 and placed.vm.uuid in budget.vms:
                text = f"{budget.name} allows no eviction at the moment: {placed.vm.name} on "
                text += f"{placed.vm.node} is stopped only once it does."
                self._warnings[text] = None

    def _check_at_once(self, trial: Trial) -> None:
        """More VMs of a budget on one host than may go at once, where that is no refusal."""
        for budget in self._request.budgets:
            counted = [p for p in trial.placed if p.vm.uuid in budget.vms and (p.stops or not budget.stops_only)]
            for host in trial.hosts:
                names = sorted(p.vm.name for p in counted if p.vm.node == host and p.vm.active)
                if len(names) > budget.at_once:
                    what = (
                        f"{', '.join(names[:QUOTA_NAMES])} of {host}, of which {budget.name} lets {budget.at_once} go"
                    )
                    how = "are stopped one after the other" if budget.stops_only else "go in one step"
                    self._warnings[f"{what} at once, {how}."] = None

    def _check_quotas(self, placed: Placed) -> None:
        """Both pods of a VM count while it migrates."""
        for quota in self._request.quotas:
            if placed.way == Way.MIGRATE.value and placed.vm.uuid in quota.vms:
                self._waiting.setdefault(quota, {})[placed.vm.name] = None


def _waits(quota: Quota, vms: Mapping[str, None]) -> str:
    names = list(vms)
    more = f" and {len(names) - QUOTA_NAMES} more" if len(names) > QUOTA_NAMES else ""
    verb = "waits" if len(names) == 1 else "wait"
    return f"{quota.name} {quota.why}: {', '.join(names[:QUOTA_NAMES])}{more} {verb} for it, until pending_timeout."


def _owners(placed: Placed) -> OwnersMove:
    vm = placed.vm
    return OwnersMove(vm.uuid, vm.name, vm.node, placed.target, vm.memory_mib)


def _later(row: PlannedMove, seconds: float) -> PlannedMove:
    return row if row.start is None else replace(row, start=row.start + seconds)
