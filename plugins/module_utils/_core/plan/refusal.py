"""Why a roll does not fit, in one sentence that says what to do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..decision.placement import Placement, cpus
from ..model.observation import VM, Node, OnNotMigratable, amounts
from ..reasons.reason import TABLE, Finding, Platform, Reason
from .model import Refusal
from .trial import NOT_FOR_ROOM, Fleet, Trial, try_step

GIB = 1024
NAMED = 4  # hosts, and VMs, that are named
NAMED_ELSEWHERE = 20  # hosts, with a reason each


@dataclass(frozen=True)
class _Lack:
    """The shortage on a host that keeps a VM from it. `whole`: not even an empty one has room for it."""

    mib: int = 0
    cpu_milli: int = 0
    whole: bool = False
    more: Mapping[str, int] = field(default_factory=dict)

    @property
    def amount(self) -> str:
        parts = [_gib(self.mib)] if self.mib else []
        parts += [cpus(self.cpu_milli)] if self.cpu_milli else []
        return (" and ".join(parts) + amounts(self.more)).removeprefix(" and ")

    def asked(self, vm: VM) -> str:
        """The part of the VM's request that is missing."""
        cpu = f"{cpus(vm.cpu_milli)} requested"
        more = amounts({what: vm.takes[what] for what in self.more})
        if not self.cpu_milli:
            return _gib(vm.memory_mib) + more
        return (f"{_gib(vm.memory_mib)}, {cpu}" if self.mib else cpu) + more


@dataclass(frozen=True)
class _Host:
    """One other host, and why it does not take the VM: `shut` (silent or cordoned), `refused`, or lack of room.

    `remedy`: what would make it take the VM, all else as it is; empty: nothing that is known.
    """

    name: str
    lack: _Lack
    shut: str = ""
    refused: str = ""
    remedy: str = ""
    cold: bool = False

    @property
    def why(self) -> str:
        return self.shut or self.refused or ("too small even when empty" if self.lack.whole else "")


def refuse(fleet: Fleet, todo: Sequence[str], step: int, other_profile: str = "") -> Refusal:
    """The refusal of a step: of the hosts that are left it names the one that lacks least, and its largest VM that has
    no place; and what else does not fit, so that it need not be found out one after the other.

    `other_profile`: a placement profile with which the whole roll would fit.
    """
    trials = [try_step(fleet, [host]) for host in todo]
    size = fleet.placement([]).size
    trial = min(trials, key=lambda t: (sum(size(vm) for vm, _f in t.unplaced), t.hosts[0]))
    vm, finding = max(trial.unplaced, key=lambda m: (size(m[0]), m[0].name))
    others = sorted({one.name for one, found in trial.unplaced if found.reason is finding.reason} - {vm.name})
    more = _elsewhere(fleet.request.platform, trials, trial, finding.reason)
    return replace(_first(fleet, trial, step, vm, finding, others, other_profile), others=more)


def _elsewhere(platform: Platform, trials: Sequence[Trial], told: Trial, reason: Reason) -> tuple[str, ...]:
    """`told`: of this host those with that `reason` are told already."""
    found: dict[tuple[str, Reason], list[tuple[VM, Finding]]] = {}
    for trial in sorted(trials, key=lambda trial: trial.hosts[0]):
        for vm, finding in trial.unplaced:
            if trial is not told or finding.reason is not reason:
                found.setdefault((trial.hosts[0], finding.reason), []).append((vm, finding))
    lines = []
    for (host, why), those in [*found.items()][:NAMED_ELSEWHERE]:
        names = sorted({vm.name for vm, _finding in those if vm.uuid})
        who = f"{_names(names)} cannot leave {host}" if names else host
        text = those[0][1].text(platform).rstrip(".")
        lines.append(f"{who} ({why.value}). {text}. {TABLE[why].words(platform).remedy}")
    left = len(found) - len(lines)
    return (*lines, *([f"{left} more of the kind"] if left else []))


def _first(
    fleet: Fleet, trial: Trial, step: int, vm: VM, finding: Finding, others: Sequence[str], other_profile: str
) -> Refusal:
    host = trial.hosts[0]
    if finding.reason in NOT_FOR_ROOM:
        return _because(fleet, step, host, vm, finding, others)
    hosts = _hosts(fleet, vm, host, trial)
    if finding.reason is not Reason.NoTargetWithCapacity and not _all_for_room(fleet, vm, host):
        return _because(fleet, step, host, vm, finding, others)
    ways = _ways(fleet, vm, hosts, other_profile)
    lack = _least(fleet.placement([host]), [one for one in hosts if not (one.shut or one.refused)])
    sentence = (
        f"step {step} does not fit: {vm.name} ({(lack or _Lack()).asked(vm)}) has no target once "
        f"{host} is out{_also(others)}{_why(hosts)}; {' or '.join(ways)}"
    )
    return Refusal(
        step,
        host,
        vm.uuid,
        vm.name,
        vm.memory_mib,
        lack.mib if lack else None,
        sentence,
        finding.reason.value,
        finding.message,
        vm.cpu_milli,
        lack.cpu_milli if lack else None,
    )


def _ways(fleet: Fleet, vm: VM, hosts: Sequence[_Host], other_profile: str) -> list[str]:
    """Return the remedies, each of which would help by itself; never empty."""
    open_ones = [one for one in hosts if not (one.shut or one.refused)]
    least = _least(fleet.placement([]), [one for one in open_ones if not one.lack.whole])
    ways = [f"free {least.amount}"] if least is not None and least.amount else []
    ways += list(dict.fromkeys(one.remedy for one in hosts if one.remedy))[:NAMED]
    if other_profile:
        ways.append(f"set the placement profile {other_profile}")
    cold = any(one.cold for one in hosts) and not vm.cold_findings
    if cold and fleet.request.policy.on_not_migratable is not OnNotMigratable.COLD_MIGRATE:
        ways.append("allow cold_migrate")
    return ways or ["add a host that takes it" + ("" if fleet.request.policy.allow_stop else ", or allow a stop")]


def _why(hosts: Sequence[_Host]) -> str:
    """The hosts for which room is not what is missing; that of which it is stands in the remedy."""
    by_reason: dict[str, list[str]] = {}
    for one in hosts:
        if one.why:
            by_reason.setdefault(one.why, []).append(one.name)
    named = [f"{why}: {_names(names)}" for why, names in by_reason.items()]
    return f" ({'; '.join(named[:NAMED])}{'; and others' if len(named) > NAMED else ''})" if named else ""


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _also(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f", nor {'has' if len(names) == 1 else 'have'} {_names(names)}"


def _all_for_room(fleet: Fleet, vm: VM, host: str) -> bool:
    """Does the VM itself move, and is it only that no host takes it?"""
    return vm.migratable is True and not vm.findings and bool(fleet.placement([host]).refusals(vm))


def _least(placement: Placement, hosts: Iterable[_Host]) -> _Lack | None:
    lacks = (one.lack for one in hosts)
    return min(lacks, key=lambda one: (one.whole, placement.weight(one.mib, one.cpu_milli), one.amount), default=None)


def _hosts(fleet: Fleet, vm: VM, host: str, trial: Trial) -> list[_Host]:
    """Every other host, in the order of the request."""
    placement = fleet.placement([host])
    there: dict[str, list[VM]] = {}
    for placed in trial.placed:
        if placed.moves:
            there.setdefault(placed.target, []).append(placed.vm)
    return [
        _host(fleet, placement, vm, node, _lack(vm, node, there.get(node.name, ())))
        for node in fleet.nodes.values()
        if node.name != host
    ]


def _host(fleet: Fleet, placement: Placement, vm: VM, node: Node, lack: _Lack) -> _Host:
    refused = placement.refuses(vm, node)
    fits = lack == _Lack()
    if not node.reachable:
        may = not refused and (fits or not node.capacity_mib)  # of one that is silent little may be known
        return _Host(node.name, lack, "cannot be read", remedy=f"bring {node.name} back" if may else "")
    if node.cordoned:
        return _Host(node.name, lack, "cordoned", remedy=f"uncordon {node.name}" if fits and not refused else "")
    if not refused:
        return _Host(node.name, lack)
    text = refused[0].message.rstrip(".")
    text = text[len(node.name) :].lstrip(": ") if text.startswith(node.name) else text
    remedy = _mend(fleet, vm, text) if fits else ""
    return _Host(node.name, lack, refused=text, remedy=remedy, cold=fits and not placement.refuses(vm, node, cold=True))


def _mend(fleet: Fleet, vm: VM, text: str) -> str:
    """Return what to change so that the host takes the VM. `text`: the words of the refusal."""
    if text.startswith("has the taint "):
        return f"let {vm.name} tolerate {text[len('has the taint ') :]}"
    if text.startswith("has an older hypervisor "):
        return f"upgrade the older hosts before {vm.node}"
    if vm.group and not fleet.request.platform.traits.schedules and text.startswith("runs a VM of the group "):
        return "set anti_affinity to preferred"
    return ""


def _lack(vm: VM, node: Node, others: Iterable[VM]) -> _Lack:
    """`others`: of the step, that go there too."""
    mib, cpu_milli = 0, 0
    more: Counter[str] = Counter()
    for other in others:
        mib, cpu_milli = mib + other.memory_mib, cpu_milli + other.cpu_milli
        more.update(other.takes)
    if node.has_cpu(vm.cpu_milli, cpu_milli):
        lack_cpu = 0
    else:
        lack_cpu = int(vm.cpu_milli - node.cpu_room + cpu_milli)
    whole = node.cpu_milli is not None and vm.cpu_milli > node.cpu_milli
    whole = whole or vm.memory_mib > node.capacity_mib - node.reserve_mib
    return _Lack(max(0, vm.memory_mib - node.room_mib + mib), lack_cpu, whole, node.lacks(vm.takes, more))


def _because(fleet: Fleet, step: int, host: str, vm: VM, finding: Finding, others: Sequence[str]) -> Refusal:
    """It is not room that is missing."""
    platform = fleet.request.platform
    text = finding.text(platform)
    who = f"{vm.name} ({_gib(vm.memory_mib)}) cannot leave {host}" if vm.uuid else host
    remedy = TABLE[finding.reason].words(platform).remedy
    if finding.reason is Reason.DisruptionBudget and any(
        vm.uuid in budget.vms and not budget.stops_only for budget in fleet.request.budgets
    ):
        remedy = "Move one of them to another host first, or raise at_once of the budget."
    sentence = f"step {step} does not fit: {who}{_also(others)} ({finding.reason.value}). {text.rstrip('.')}. {remedy}"
    sentence = sentence.rstrip(".")
    return Refusal(
        step, host, vm.uuid, vm.name, vm.memory_mib, None, sentence, finding.reason.value, text, vm.cpu_milli
    )


def _gib(mib: int) -> str:
    """Format MiB in GiB, without decimals where there are none."""
    whole = mib / GIB
    return f"{whole:.0f} GiB" if mib % GIB == 0 else f"{whole:.1f} GiB"
