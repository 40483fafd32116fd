"""make bench-plan: the plan of a roll against a bound and against FIFO, replayed and timed."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from typing import Any

from bench.plan_fleets import Instance, make
from bench.plan_replay import violations
from bench.plan_rivals import Fifo, bound

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Node
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    MigrationSettings,
    PlacementPolicy,
    Policy,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan import model as plan_model
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.transfers import Speeds

WIDTHS = (2, 4, 8)
SEED = 20260121


def request(instance: Instance) -> plan_model.RollRequest:
    """The fleet in the core's words."""
    nodes = {
        h.name: Node(h.name, capacity_mib=h.capacity, reserve_mib=h.reserve, version=h.version) for h in instance.hosts
    }
    vms = {}
    for g in instance.guests:
        vms[g.uuid] = VM(g.uuid, g.uuid, g.host, memory_mib=g.memory, group=g.group or None)
        node = nodes[g.host]
        node.committed_mib += g.memory
        node.vm_count += 1
        if g.group:
            node.group_counts[g.group] = node.group_counts.get(g.group, 0) + 1
    policy = Policy(
        limits=Limits(*instance.caps),
        placement_policy=PlacementPolicy(require_anti_affinity=True),
        migration=MigrationSettings(bandwidth_mib=instance.each),
    )
    return plan_model.RollRequest(
        nodes=nodes,
        vms=vms,
        todo=tuple(h.name for h in instance.hosts if h.in_roll),
        policy=policy,
        max_unavailable=instance.max_unavailable,
        speeds=Speeds(links=instance.links),
        dirty={g.uuid: g.dirty for g in instance.guests if g.dirty},
    )


def measure(name: str, instance: Instance, fifo: bool) -> dict[str, Any]:
    """One instance: planned, replayed, compared."""
    asked = request(instance)
    begun = time.process_time()
    plan = plan_roll(asked)
    row: dict[str, Any] = {"seconds": time.process_time() - begun}
    if plan.refusal is not None:
        print(f"{name}: {plan.refusal.sentence}; {plan.refusal.detail}")
    told = json.loads(json.dumps(plan.to_dict()))
    broken = violations(instance, told)
    row["violations"] = sum(broken.values())
    row["vs_bound"] = plan.duration / bound(instance)
    row["moves_per_vm"] = plan.moves / len(instance.guests)
    line = (
        f"{name}: {len(instance.hosts) - 1} hosts, {len(instance.guests)} VMs, "
        f"{len(plan.steps)} steps, {plan.duration:.0f} s, bound {bound(instance):.0f} s, "
        f"{plan.moves} moves, planned in {row['seconds']:.1f} s, broken {dict(broken)}"
    )
    if fifo:
        runs = {width: Fifo(instance, width) for width in WIDTHS}
        took = {width: run.run() for width, run in runs.items()}
        best = min(took, key=lambda w: took[w])
        row["below_fifo"] = 1 - plan.duration / took[best]
        line += "; FIFO " + ", ".join(f"{w}: {took[w]:.0f} s ({runs[w].moves} moves)" for w in WIDTHS)
    print(line, flush=True)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="instances of each family")
    parser.add_argument("--small", action="store_true", help="without 1,000 hosts")
    args = parser.parse_args()
    seeds = range(SEED, SEED + args.seeds)
    loose = [measure(f"loose {s}", make(200, 5000, s), fifo=True) for s in seeds]
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tight = [measure(f"capped {s}", make(200, 5000, s, binding=True), fifo=False) for s in seeds]
    large = [] if args.small else [measure("large", make(1000, 20000, SEED), fifo=False)]
    rows = [*loose, *tight, *large]
    print(f"peak memory with 200 hosts and 5,000 VMs: {mib:.0f} MiB")
    # The worst of the seeds each.
    values = {
        "seconds_5k": max(r["seconds"] for r in [*loose, *tight]),
        "makespan_vs_bound": max(r["vs_bound"] for r in loose),
        "below_fifo": min(r["below_fifo"] for r in loose),
        "moves_per_vm": max(r["moves_per_vm"] for r in rows),
        "violations": sum(r["violations"] for r in rows),
        "capped_vs_bound": max(r["vs_bound"] for r in tight),
        "seconds_20k": max((r["seconds"] for r in large), default=0.0),
    }
    print(
        "bench-plan: seconds_5k={seconds_5k:.1f} makespan_vs_bound={makespan_vs_bound:.2f} "
        "below_fifo={below_fifo:.2f} moves_per_vm={moves_per_vm:.2f} violations={violations} "
        "capped_vs_bound={capped_vs_bound:.2f} seconds_20k={seconds_20k:.1f}".format(**values)
    )
    good = (
        values["seconds_5k"] <= 10
        and mib <= 500
        and values["makespan_vs_bound"] <= 1.10
        and values["below_fifo"] >= 0.25
        and values["moves_per_vm"] <= 1.05
        and values["violations"] == 0
        and values["capped_vs_bound"] <= 1.10
        and values["seconds_20k"] <= 60
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
