"""After a roll VMs go back to where they were: by ansible-playbook, against the simulator."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import MOVE_BACK
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll_fleet import check_targets
from kubesim import Kubesim
from kubesim.kinds import NODES, VMIMS, VMIS

from .test_roll import HOSTS, record

WORDS = {"maintenance_hosts": HOSTS, "maintenance_reboot": False, "maintenance_move_back": True}


def places(sim) -> dict[str, str]:
    return {vmi["metadata"]["name"]: vmi["status"]["nodeName"] for vmi in sim.all(VMIS)}


@pytest.mark.full
def test_vms_go_back_to_where_they_were(sim, plays, tmp_path) -> None:
    for node in ("n1", "n2", "n3"):
        for number in (1, 2):
            sim.add_vm(f"vm-{node}-{number}", node, migrate_seconds="2")
    before = places(sim)
    done = plays.own("rolling_maintenance", **WORDS, maintenance_report=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert places(sim) == before, done.stdout
    assert sim.leftovers() == []
    assert record(sim)["state"] == "ended"
    back = re.findall(r"^[\d:]{8} n\d 1/1  default/(\S+) -> (n\d) moved [^|]*\| roll back \d/\d$", done.stdout, re.M)
    assert back and all(before[vm] == node for vm, node in back), done.stdout
    assert f"back where they were: {len(back)} of {len(back)} VM" in done.stdout
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    told = {vm["name"] for host in report["hosts"] for vm in host["vms"] if vm["after"].startswith("back on ")}
    assert told == {f"default/{vm}" for vm, _node in back}


@pytest.mark.full
def test_what_was_killed_on_the_way_back_goes_on_and_what_cannot_go_back_is_said(sim, plays) -> None:
    sim.add_vm("vm-1", "n1", migrate_seconds="2")
    sim.add_vm("vm-2", "n1", migrate_seconds="2")
    before = places(sim)
    process = plays.start("rolling_maintenance", **{**WORDS, "maintenance_hosts": "n1"})
    sim.until(lambda: record(sim)["stages"].get("n1") == "done" and record(sim)["state"] == "running")
    process.kill()
    process.wait()
    sim.edit(NODES, "n1", lambda node: node["spec"].update(unschedulable=True))  # by somebody else
    words = {**WORDS, "maintenance_hosts": "n1", "maintenance_take_over": True}
    stuck = plays.own("rolling_maintenance", **words, drain_pending_timeout=3, drain_max_attempts=1)
    assert stuck.returncode == 2, stuck.stdout
    assert re.search(r"all hosts are done, but some VMs are not back where they were: \d of n1", stuck.stdout)
    assert record(sim)["state"] == "stopped"
    sim.edit(NODES, "n1", lambda node: node["spec"].pop("unschedulable"))
    done = plays.own("rolling_maintenance", **{**WORDS, "maintenance_hosts": "n1"})
    assert done.returncode == 0, done.stdout
    assert places(sim) == before and record(sim)["state"] == "ended"


@pytest.mark.full
def test_what_is_left_to_go_back_stays_where_it_is_after_an_abort(sim, plays) -> None:
    sim.add_vm("vm-1", "n1", migrate_seconds="2")
    process = plays.start("rolling_maintenance", **{**WORDS, "maintenance_hosts": "n1"})
    sim.until(lambda: record(sim)["stages"].get("n1") == "done" and record(sim)["state"] == "running")
    process.kill()
    process.wait()
    migrations = len(sim.all(VMIMS))
    aborted = plays.own("abort")
    assert aborted.returncode == 0, aborted.stdout
    assert record(sim)["state"] == "aborted" and len(sim.all(VMIMS)) == migrations
    assert sim.leftovers() == []


def test_an_older_kubevirt_is_known_before_the_first_host(tmp_path: Path) -> None:
    with Kubesim(scale=10, version=(1, 5)) as sim:
        sim.add_node("n1")
        client = Client(auth.settings({"kubeconfig": str(sim.kubeconfig(tmp_path / "k"))}, {}))
        check_targets(client, {"state": "begun", "options": {}})
        with pytest.raises(RollRefused, match=r"KubeVirt 1\.5 cannot be given a target .* Nothing was changed"):
            check_targets(client, {"state": "begun", "options": {MOVE_BACK: True}})
