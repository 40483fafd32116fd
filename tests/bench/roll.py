"""make bench-roll: how well a roll keeps to its plan, and what Ansible costs for each host.

model       40 hosts and 1,000 VMs in memory, two out at once: the engine drains host after host as the plan
            has it (roll_model.py). Against the plan, and the plan against a bound that nobody can beat
lab         5 libvirt hosts with 20 guests, two out at once, no reboot: the playbook, against its own plan. The plan
            is of transfers alone, so Ansible's own cost is in it
simulator   20 empty nodes, one after the other, no reboot: seconds of the playbook for each

    roll.py [PART ...]      all by default
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "build" / "collections")]

from bench import roll_model  # noqa: E402
from bench.plan_bench import request  # noqa: E402
from bench.plan_rivals import bound  # noqa: E402
from demo import plays  # noqa: E402

from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll  # noqa: E402
from kubesim.process import Process  # noqa: E402
from kubesim.remote import Remote  # noqa: E402
from lab import GuestSpec, own_lab  # noqa: E402
from lab.procs import interruptible  # noqa: E402

HOSTS, VMS, OUT = 40, 1000, 2
LAB_HOSTS, LAB_GUESTS = 5, 20
NODES = 20
# What the issue of the roll asks for.
WANTED = {"makespan_vs_plan": 1.15, "plan_vs_bound": 1.05, "moves_per_vm": 1.05, "seconds_per_empty_host": 2.0}


def model(hosts: int, vms: int) -> dict[str, float]:
    made = roll_model.instance(hosts, vms, OUT)
    asked = request(made)
    plan = plan_roll(asked)
    done = roll_model.roll(made, plan, asked.policy)
    print(
        f"model: {hosts} hosts, {vms} VMs: {done.seconds:.0f} s, plan {plan.duration:.0f} s, {len(plan.steps)} steps, "
        f"bound {bound(made):.0f} s; {done.moves} moves, plan {plan.moves}; not emptied: {done.left or 'none'}",
        flush=True,
    )
    return {
        "makespan_vs_plan": done.seconds / plan.duration,
        "plan_vs_bound": plan.duration / bound(made),
        "moves_per_vm": done.moves / vms,
    }


def lab() -> dict[str, float]:
    with own_lab("bench-roll", LAB_HOSTS) as made, tempfile.TemporaryDirectory() as folder:
        names = [f"guest-{number:02}" for number in range(LAB_GUESTS)]
        hosts = [*made.hosts]
        for number, name in enumerate(names):
            made.run(hosts[number % len(hosts)], GuestSpec(name, memory_mib=192, fill_mib=64))
        made.wait_ticking(names)
        words = {"maintenance_hosts": "all", "maintenance_reboot": False, "maintenance_report": folder}
        words |= {**plays.UNMEASURED, "maintenance_max_unavailable": OUT}
        ended = plays.run(made, "rolling_maintenance", words)
        if ended.code:
            raise SystemExit(f"the roll failed:\n{ended.text[-3000:]}")
        plan = json.loads((Path(folder) / "plan.json").read_text(encoding="utf-8"))
        elsewhere = ended.text.count(", the plan had ")
        planned = plan["duration"]
        moves = sum(len(drain["vms"]) for drain in ended.drains if drain.get("phase") == "Drained")
    print(
        f"lab: {LAB_HOSTS} hosts, {LAB_GUESTS} guests: {ended.seconds:.0f} s, of transfers by plan {planned:.0f} s; "
        f"{moves} moves, {elsewhere} of them elsewhere than planned",
        flush=True,
    )
    return {"lab_vs_plan": ended.seconds / planned}


def simulator() -> dict[str, float]:
    nodes = [f"n{number}" for number in range(1, NODES + 1)]
    role = ROOT / "docs" / "kubevirt-clusterrole.yml"
    with tempfile.TemporaryDirectory(prefix="bench-roll-") as name:
        directory = Path(name)
        inventory = {"all": {"hosts": {node: {} for node in nodes}, "vars": {"maintenance_platform": "kubevirt"}}}
        (directory / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONPATH"))}
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
            "ANSIBLE_HOME": str(directory / "ansible"),
            "K8S_AUTH_KUBECONFIG": str(directory / "kubeconfig-maintenance"),
        }
        words = {"maintenance_hosts": "all", "maintenance_reboot": False}
        argv = [str(plays.ANSIBLE_PLAYBOOK), "-i", "hosts.json", "-e", json.dumps(words)]
        with Process(directory, {"maintenance": role}) as server:
            remote = Remote(server.kubeconfig())
            for node in nodes:
                remote.add_node(node)
            began = time.monotonic()
            roll = plays.Command(
                [*argv, "virtops.maintenance.rolling_maintenance"], {**clean, **environment}, directory
            )
            ended = plays.watch(roll, timeout=1800)
            seconds = time.monotonic() - began
    if ended.code:
        raise SystemExit(f"the roll failed:\n{ended.text[-3000:]}")
    print(f"simulator: {NODES} empty nodes: {seconds:.0f} s", flush=True)
    return {"seconds_per_empty_host": seconds / NODES}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-roll", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="model, lab, simulator")
    parser.add_argument("--hosts", type=int, default=HOSTS, help="of the model (40)")
    parser.add_argument("--vms", type=int, default=VMS, help="of the model (1,000)")
    args = parser.parse_args()
    interruptible()
    parts = args.parts or ["simulator", "lab", "model"]
    found: dict[str, float] = {}
    if "simulator" in parts:
        found |= simulator()
    if "lab" in parts:
        found |= lab()
    if "model" in parts:
        found |= model(args.hosts, args.vms)
    print("bench-roll: " + " ".join(f"{word}={value:.2f}" for word, value in found.items()))
    return int(any(found.get(word, 0.0) > most for word, most in WANTED.items()))


if __name__ == "__main__":
    sys.exit(main())
