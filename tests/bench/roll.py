"""make bench-roll: how well a roll keeps to its plan, and what Ansible costs for each host.

model       40 hosts and 1,000 VMs in memory, two out at once: the engine drains host after host as the plan
            has it (roll_model.py). Against the plan, and the plan against a bound that nobody can beat
lab         5 libvirt hosts with 20 guests, two out at once, no reboot: the playbook, against its own plan. The plan
            is of transfers alone, so Ansible's own cost is in it
lab-empty   the same five hosts, empty, one after the other, over ssh: seconds of the playbook for each
simulator   20 empty nodes, one after the other, no reboot: seconds of the playbook for each
waiting     processor seconds of the controller for a host that waits for a minute: 5 nodes of which the first has a VM
            that moves for a minute, against one that moves at once, and against the same two rolls of that node alone

    roll.py [PART ...]      all by default
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "build" / "collections")]

from bench import ping, roll_model  # noqa: E402
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
WAITING, MINUTE = 5, 60.0
# What the issue of the roll asks for; of an empty host 2 s where a ping takes 0.4.
WANTED = {"makespan_vs_plan": 1.15, "plan_vs_bound": 1.05, "moves_per_vm": 1.05, "empty_host_pings": 5.0}


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


def lab_empty() -> dict[str, float]:
    with own_lab("bench-roll", LAB_HOSTS) as made, tempfile.TemporaryDirectory() as folder:
        pings = ping.seconds("all", Path(folder), lambda playbook: plays.run(made, str(playbook), {}).text)
        words = {"maintenance_hosts": "all", "maintenance_reboot": False, **plays.UNMEASURED}
        ended = plays.run(made, "rolling_maintenance", words)
    if ended.code:
        raise SystemExit(f"the roll failed:\n{ended.text[-3000:]}")
    return _for_each("lab", ended.seconds, LAB_HOSTS, pings)


def _for_each(place: str, seconds: float, hosts: int, ping_s: float) -> dict[str, float]:
    print(f"{place}: {hosts} empty hosts: {seconds:.0f} s, a ping {ping_s:.2f} s", flush=True)
    word = "" if place == "simulator" else f"{place}_"
    each = seconds / hosts
    return {f"{word}ping_s": ping_s, f"{word}seconds_per_empty_host": each, f"{word}empty_host_pings": each / ping_s}


@dataclass
class Simulated:
    """A simulated cluster, and playbooks on it."""

    directory: Path
    remote: Remote

    def __post_init__(self) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONPATH"))}
        self.environment = {
            **clean,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
            "ANSIBLE_HOME": str(self.directory / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "K8S_AUTH_KUBECONFIG": str(self.directory / "kubeconfig-maintenance"),
        }

    def run(self, playbook: str, nodes: list[str], **variables: object) -> plays.Ended:
        described = {"hosts": {node: {} for node in nodes}, "vars": {"maintenance_platform": "kubevirt"}}
        inventory = self.directory / "hosts.json"
        inventory.write_text(json.dumps({"all": described}), encoding="utf-8")
        argv = [str(plays.ANSIBLE_PLAYBOOK), "-i", str(inventory), "-e", json.dumps(variables), playbook]
        ended = plays.watch(plays.Command(argv, self.environment, self.directory), timeout=1800)
        if ended.code:
            raise SystemExit(f"{playbook} failed:\n{ended.text[-3000:]}")
        return ended

    def roll(self, nodes: list[str]) -> plays.Ended:
        words = {"maintenance_hosts": "all", "maintenance_reboot": False}
        return self.run("virtops.maintenance.rolling_maintenance", nodes, **words)

    def ping_s(self) -> float:
        """Of modules that run where the playbook does, as those of this platform."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        return ping.seconds("all", self.directory, lambda playbook: self.run(str(playbook), ["n1"], **local).text)


@contextmanager
def simulated(nodes: list[str]) -> Iterator[Simulated]:
    role = ROOT / "docs" / "kubevirt-clusterrole.yml"
    with tempfile.TemporaryDirectory(prefix="bench-roll-") as name:
        directory = Path(name)
        with Process(directory, {"maintenance": role}) as server:
            made = Simulated(directory, Remote(server.kubeconfig()))
            for node in nodes:
                made.remote.add_node(node)
            yield made


def simulator() -> dict[str, float]:
    nodes = [f"n{number}" for number in range(1, NODES + 1)]
    with simulated(nodes) as made:
        pings = made.ping_s()
        seconds = made.roll(nodes).seconds
    return _for_each("simulator", seconds, NODES, pings)


def waiting() -> dict[str, float]:
    nodes = [f"n{number}" for number in range(1, WAITING + 1)]

    def spent(hosts: list[str], moves_for: float) -> float:
        """Of a roll. The VM is one of its own, since it goes to another node."""
        with simulated([*nodes, "other"]) as made:
            made.remote.add_vm("vm", "n1", migrate_seconds=f"{moves_for}")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            made.roll(hosts)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    cost = {len(hosts): spent(hosts, MINUTE) - spent(hosts, 1.0) for hosts in (nodes, nodes[:1])}
    each = (cost[WAITING] - cost[1]) / (WAITING - 1)
    print(f"waiting: a minute more of {WAITING} nodes {cost[WAITING]:.1f} s, of one {cost[1]:.1f} s", flush=True)
    return {"cpu_s_of_a_host_that_waits_a_minute": each}


PARTS = {"simulator": simulator, "waiting": waiting, "lab-empty": lab_empty, "lab": lab, "model": dict}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-roll", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--hosts", type=int, default=HOSTS, help="of the model (40)")
    parser.add_argument("--vms", type=int, default=VMS, help="of the model (1,000)")
    args = parser.parse_args()
    interruptible()
    found: dict[str, float] = {}
    for part in args.parts or PARTS:
        found |= model(args.hosts, args.vms) if part == "model" else PARTS[part]()
    print("bench-roll: " + " ".join(f"{word}={value:.2f}" for word, value in found.items()))
    return int(any(found.get(word, 0.0) > most for word, most in WANTED.items()))


if __name__ == "__main__":
    sys.exit(main())
