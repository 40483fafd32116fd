"""Drains of nodes by the module's loop, all in this one process. Prints one line of JSON.

kubevirt_engine.py COLLECTIONS KUBECONFIG STATE NODE [NODE ...]

A node is a thread, with slices and options as the action plugin and the module have them.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PACKAGE = "ansible_collections.virtops.maintenance.plugins.module_utils."


def load(name: str) -> Any:
    return importlib.import_module(PACKAGE + name)


def main() -> None:
    collections, kubeconfig, state, *nodes = sys.argv[1:]
    sys.path.insert(0, collections)
    auth, options = load("_kubevirt.api.auth"), load("_kubevirt.options")
    service, record = load("_kubevirt.run.service"), load("_core.model.record")
    specs = {**options.POLICY_SPEC, **options.STOP_SPEC, **options.RUN_LIMITS_SPEC}
    params = {key: spec.get("default") for key, spec in specs.items()}
    seconds = float(options.SLICE_SPEC["slice"]["default"])
    settings = auth.settings({"kubeconfig": kubeconfig}, {})

    def run(node: str) -> dict[str, Any]:
        run_id, begun, cursor = f"bench-{time.time()}-{node}", False, ""
        while True:
            request = service.Request(
                auth=settings,
                node=node,
                policy=options.policy(params),
                intent=record.Intent(state),
                run_id=run_id,
                requester="bench",
                reason="bench",
                seconds=seconds,
                begun=begun,
                cursor=cursor,
            )
            found = service.run_slice(request)
            if found["ended"] == "final":
                return found
            begun, cursor = True, found["cursor"]

    started = time.monotonic()
    with ThreadPoolExecutor(len(nodes)) as pool:
        found = list(pool.map(run, nodes))
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - started,
                "phases": [one["phase"] for one in found],
                "counts": [one["counts"] for one in found],
            }
        )
    )


if __name__ == "__main__":
    main()
