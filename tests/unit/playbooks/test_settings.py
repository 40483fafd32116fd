"""What a user gives to ansible-playbook for a look, and sets in ansible.cfg for other playbooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.tests.unit.playbooks.stand_ins import ROLL, ROOT, Roll, steps

OURS, SHOWS = "virtops.maintenance.", "virtops.maintenance.maintenance_show"


@pytest.mark.full
@pytest.mark.parametrize("playbook", ["drain", "restore", "plan", ROLL])
@pytest.mark.parametrize("look", ["--syntax-check", "--list-tasks", "--list-tags"])
def test_a_look_at_a_playbook_needs_no_hosts(roll: Roll, playbook: str, look: str) -> None:
    code, text = roll.run("", "-e", "ignored=1", look, playbook=playbook)
    assert code == 0, text


def test_the_hosts_of_a_roll_are_listed_and_nothing_is_done(roll: Roll) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=host-b", "--list-hosts")
    assert code == 0, text
    assert text.count("hosts (1): host-b") == 3 and "host-a" not in text
    code, text = roll.run("", "-e", "maintenance_host=host-b", "--list-hosts")
    assert code != 0 and "Name the hosts: -e maintenance_hosts=host-a" in text
    assert "did you mean maintenance_hosts?" in text
    assert roll.steps == []


@pytest.mark.parametrize(
    "playbook",
    [
        *(pytest.param(one, marks=pytest.mark.full) for one in ("restore", "preflight", "plan", "status", "abort")),
        "drain",
        ROLL,
    ],
)
def test_with_tags_that_leave_out_its_tasks_a_maintenance_is_no_success(roll: Roll, playbook: str) -> None:
    """Its exit code was 0, and nothing was done."""
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", "--tags", "patch,again", playbook=playbook)
    text = " ".join(text.split())
    assert code != 0 and "With --tags again,patch tasks of the maintenance are skipped" in text, text
    assert roll.steps == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("setting", "given", "named"),
    [
        ("run = patch", (), "--tags patch"),
        ("skip = untagged", (), "--skip-tags untagged"),
        ("", ("--skip-tags", "all"), "--skip-tags all"),
        ("", ("--tags", "never"), "--tags never"),
        ("", ("--start-at-task", "Verify that the host is empty"), "--start-at-task 'Verify that"),
        ("", ("--start-at-task", "no such task"), "--start-at-task 'no such task'"),
    ],
)
def test_so_it_is_wherever_they_were_set(roll: Roll, setting: str, given: tuple[str, ...], named: str) -> None:
    roll.write("ansible.cfg", f"[tags]\n{setting}\n")
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", *given, playbook="drain")
    text = " ".join(text.split())
    assert code != 0 and f"With {named}" in text and "Nothing was done" in text, text
    assert roll.steps == []


@pytest.mark.full
@pytest.mark.parametrize("given", [("--tags", "all,patch"), ("--tags", "untagged"), ("--skip-tags", "slow,always")])
def test_tags_that_leave_out_users_tasks_alone_are_theirs_to_choose(roll: Roll, given: tuple[str, ...]) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", *given)
    assert code == 0, text
    assert roll.steps == steps("host-a")


def test_a_strategy_of_ones_own_does_not_begin_a_roll_once_for_each_host(roll: Roll) -> None:
    """Under `free` a task that is to be run once is run for each host, and what comes after waits for none."""
    roll.write("ansible.cfg", "[defaults]\nstrategy = free\n")
    code, text = roll.run()
    assert code == 0, text
    assert roll.steps == steps("host-a") + steps("host-b")


def tasks_of(found: Any) -> Iterator[dict[str, Any]]:
    for one in found if isinstance(found, list) else ():
        yield one
        for key in ("tasks", "block", "rescue", "always"):
            yield from tasks_of(one.get(key))


def test_a_limit_for_tasks_is_none_for_those_of_the_collection() -> None:
    """With task_timeout in ansible.cfg the hosts that waited for their turn longer than that would have failed, and a
    recovery, and the roll that waits until another controller's is dead. They have deadlines of their own."""
    found = {}
    for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]:
        for task in tasks_of(yaml.safe_load(path.read_text(encoding="utf-8"))):
            if any(key.startswith(OURS) and key != SHOWS for key in task):
                found[f"{path.name}: {task['name']}"] = task.get("timeout")
    assert len(found) > 25
    assert {name for name, limit in found.items() if limit != 0} == set()
