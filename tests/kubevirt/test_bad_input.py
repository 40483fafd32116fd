"""What is wrong with a variable is one sentence, by a role alone too, and nothing is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays, written
from kubesim.kinds import NODES

full = pytest.mark.full


def alone(plays: Plays, folder: Path, role: str, **variables: Any) -> tuple[int, str]:
    """A role in a play of the user's own: exit code, and all that was said in one line."""
    task = {"ansible.builtin.import_role": {"name": f"virtops.maintenance.{role}"}}
    book = folder / "own.yml"
    play = {"hosts": "n1", "gather_facts": False, "tasks": [task]}
    book.write_text(json.dumps([play]), encoding="utf-8")
    done = plays.run(str(book), **variables)
    return done.returncode, " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("role", "name", "value", "words"),
    [
        ("drain", "drain_limits", '{"outbound":1}', "expected a dict; as an extra var: "),
        pytest.param("restore", "restore_timeout", 5, "is not a variable of this", marks=full),
        pytest.param("preflight", "maintenance_memory", "12G", "without a unit", marks=full),
        pytest.param("plan", "maintenance_link_mib_s", "0", "a number above 0", marks=full),
    ],
)
def test_a_role_alone_refuses_what_the_playbooks_refuse(
    sim, plays, tmp_path, role: str, name: str, value: Any, words: str
) -> None:
    code, text = alone(plays, tmp_path, role, **{name: value})
    assert code == 2
    # The headline is the sentence, not which condition failed. ansible-core 2.18 has it in a result.
    assert re.search(rf'(\[ERROR\]: Task failed: Action failed: |"msg": "){name} is ', text), text
    assert words in text and "Nothing was done." in text
    assert "argument_spec" not in text
    assert not [call for call in sim.log if call.path.startswith("/api")]


def test_a_node_of_another_name_is_named_and_so_is_the_variable_for_it(sim, plays) -> None:
    done = plays.own("drain", maintenance_hosts="n1", drain_node="N2")
    assert done.returncode == 2
    said = " ".join(done.stdout.split())
    assert "There is no node N2 in this cluster. Did you mean n2?" in said and "drain_node" in said, said


@full
@pytest.mark.parametrize(
    ("role", "node"),
    [("drain", "../../pods"), ("drain", "n1/status"), ("restore", "n2/../n1"), ("preflight", "n1?x=y")],
)
def test_a_node_that_cannot_be_is_no_path(sim, plays, tmp_path, role: str, node: str) -> None:
    code, text = alone(plays, tmp_path, role, **{f"{role}_node": node})
    assert code == 2
    assert f"There is no node {node} in this cluster." in text, text
    assert "failed_when" not in text
    assert written(sim.log) == []
    assert not [call for call in sim.log if "/nodes/" in call.path]


@pytest.mark.full
def test_what_a_survey_leaves_empty_is_not_given(sim, plays) -> None:
    """All of a roll's variables that a survey may have; then a roll goes as without them."""
    sim.add_vm("vm", "n1", migrate_seconds="1")
    empty = dict.fromkeys(
        [
            *("maintenance_tasks", "maintenance_reboot_timeout"),
            *("maintenance_preflight_fail_on", "maintenance_reason", "maintenance_requester"),
            *("maintenance_run_id", "maintenance_max_unavailable", "maintenance_max_failures"),
            *("maintenance_count_others", "maintenance_take_over", "maintenance_plan_file"),
            *("drain_strategy", "drain_allow_stop", "drain_max_attempts", "drain_timeout"),
            *("drain_on_not_migratable", "drain_backoff", "preflight_wait"),
        ],
        "",
    )
    words = {**empty, "maintenance_reboot": "false", "maintenance_hosts": "n1"}
    done = plays.own("rolling_maintenance", **words)
    assert done.returncode == 0, done.stdout
    assert sim.node_of("vm") in ("n2", "n3")
    assert not sim.find(NODES, "n1")["spec"].get("unschedulable")


@full
@pytest.mark.parametrize("playbook", ["drain", "restore", "plan", "status", "abort"])
def test_empty_answers_of_a_survey_by_the_other_playbooks(sim, plays, playbook: str) -> None:
    empty = dict.fromkeys(
        [
            *("maintenance_memory", "maintenance_reboot", "maintenance_max_unavailable"),
            *("maintenance_link_mib_s", "maintenance_api_host", "maintenance_status_file"),
            *("drain_strategy", "drain_backoff", "drain_force_stop", "plan_must_fit"),
            *("maintenance_requester", "restore_run_id", "maintenance_placement_profile"),
        ],
        "",
    )
    sim.add_vm("vm", "n1", migrate_seconds="1")
    done = plays.own(playbook, maintenance_hosts="n1", **empty)
    assert done.returncode == 0, done.stdout


@full
def test_an_error_of_the_module_is_the_headline(sim, plays) -> None:
    done = plays.own("drain", maintenance_hosts="n1", drain_pods={"grace_period": -5})
    assert done.returncode == 2
    assert "failed_when" not in done.stdout
    assert "[ERROR]: Task failed: Module failed: pods.grace_period is -5" in done.stdout
    done = plays.own("drain", maintenance_hosts="n1", drain_on_not_migratable="save")
    assert done.returncode == 2
    assert "value of on_not_migratable must be one of: block, shutdown, skip" in done.stdout


@full
@pytest.mark.three_nodes
def test_the_plan_takes_a_share_of_the_fleet(sim, plays) -> None:
    for share, steps in (("34%", 3), ("67%", 2)):
        done = plays.own("plan", maintenance_max_unavailable=share)
        assert done.returncode == 0, done.stdout
        assert f"Step {steps}:" in done.stdout and f"Step {steps + 1}:" not in done.stdout
    done = plays.own("plan", maintenance_plan_file="/none/plan.json")
    assert done.returncode == 2
    assert "there is no directory /none on the controller" in done.stdout


@pytest.mark.parametrize(
    "playbook", ["drain", pytest.param("preflight", marks=full), pytest.param("restore", marks=full)]
)
def test_a_node_that_is_in_the_inventory_twice(sim, plays, playbook: str) -> None:
    """By two names, both of which are to be worked on; one alone may have another name than the node."""
    node = {f"{role}_node": "n1" for role in ("drain", "preflight", "restore")}
    plays.inventory({"also-n1": node})
    done = plays.own(playbook, maintenance_hosts="n1,also-n1")
    assert done.returncode == 2
    assert "n1 and also-n1 are the same host (drain_node n1): take all but one" in done.stdout, done.stdout
    assert written(sim.log) == []
    assert not [call for call in sim.log if "/nodes/" in call.path]
    done = plays.own(playbook, maintenance_hosts="also-n1")
    assert done.returncode == 0, done.stdout
