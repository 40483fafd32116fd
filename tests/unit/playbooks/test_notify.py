"""The user's own notifications of a roll: when they come, what they are given, and that no roll stops for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.unit.playbooks.stand_ins import Roll, steps

pytestmark = pytest.mark.full
WRITE = """
- name: Note the event
  ansible.builtin.shell: cat >> {folder}/events
  args:
    stdin: "{{{{ maintenance_event | to_json }}}}"
"""
# Of a host that is not there; a task that fails.
GONE = "- {ansible.builtin.ping: {}, delegate_to: gone}\n"
FAILS = "- {name: Post it, ansible.builtin.fail: {msg: the chat says no}}\n"


@pytest.fixture
def roll(roll: Roll) -> Roll:
    roll.write("notify.yml", WRITE.format(folder=roll.folder))
    return roll


def events(roll: Roll) -> list[dict[str, Any]]:
    file = roll.folder / "events"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def kinds(roll: Roll) -> list[str]:
    return [f"{event['event']} {event['host']}".strip() for event in events(roll)]


def notified(roll: Roll, fault: str = "") -> tuple[int, str]:
    return roll.run(fault, "-e", "maintenance_hosts=all", "-e", "maintenance_notify=notify.yml")


def test_begin_each_host_and_end_are_told_once(roll: Roll) -> None:
    code, text = notified(roll)
    assert code == 0, text
    assert kinds(roll) == ["begin", "done host-a", "done host-b", "end"]
    begin, first, _second, end = events(roll)
    assert (begin["hosts"], begin["done"], begin["out"]) == (2, 0, [])
    assert (first["done"], first["message"].partition(" in ")[0]) == (1, "host-a is done")
    assert (end["result"], end["done"]) == ("done", 2) and end["message"].endswith("ended: host-a, host-b done")
    assert len({event["roll"] for event in events(roll)}) == 1


def test_without_one_it_costs_no_line(roll: Roll) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=host-a")
    assert code == 0 and "otify" not in text and "Tell" not in text and "empty" not in text, text


def test_a_host_that_failed_is_told_with_why(roll: Roll) -> None:
    code, text = notified(roll, "host-a drained failed")
    assert code != 0 and "The roll stopped at host-a" in text
    assert kinds(roll) == ["begin", "failed host-a", "end"]
    _begin, failed, end = events(roll)
    assert "said by the step" in failed["message"] and failed["out"] == ["host-a"]
    assert end["result"] == "failed" and "Not begun: host-b" in end["message"]


def test_a_failure_that_could_not_be_recorded_is_told_too(roll: Roll) -> None:
    roll.write("work.yml", "- ansible.builtin.command: 'false'\n")
    words = ["-e", "maintenance_tasks=work.yml maintenance_hosts=host-a maintenance_notify=notify.yml"]
    code, _text = roll.run("failed not by host-b", *words)  # where it would be recorded
    assert code != 0 and kinds(roll)[:2] == ["begin", "failed host-a"]
    assert events(roll)[1]["message"] == "host-a failed, and this could not be recorded"


@pytest.mark.parametrize(("task", "why"), [(FAILS, "the chat says no"), (GONE, "UNREACHABLE")])
def test_a_notification_that_fails_is_a_warning(roll: Roll, task: str, why: str) -> None:
    inventory = json.loads((roll.folder / "inventory.json").read_text())
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    inventory["all"]["children"] = {"others": {"hosts": {"gone": gone}}}
    roll.write("inventory.json", json.dumps(inventory))
    roll.write("notify.yml", task)
    code, text = roll.run("", "-e", "maintenance_hosts=host-a,host-b", "-e", "maintenance_notify=notify.yml")
    assert code == 0, text
    assert roll.steps == steps("host-a") + steps("host-b")
    assert why in text
    assert ('maintenance_notify failed in the task "Post it": the chat says no. The playbook goes on.' in text) is (
        task == FAILS
    )


def test_a_failed_host_is_reported_as_ever_when_its_notification_fails(roll: Roll) -> None:
    roll.write("notify.yml", FAILS)
    code, text = notified(roll, "host-a drained failed")
    assert code != 0
    assert 'The roll stopped at host-a. In the task "Take the host out of service": said by the step.' in text


def test_in_the_inventory_or_without_its_file_it_is_refused_before_anything(roll: Roll) -> None:
    inventory = json.loads((roll.folder / "inventory.json").read_text())
    inventory["all"]["vars"] = {"maintenance_notify": "notify.yml"}
    roll.write("inventory.json", json.dumps(inventory))
    code, text = roll.run("", "-e", "maintenance_hosts=all")
    assert code != 0 and "expected an extra var, -e maintenance_notify=..." in text
    code, text = roll.run("", "-e", "maintenance_hosts=all", "-e", "maintenance_notify=none.yml")
    assert code != 0 and "there is no file" in text
    assert roll.steps == []
