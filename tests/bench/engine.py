"""Runs on a lab host: one drain by the module's loop, in one process. Prints one line of JSON.

engine.py COLLECTIONS HOST PEER,PEER... CLUSTER,OUTBOUND,INBOUND
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

PACKAGE = "ansible_collections.virtops.maintenance.plugins.module_utils."


def load(name: str) -> Any:
    return importlib.import_module(PACKAGE + name)


def main() -> None:
    collections, node, peers, numbers = sys.argv[1:5]
    sys.path.insert(0, collections)
    host, service = load("_libvirt.observe.host"), load("_libvirt.run.service")
    policy, record = load("_core.model.policy"), load("_core.model.record")

    def run(intent: str) -> dict[str, Any]:
        limits = policy.Limits(*(int(number) for number in numbers.split(",")))
        request = service.Request(
            own=host.HostConfig(node, "qemu:///system", 20000),
            peers=[host.HostConfig(peer, f"qemu+tls://{peer}/system", 20000) for peer in peers.split(",")],
            policy=policy.Policy(limits=limits),
            intent=record.Intent(intent),
            run_id=f"bench-{time.time()}",
            seconds=900.0,
        )
        return service.run_slice(request)

    begun = time.monotonic()
    result = run("drained")
    seconds = time.monotonic() - begun
    rows = result["vms"]
    run("active")  # not timed: takes the cordon away
    print(
        json.dumps(
            {
                "seconds": seconds,
                "phase": result["phase"],
                "processed": sum(row["processed_mib"] for row in rows),
                "attempts": sum(row["attempts"] for row in rows),
                "pauses": [row["outage_ms"] for row in rows],
                "node": node,
                "vms": rows,
            }
        )
    )


if __name__ == "__main__":
    main()
