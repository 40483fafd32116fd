"""A VM that the drain stopped, and of which its owner says meanwhile that it shall be off."""

from __future__ import annotations

import pytest

from kubesim.kinds import VMS
from kubesim.reading import clean, row


def stopped(sim, operator, run_strategy: str) -> None:
    sim.add_vm("vm", "n1", strategy="None", run_strategy=run_strategy, shutdown_seconds="1")
    found = operator.drain(allow_stop=True)
    assert (found["phase"], row(found, "vm")["verdict"]) == ("Drained", "stopped")


def halt(sim) -> None:
    sim.edit(VMS, "vm", lambda o: o["spec"].update(runStrategy="Halted"), "default")


@pytest.mark.parametrize("run_strategy", ["Manual", "RerunOnFailure"])
def test_it_is_left_off_and_the_node_is_restored(sim, operator, run_strategy) -> None:
    stopped(sim, operator, run_strategy)
    halt(sim)
    found = operator.restore()
    assert found["phase"] == "Active", found
    vm = row(found, "vm")
    assert (vm["verdict"], vm["reason"]) == ("gone", "StoppedByItself")
    assert any("default/vm" in text and "Halted" in text for text in found["warnings"])
    assert sim.node_of("vm") == "" and clean(sim)


def test_a_drain_does_not_wait_for_it_either(sim, operator) -> None:
    stopped(sim, operator, "Manual")
    halt(sim)
    assert operator.drain(allow_stop=True)["phase"] == "Drained"
    assert operator.restore()["phase"] == "Active" and clean(sim)
