"""A roll on a busy API, and one that would be refused in its middle: by ansible-playbook, against the simulator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import written
from ansible_collections.virtops.maintenance.tests.kubevirt.test_roll import is_at, record
from kubesim.kinds import NODES
from kubesim.nodelife import reboot

LEASE = "leases/virtops-roll"


@pytest.mark.full
def test_an_api_that_is_busy_for_a_moment_does_not_end_a_roll(sim, plays) -> None:
    """Of its record each second write or so is refused, by a server that restarts or sheds load."""
    for node in ("n1", "n2"):
        sim.add_vm(f"vm-{node}", node, migrate_seconds="1")
    for number in range(6):
        later = itertools.count()

        def one(method: str, path: str, number: int = number, later: Iterator[int] = later) -> bool:
            return method == "PUT" and path.endswith(LEASE) and next(later) >= number

        sim.api.faults.plan(503 if number % 2 else 429, 1, one, retry_after=None if number % 2 else 1)
    done = plays.own("rolling_maintenance", maintenance_hosts="n1,n2", maintenance_reboot=False)
    assert done.returncode == 0, done.stdout
    assert {sim.node_of("vm-n1"), sim.node_of("vm-n2")} <= {"n1", "n2", "n3"}
    assert not [node for node in sim.all(NODES) if node["spec"].get("unschedulable")]


@pytest.mark.full
def test_what_cannot_be_is_refused_before_anything_moves(sim, plays) -> None:
    """A node of another name than the host's; a reboot over a connection that is not there."""
    sim.add_vm("vm", "n1")
    words = {"maintenance_hosts": "n1", "maintenance_reboot": False}
    refused = plays.own("rolling_maintenance", drain_node="n2", **words)
    assert refused.returncode != 0
    assert "drain_node of n1 is n2: a roll works on the node that has the host's name" in refused.stdout
    nowhere = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    for host, why in ((nowhere, ""), ({"ansible_connection": "local"}, "its connection is local (ansible_connection)")):
        plays.inventory({"n1": host})
        refused = plays.own("rolling_maintenance", maintenance_hosts="n1")
        assert refused.returncode != 0
        assert f"n1 is to be rebooted, but Ansible cannot reach it: {why}" in refused.stdout
        assert "or leave the reboot out with maintenance_reboot=never." in refused.stdout
    assert sim.node_of("vm") == "n1"
    assert not [call for call in written(sim.log) if "/nodes/" in call.path or "evict" in call.path]


@pytest.mark.full
def test_a_node_that_reboots_is_waited_for_until_kubevirt_places_vms_there_again(sim, plays, tmp_path) -> None:
    """Its label is false until virt-handler's second heartbeat, and its Ready is newer than the heartbeat before. For
    the second one of them the API server restarts meanwhile."""
    hosts = ("n1", "n2", "n3")
    for node in hosts:
        sim.add_vm(f"vm-{node}", node, migrate_seconds="1")
    tasks = tmp_path / "work.yml"
    up = f"{tmp_path}/{{{{ inventory_hostname }}}}-is-up"
    tasks.write_text(f"- ansible.builtin.wait_for: {{path: '{up}', timeout: 600}}\n  delegate_to: localhost\n")
    words = {"maintenance_hosts": ",".join(hosts), "maintenance_reboot": False, "maintenance_tasks": str(tasks)}
    out, left = tmp_path / "out", set(hosts)
    with out.open("w", encoding="utf-8") as stream:
        process = plays.start("rolling_maintenance", stream, **words)
        while left:
            sim.until(lambda: any(is_at(sim, node, "at work") for node in left))
            (node,) = (node for node in left if is_at(sim, node, "at work"))
            before = sim.find(NODES, node)["status"]["nodeInfo"]["bootID"]
            sim.world.heartbeat = 100.0  # as on a real cluster, where it comes every 60 to 132 s
            sim.world.paused.add("schedulable")  # until it is waited for, however slow this machine is
            sim.call(lambda node=node: reboot(sim.world, node))
            sim.until(lambda node=node, before=before: _boot_id(sim, node) != before)
            (tmp_path / f"{node}-is-up").touch()
            waits = f"{node}  is not healthy yet"
            sim.until(lambda waits=waits: waits in out.read_text("utf-8"))
            if len(left) == 2:
                sim.restart(5.0)
                sim.until(lambda: not sim.api.faults.away)
            sim.world.paused.discard("schedulable")
            left.discard(node)
        assert process.wait() == 0, out.read_text("utf-8")
    said = out.read_text("utf-8")
    assert record(sim)["stages"] == dict.fromkeys(hosts, "done"), said
    assert "BLOCKER" not in said and "NodeNotSchedulable" in said, said
    assert all(node["metadata"]["labels"]["kubevirt.io/schedulable"] == "true" for node in sim.all(NODES))


def _boot_id(sim, node: str) -> str:
    return str(sim.find(NODES, node)["status"]["nodeInfo"]["bootID"])
