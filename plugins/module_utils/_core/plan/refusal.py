# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a roll does not fit, in one sentence that says what to do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..decision.placement import cpus
from ..model.observation import VM, Node, OnNotMigratable
from ..reasons.reason import TABLE, Finding, Reason
from .model import Refusal
from .trial import Fleet, Trial, try_step

GIB = 1024


@dataclass(frozen=True)
class _Lack:
    """What a host has too little of for a VM. `whole`: not even an empty one has the CPU."""

    mib: int = 0
    cpu_milli: int = 0
    whole: bool = False

    @property
    def free(self) -> str:
        """What would have to be freed; empty: nothing, or it would not help."""
        parts = [_gib(self.mib)] if self.mib else []
        parts += [cpus(self.cpu_milli)] if self.cpu_milli else []
        return "" if self.whole else " and ".join(parts)

    def asked(self, vm: VM) -> str:
        """Of what the VM asks for, that which is missing."""
        cpu = f"{cpus(vm.cpu_milli)} requested"
        if not self.cpu_milli:
            return _gib(vm.memory_mib)
        return f"{_gib(vm.memory_mib)}, {cpu}" if self.mib else cpu


def refuse(fleet: Fleet, todo: Sequence[str], step: int) -> Refusal:
    """Of the hosts that are left the one that lacks least, and its largest VM that has no place."""
    trials = [try_step(fleet, [host]) for host in todo]
    size = fleet.placement([]).size
    trial = min(trials, key=lambda t: (sum(size(vm) for vm, _f in t.unplaced), t.hosts[0]))
    host = trial.hosts[0]
    vm, finding = max(trial.unplaced, key=lambda m: (size(m[0]), m[0].name))
    if finding.reason in (Reason.NodeUnreadable, Reason.DisruptionBudget):
        return _because(fleet, step, host, vm, finding)
    lack, cold = _lacks(fleet, vm, host, trial)
    if finding.reason is not Reason.NoTargetWithCapacity and not _all_for_room(fleet, vm, host):
        return _because(fleet, step, host, vm, finding)
    ways = []
    if lack is not None and lack.free:
        ways.append(f"free {lack.free}")
    if cold and fleet.request.policy.on_not_migratable is not OnNotMigratable.COLD_MIGRATE:
        ways.append("allow cold_migrate")
    if not ways:
        ways.append("add a host that takes it, or allow a stop")
    sentence = (
        f"step {step} does not fit: {vm.name} ({(lack or _Lack()).asked(vm)}) has no target once "
        f"{host} is out; {' or '.join(ways)}"
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


def _all_for_room(fleet: Fleet, vm: VM, host: str) -> bool:
    """Does the VM itself move, and is it only that no host takes it?"""
    return vm.migratable is True and not vm.findings and bool(fleet.placement([host]).refusals(vm))


def _lacks(fleet: Fleet, vm: VM, host: str, trial: Trial) -> tuple[_Lack | None, bool]:
    """(of the host that lacks least, would another one take it cold?)"""
    placement = fleet.placement([host])
    mib: dict[str, int] = {}
    cpu: dict[str, int] = {}
    for placed in trial.placed:
        if placed.moves:
            mib[placed.target] = mib.get(placed.target, 0) + placed.vm.memory_mib
            cpu[placed.target] = cpu.get(placed.target, 0) + placed.vm.cpu_milli
    lacks: list[_Lack] = []
    cold = False
    for node in fleet.nodes.values():
        if node.name == host or not node.reachable or node.cordoned:
            continue
        lack = _lack(vm, node, mib.get(node.name, 0), cpu.get(node.name, 0))
        if not placement.refuses(vm, node):
            lacks.append(lack)
        elif not placement.refuses(vm, node, cold=True) and lack == _Lack():
            cold = cold or not vm.cold_findings
    least = min(lacks, key=lambda one: (one.whole, placement.weight(one.mib, one.cpu_milli)), default=None)
    return least, cold


def _lack(vm: VM, node: Node, mib: int, cpu_milli: int) -> _Lack:
    """`mib`, `cpu_milli`: what others of the step take of it."""
    if node.has_cpu(vm.cpu_milli, cpu_milli):
        lack_cpu = 0
    else:
        lack_cpu = int(vm.cpu_milli - node.cpu_room + cpu_milli)
    whole = node.cpu_milli is not None and vm.cpu_milli > node.cpu_milli
    return _Lack(max(0, vm.memory_mib - node.room_mib + mib), lack_cpu, whole)


def _because(fleet: Fleet, step: int, host: str, vm: VM, finding: Finding) -> Refusal:
    """It is not room that is missing."""
    platform = fleet.request.platform
    text = finding.text(platform)
    who = f"{vm.name} ({_gib(vm.memory_mib)}) cannot leave {host}" if vm.uuid else host
    remedy = TABLE[finding.reason].words(platform).remedy
    sentence = f"step {step} does not fit: {who}: {finding.reason.value}: {text.rstrip('.')}. {remedy}"
    sentence = sentence.rstrip(".")
    return Refusal(
        step, host, vm.uuid, vm.name, vm.memory_mib, None, sentence, finding.reason.value, text, vm.cpu_milli
    )


def _gib(mib: int) -> str:
    """In GiB, without decimals where there are none."""
    whole = mib / GIB
    return f"{whole:.0f} GiB" if mib % GIB == 0 else f"{whole:.1f} GiB"
