# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cases on KubeVirt, by playbooks against the simulator. Each has a cluster of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays
from kubesim import Kubesim
from kubesim.kinds import NODES, VMIMS
from kubesim.reading import clean

_NO = 'admission policy "frozen" denied the request: nothing is changed here'
_POD = 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
_RANGE = "maximum memory usage per Container is 1Gi, but limit is 2Gi"
Done = subprocess.CompletedProcess[str]


@contextmanager
def _cluster() -> Iterator[tuple[Kubesim, Plays]]:
    with tempfile.TemporaryDirectory() as folder, Kubesim(scale=10) as sim:
        for name in ("n1", "n2", "n3"):
            sim.add_node(name)
        sim.api.access.rules[TOKEN] = documented_rules()
        yield sim, Plays(sim, Path(folder))


def _said(done: Done, *words: str) -> str | None:
    """A sentence for the first of the words that it does not say."""
    text = " ".join(done.stdout.split())
    missing = [word for word in words if word not in text]
    return f"it does not say {missing[0]!r}: {text[-1500:]}" if missing else None


def _patch(method: str, path: str) -> bool:
    return method == "PATCH" and "/virtualmachineinstances/" in path


def _restore(folder: Path) -> str:
    """A playbook with less patience than the role's 300 s."""
    restore = {"node": "n1", "state": "active", "pending_timeout": 10}
    task = {"virtops.maintenance.kubevirt_drain": restore, "delegate_to": "localhost"}
    path = folder / "restore.yml"
    path.write_text(json.dumps([{"hosts": "n1", "gather_facts": False, "tasks": [task]}]), encoding="utf-8")
    return str(path)


def k1_vmis_cannot_be_patched() -> str | None:
    for code in (403, 400, 500):
        with _cluster() as (sim, plays), tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            sim.add_vm("vm", "n1")
            if plays.own("drain", maintenance_hosts="n1").returncode != 0:
                return "the drain failed"
            sim.api.faults.plan(code, 10**6, _patch, text=_NO)
            done = plays.run(_restore(folder))
            if done.returncode == 0:
                return f"{code}: restored, with the marks that it could not remove"
            wrong = _said(done, "default/vm", _NO.rpartition(": ")[2])
            if wrong:
                return f"{code}: {wrong}"
            if (sim.find(NODES, "n1") or {})["spec"].get("unschedulable"):
                return f"{code}: the node takes no VMs"
            sim.api.faults.planned.clear()
            if plays.own("restore", maintenance_hosts="n1").returncode != 0 or not clean(sim):
                return f"{code}: the same command does not finish"
    return None


def k2_target_pods_are_refused() -> str | None:
    for why in (_POD, _RANGE):
        with _cluster() as (sim, plays):
            sim.add_vm("vm", "n1")
            sim.world.pods_refused["default"] = why
            done = plays.own("drain", maintenance_hosts="n1", drain_pending_timeout=30)
            wrong = _said(done, "TargetPodRefused", why.partition(": ")[0])
            if wrong or done.returncode == 0:
                return wrong or "the drain succeeded"
    return None


def _runs(sim: Kubesim) -> bool:
    return any(m.get("status", {}).get("phase") == "Running" for m in sim.world.store.all(VMIMS))


def k3_api_away_for_eight_seconds() -> str | None:
    for playbook in ("drain", "rolling_maintenance"):
        more: dict[str, Any] = {"maintenance_reboot": False} if playbook != "drain" else {}
        hosts = "n1,n2,n3" if playbook != "drain" else "n1"
        with _cluster() as (sim, plays), tempfile.TemporaryFile() as output:
            sim.add_vm("vm", "n1", migrate_seconds="120")
            process = plays.start(playbook, output, maintenance_hosts=hosts, **more)
            sim.until(
                lambda sim=sim: any(m.get("status", {}).get("phase") == "Running" for m in sim.world.store.all(VMIMS))
            )
            sim.restart(8.0)
            if process.wait(600) != 0:
                output.seek(0)
                return f"{playbook}: {output.read().decode()[-1500:]}"
            if sim.node_of("vm") == "n1":
                return f"{playbook}: the VM did not move"
    return None


def k7_quota_used_up() -> str | None:
    with _cluster() as (sim, plays):
        sim.add_vm("vm", "n1")
        sim.add_vm("other", "n2")
        meta = {"name": "tight", "namespace": "default"}
        sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}})
        done = plays.own("drain", "--check", maintenance_hosts="n1")
        if "would be migrated" in done.stdout or "in total" in done.stdout:
            return "it promises what the quota does not allow"
        return _said(done, "n1 would not become Drained", "QuotaExceeded", "tight")
