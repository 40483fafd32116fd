"""The cases on KubeVirt, by playbooks against the simulator. Each has a cluster of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import quantity
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules, rules_without
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays
from kubesim import Kubesim, templates
from kubesim.kinds import NODES, REPLICA_SETS, VMIMS, VMIS
from kubesim.reading import clean
from kubesim.words import phase

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


def k4_instance_of_a_replica_set() -> str | None:
    with _cluster() as (sim, plays):
        sim.add(REPLICA_SETS.plural, templates.replica_set("web", "n1"))
        sim.until(lambda: [v for v in sim.world.store.all(VMIS) if phase(v) == "Running"])
        done = plays.own("drain", maintenance_hosts="n1", drain_allow_stop=True)
        wrong = _said(done, "stopped", "VirtualMachineInstanceReplicaSet default/web creates another one")
        if wrong or done.returncode != 0:
            return wrong or f"the drain failed: {done.stdout[-1500:]}"
        others = [v for v in sim.all(VMIS) if v["status"].get("nodeName") != "n1"]
        return None if others else "the set has no other instance"


def k5_external() -> str | None:
    with _cluster() as (sim, plays), tempfile.TemporaryFile() as output:
        for name in ("moved", "left"):
            sim.add_vm(name, "n1", strategy="External", migrate_seconds="30")
        process = plays.start("drain", output, maintenance_hosts="n1", drain_external_timeout=20)
        sim.until(lambda: sim.world.store.find(VMIS, "default", "moved")["status"].get("evacuationNodeName"))
        meta = {"name": "owners", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "moved"}}
        sim.add(VMIMS.plural, {"metadata": meta, "spec": {"vmiName": "moved"}})
        code = process.wait(300)
        output.seek(0)
        text = " ".join(output.read().decode().split())
        waits, late = text.find("left pending, ExternalOwner: "), text.find("left blocked, ExternalOwnerTimedOut")
        if code == 0 or "TwoLoops" in text or not 0 <= waits < late:
            return text[-1500:]
        return None if "default/moved" in text and sim.node_of("moved") != "n1" else "the owner's migration was ended"


def k8_without_watch_nodes() -> str | None:
    with _cluster() as (sim, plays):
        sim.api.access.rules[TOKEN] = rules_without("watch", "nodes")
        sim.add_vm("vm", "n1")
        done = plays.own("drain", maintenance_hosts="n1")
        if done.returncode != 0 or "watch nodes" in done.stdout:
            return done.stdout[-1500:]
        return None


def k9_quantities() -> str | None:
    for text, mib in (("129e6", 123), ("12E", 11444091796875), ("2Pi", 2**31), ("128974848000m", 123)):
        if quantity.mib(text) != mib:
            return f"{text} is read as {quantity.mib(text)} MiB"
    return None
