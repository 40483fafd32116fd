"""The golden plans: each small cluster gives the plan that stands beside it."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.virtops.maintenance.tests.golden import plans


def test_there_are_enough_of_them() -> None:
    assert len(plans.names()) >= 12


@pytest.mark.parametrize("name", plans.names())
def test_golden_plan(name: str) -> None:
    """If it is meant to change: `make golden`, and read the difference."""
    assert plans.render(plans.read(name)) == plans.expected(name)


def summary(name: str) -> str:
    return yaml.safe_load(plans.expected(name))["summary"]


def test_the_swap_moves_one_vm_out_of_the_way() -> None:
    steps = yaml.safe_load(plans.expected("swap"))["steps"]
    assert any(" swap for db-1 " in move for move in steps[0]["moves"])


def test_the_refusal_says_what_would_help() -> None:
    assert summary("infeasible").startswith(
        "step 1 does not fit: db-2 (96 GiB) has no target once host-c is out "
        "(has an older hypervisor (8.2.0, not 9.1.0): host-b); "
        "free 12 GiB or upgrade the older hosts before host-c or allow cold_migrate."
    )
