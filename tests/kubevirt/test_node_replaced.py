"""A node that is installed anew while it is drained: its Node is deleted, and registered again."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import NodeUnknown
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll_fleet import RollOfCluster
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.act import Actor
from kubesim.kinds import BY_PLURAL, NODES
from kubesim.reading import clean, row
from kubesim.words import annotations

LEASES = BY_PLURAL["leases"]
LEASE = "virtops-maintenance-n1"


def delete_node(sim) -> None:
    sim.call(lambda: sim.world.store.delete(NODES, "", "n1"))


def replace_node(sim) -> None:
    delete_node(sim)
    sim.add_node("n1")


@pytest.mark.parametrize("run_strategy", ["Manual", "RerunOnFailure"])
def test_what_was_stopped_is_started_after_the_node_was_replaced(sim, operator, run_strategy) -> None:
    sim.add_vm("vm", "n1", strategy="None", run_strategy=run_strategy, shutdown_seconds="1")
    assert operator.drain(allow_stop=True)["phase"] == "Drained"
    assert sim.node_of("vm") == ""
    replace_node(sim)
    found = operator.restore()
    assert (found["phase"], row(found, "vm")["name"]) == ("Active", "default/vm")
    sim.until(lambda: sim.running("vm"))
    assert clean(sim) and sim.find(LEASES, LEASE) is None


def test_who_asks_is_told_what_the_drain_of_a_node_has_left(sim, operator) -> None:
    """Nobody else starts it: not the owner, who wants it off, nor the roll, whose node it is no more."""
    sim.add_vm("vm", "n1", strategy="None", run_strategy="Manual", shutdown_seconds="1")
    sim.add_vm("starts-elsewhere", "n1", strategy="None", run_strategy="Always", shutdown_seconds="1")
    store = RollOfCluster(Client(operator.auth), "default")
    assert operator.drain(allow_stop=True)["phase"] == "Drained" and not store.fleet().left
    # As a restore leaves it that is killed before it has removed the Lease.
    note = annotations(sim.find(NODES, "n1"))[names.RECORD]
    sim.edit(NODES, "n1", lambda node: node["metadata"]["annotations"].pop(names.RECORD))
    assert not store.fleet().left
    sim.edit(NODES, "n1", lambda node: node["metadata"]["annotations"].update({names.RECORD: note}))
    delete_node(sim)
    assert store.fleet().left["n1"].startswith("deleted after a drain that stopped default/vm: start them if")
    with pytest.raises(NodeUnknown, match=r"no node n1 .* Its drain stopped default/vm: start them"):
        operator.restore()
    sim.add_node("n1")
    assert store.fleet().left == {
        "n1": "registered again after a drain that stopped default/vm: run the playbook restore"
    }
    assert operator.restore()["phase"] == "Active" and not store.fleet().left


def test_it_is_known_before_anything_is_stopped(sim, operator, monkeypatch) -> None:
    """A run that is killed right then leaves it behind too."""

    def killed(*_args) -> None:
        raise KeyboardInterrupt

    sim.add_vm("vm", "n1", strategy="None", run_strategy="Manual")
    monkeypatch.setattr(Actor, "apply", killed)
    with pytest.raises(KeyboardInterrupt):
        operator.slice(Intent.DRAINED, 5.0, allow_stop=True)
    assert "default/vm" in annotations(sim.find(LEASES, LEASE))[names.RECORD]
    assert sim.node_of("vm") == "n1"
