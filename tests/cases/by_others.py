"""The cases that Ansible's own options and others' hands make, by playbooks against the simulator."""

from __future__ import annotations

from kubesim.kinds import NODES

from .kubevirt import _cluster, _said

PLAYBOOKS = ("drain", "restore", "preflight", "plan", "status", "abort", "rolling_maintenance")


def a1_tags() -> str | None:
    with _cluster() as (sim, plays):
        for playbook in PLAYBOOKS:
            before = len(sim.log)
            done = plays.own(playbook, "--tags", "patch", maintenance_hosts="n1")
            if done.returncode == 0 or len(sim.log) > before:
                return f"{playbook}: exit code {done.returncode}, {len(sim.log) - before} requests"
            wrong = _said(done, "With --tags patch tasks of the maintenance are skipped")
            if wrong:
                return f"{playbook}: {wrong}"
    return None


def k6_others_cordon() -> str | None:
    with _cluster() as (sim, plays):
        sim.add_vm("vm", "n1")
        sim.edit(NODES, "n1", lambda node: node["spec"].update(unschedulable=True))
        for before in ("restore", "drain"):
            done = plays.own(before, maintenance_hosts="n1")
            back = plays.own("restore", maintenance_hosts="n1")
            wrong = _said(back, "n1 is restored, but it takes no VMs: it is still cordoned, by others")
            if done.returncode or back.returncode or wrong:
                return wrong or f"exit codes {done.returncode}, {back.returncode}: {back.stdout[-800:]}"
            if not (sim.find(NODES, "n1") or {})["spec"].get("unschedulable"):
                return "the cordon of others is gone"
    return None
