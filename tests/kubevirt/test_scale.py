"""One node of a large cluster: what it costs to look at it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kubesim import Kubesim
from kubesim.kinds import PODS, VMIMS, VMIS
from kubesim.store import Store

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
NODES, EACH = 100, 20
LOOK = r"""
import re, sys, time
from pathlib import Path
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import check_mode, service
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
began = time.monotonic()
settings = auth.settings({"kubeconfig": sys.argv[1]}, {})
found = check_mode.read_node(service.Request(settings, "n1", Policy(), Intent.DRAINED, "r"))
took = time.monotonic() - began
# Not ru_maxrss: it begins with what the process had that started this one.
mib = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text()).group(1)) / 1024
print(len(found["vms"]), took, mib)
"""


def fill(store: Store, nodes: Sequence[str], vms: int) -> None:
    """VMs that run, each with its pod and five migrations behind it."""
    store.listeners.clear()  # no controller: the cluster stands still
    for number in range(vms):
        node, name = nodes[number % len(nodes)], f"vm{number}"
        meta = {"name": name, "namespace": "default", "labels": {"kubevirt.io/nodeName": node}}
        meta["annotations"] = {"pad": "x" * 4000}
        migratable = [{"type": "LiveMigratable", "status": "True"}]
        status = {"phase": "Running", "nodeName": node, "conditions": migratable}
        spec = {"evictionStrategy": "LiveMigrate", "domain": {"memory": {"guest": "1Gi"}}}
        vmi = store.create(VMIS, {"metadata": meta, "spec": spec, "status": status})
        labels = {"kubevirt.io": "virt-launcher"}
        labels["kubevirt.io/created-by"] = vmi["metadata"]["uid"]
        pod = {"name": f"virt-launcher-{name}-x", "namespace": "default", "labels": labels}
        pod["annotations"] = {"kubevirt.io/domain": name}
        running = {"spec": {"nodeName": node}, "status": {"phase": "Running"}}
        store.create(PODS, {"metadata": pod, **running})
        for old in range(5):
            done = {"name": f"m{number}-{old}", "namespace": "default"}
            done["labels"] = {"kubevirt.io/vmi-name": name}
            rest = {"spec": {"vmiName": name}, "status": {"phase": "Succeeded"}}
            store.create(VMIMS, {"metadata": done, **rest})


def test_a_look_at_one_of_a_hundred_nodes(tmp_path: Path) -> None:
    with Kubesim() as sim:
        for number in range(NODES):
            sim.add_node(f"n{number}")
        sim.call(lambda: fill(sim.world.store, [f"n{number}" for number in range(NODES)], NODES * EACH))
        kubeconfig = sim.kubeconfig(tmp_path / "kubeconfig")
        before = len(sim.log)
        done = subprocess.run(
            [sys.executable, "-c", LOOK, str(kubeconfig)],
            env={"PYTHONPATH": str(ROOT / "build" / "collections"), "PATH": "/usr/bin"},
            text=True,
            capture_output=True,
            check=True,
        )
        vms, seconds, mib = (float(text) for text in done.stdout.split())
        print(f"look: vms={vms:.0f} s={seconds:.2f} MiB={mib:.0f}")
        assert vms == EACH and mib < 80
        assert len(sim.log) - before <= 15
