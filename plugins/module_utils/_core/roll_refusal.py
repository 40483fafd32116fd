# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a roll does not fit, in one sentence that says what to do. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .model import VM, OnNotMigratable
from .plan_model import Refusal
from .reasons import CATALOGUE, Finding, Reason
from .roll_trial import Fleet, Trial, try_step

GIB = 1024


def refuse(fleet: Fleet, todo: Sequence[str], step: int) -> Refusal:
    """Of the hosts that are left the one that lacks least, and its largest VM that has no place."""
    trials = [try_step(fleet, [host]) for host in todo]
    trial = min(trials, key=lambda t: (sum(vm.memory_mib for vm, _f in t.misfits), t.hosts[0]))
    host = trial.hosts[0]
    vm, finding = max(trial.misfits, key=lambda m: (m[0].memory_mib, m[0].name))
    if finding.reason in (Reason.NODE_UNREADABLE, Reason.DISRUPTION_BUDGET):
        return _because(step, host, vm, finding)
    missing, cold = _lacks(fleet, vm, host, trial)
    if finding.reason is not Reason.NO_TARGET and not _all_for_room(fleet, vm, host):
        return _because(step, host, vm, finding)
    ways = []
    if missing is not None and missing > 0:
        ways.append(f"free {_gib(missing)}")
    if cold and fleet.request.policy.on_not_migratable is not OnNotMigratable.COLD_MIGRATE:
        ways.append("allow cold_migrate")
    if not ways:
        ways.append("add a host that takes it, or allow a stop")
    sentence = (
        f"step {step} does not fit: {vm.name} ({_gib(vm.memory_mib)}) has no target once {host} "
        f"is out; {' or '.join(ways)}"
    )
    return Refusal(
        step,
        host,
        vm.uuid,
        vm.name,
        vm.memory_mib,
        missing,
        sentence,
        finding.reason.value,
        finding.message,
    )


def _all_for_room(fleet: Fleet, vm: VM, host: str) -> bool:
    """Does the VM itself move, and is it only that no host takes it?"""
    return vm.migratable is True and not vm.findings and bool(fleet.placement([host]).refusals(vm))


def _lacks(fleet: Fleet, vm: VM, host: str, trial: Trial) -> tuple[int | None, bool]:
    """(MiB that are missing on the host that lacks least, would another one take it cold?)"""
    placement = fleet.placement([host])
    taken: dict[str, int] = {}
    for placed in trial.placed:
        if placed.moves:
            taken[placed.target] = taken.get(placed.target, 0) + placed.vm.memory_mib
    missing: int | None = None
    cold = False
    for node in fleet.nodes.values():
        if node.name == host or not node.reachable or node.cordoned:
            continue
        room = node.room_mib - taken.get(node.name, 0)
        if not placement.refuses(vm, node):
            lack = max(0, vm.memory_mib - room)
            missing = lack if missing is None else min(missing, lack)
        elif not placement.refuses(vm, node, cold=True) and room >= vm.memory_mib:
            cold = cold or not vm.cold_findings
    return missing, cold


def _because(step: int, host: str, vm: VM, finding: Finding) -> Refusal:
    """It is not room that is missing."""
    text = finding.message or CATALOGUE[finding.reason].sentence
    who = f"{vm.name} ({_gib(vm.memory_mib)}) cannot leave {host}" if vm.uuid else host
    remedy = CATALOGUE[finding.reason].remedy
    sentence = (
        f"step {step} does not fit: {who}: {finding.reason.value}: {text.rstrip('.')}. {remedy}"
    )
    sentence = sentence.rstrip(".")
    return Refusal(
        step, host, vm.uuid, vm.name, vm.memory_mib, None, sentence, finding.reason.value, text
    )


def _gib(mib: int) -> str:
    """In GiB, without decimals where there are none."""
    whole = mib / GIB
    return f"{whole:.0f} GiB" if mib % GIB == 0 else f"{whole:.1f} GiB"
