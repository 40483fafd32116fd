"""One observe and one decide on the model: a host with 20 VMs, in a fleet of 1,000. Prints JSON.

slice_model.py DEAD     how many of the peers do not answer

Medians of five; the peak is what the process has grown by, above what it needs to have the fleet.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "collections"))

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Machine
from fleetsim.platform import ModelPlatform

HOSTS, VMS, ROUNDS = 1000, 20, 5
NODE = "host-0000"


def fleet(dead: int) -> Fleet:
    machines = []
    for number in range(HOSTS):
        name = f"host-{number:04}"
        machine = Machine(name, capacity_mib=384 * 1024)
        machine.reachable = machine.up = number < HOSTS - dead
        for place in range(VMS):
            vm = VM(f"{name}-{place:02}", f"vm-{number}-{place}", name, memory_mib=8192)
            machine.domains[vm.uuid] = Domain(vm)
        machines.append(machine)
    return Fleet(machines)


def once(dead: int) -> tuple[float, float]:
    """Seconds of CPU of observe and of decide."""
    platform = ModelPlatform(fleet(dead), NODE)
    platform.hook = lambda _what: None
    record = begin(None, NODE, "drained", "bench", platform.now(), platform.own.boot_id)
    began = time.process_time()
    obs = platform.observe(record)
    read = time.process_time()
    decide(obs, {NODE: record}, Policy())
    return read - began, time.process_time() - read


def peak(dead: int) -> float:
    """MB at most, of observe and decide together."""
    platform = ModelPlatform(fleet(dead), NODE)
    platform.hook = lambda _what: None
    record = begin(None, NODE, "drained", "bench", platform.now(), platform.own.boot_id)
    tracemalloc.start()
    decide(platform.observe(record), {NODE: record}, Policy())
    return tracemalloc.get_traced_memory()[1] / 1e6


def main() -> None:
    dead = int(sys.argv[1])
    times = [once(dead) for _round in range(ROUNDS)]
    row = {
        "hosts": HOSTS,
        "dead": dead,
        "observe_s": statistics.median(one for one, _other in times),
        "decide_s": statistics.median(other for _one, other in times),
        "mb": peak(dead),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
