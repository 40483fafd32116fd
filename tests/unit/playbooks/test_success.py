"""Whatever ends a host without a failure: the exit code says so, and the host is named."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.tests.unit.playbooks.stand_ins import ROLL, Roll

META = ("end_role", "end_host", "end_batch", "end_play")
BROKEN = {
    "no file": None,
    "no YAML": "- name: [",
    "no module": "- name: Do it\n  virtops.maintenance.no_such_module:\n",
    "no variable": '- ansible.builtin.debug: {msg: "{{ no_such_variable }}"}\n',
    "no host": "- virtops.maintenance.virt_drain: {state: hook}\n",
}
full = pytest.mark.full


def _meta(what: str) -> str:
    return f"- name: Leave\n  ansible.builtin.meta: {what}\n"


@pytest.mark.parametrize("meta", [pytest.param(m, marks=() if m == "end_role" else full) for m in META])
def test_a_hook_that_leaves_the_drain_is_no_empty_host(roll: Roll, meta: str) -> None:
    roll.write("hook.yml", _meta(meta))
    roll.write("work.yml", "- virtops.maintenance.virt_drain: {state: work}\n")
    code, text = roll.run("", "-e", "maintenance_tasks=work.yml", "-e", "maintenance_hosts=all", hooks="drained")
    assert code != 0, text
    assert set(roll.steps) == {"host-a look", "host-a drained"}
    assert "The roll stopped at host-a" in text or "host-a has failed" in text


@full
@pytest.mark.parametrize("meta", META)
def test_a_hook_that_leaves_the_second_drain_is_no_certificate(roll: Roll, meta: str) -> None:
    """There the host is rebooted next."""
    roll.write("hook.yml", _meta(meta))
    roll.write("work.yml", "- ansible.builtin.set_fact: {drained_once: true}\n")
    code, text = roll.run("", "-e", "maintenance_tasks=work.yml", "-e", "maintenance_hosts=all", hooks="again")
    assert code != 0, text
    assert set(roll.steps) == {"host-a look", "host-a drained"}
    assert "The roll stopped at host-a" in text or "host-a has failed" in text


@full
@pytest.mark.parametrize("meta", META[1:])
def test_work_that_leaves_the_host_does_not_end_well(roll: Roll, meta: str) -> None:
    roll.write("work.yml", _meta(meta))
    code, text = roll.run("", "-e", "maintenance_tasks=work.yml", "-e", "maintenance_hosts=all")
    assert code != 0, text
    assert roll.steps == ["host-a look", "host-a drained"]
    assert "The roll stopped at host-a" in text or "host-a has failed" in text


@full
@pytest.mark.parametrize("meta", META)
def test_a_hook_that_leaves_the_restore_of_a_roll_is_no_end(roll: Roll, meta: str) -> None:
    roll.write("hook.yml", _meta(meta))
    code, text = roll.run(hooks="active")
    assert code != 0, text
    assert roll.steps[-1] == "host-a active"
    assert "The roll stopped at host-a" in text or "host-a has failed" in text


@pytest.mark.parametrize("meta", [pytest.param(m, marks=full) for m in META])
def test_a_hook_that_leaves_a_drain_is_named(roll: Roll, meta: str) -> None:
    roll.write("hook.yml", _meta(meta))
    code, text = roll.run(playbook="drain", hooks="drained")
    assert code != 0, text
    assert roll.steps == ["host-a look", "host-a drained"]
    assert "fatal: [host-a]" in text or "host-a was left undrained" in text


@full
@pytest.mark.parametrize("meta", META)
def test_a_hook_that_leaves_a_restore_is_named(roll: Roll, meta: str) -> None:
    roll.write("hook.yml", _meta(meta))
    code, text = roll.run(playbook="restore", hooks="active")
    assert code != 0, text
    assert "host-a is not restored" in text
    assert "host-b is not restored" in text


@full
@pytest.mark.parametrize("why", BROKEN)
@pytest.mark.parametrize("playbook", ["drain", ROLL])
def test_a_hook_that_cannot_be_run_stops_there(roll: Roll, playbook: str, why: str) -> None:
    if BROKEN[why]:
        roll.write("hook.yml", BROKEN[why])
    code, text = roll.run("host-a hook gone", playbook=playbook, hooks="drained")
    assert code != 0, text
    assert {step for step in roll.steps if "hook" not in step} == {"host-a look", "host-a drained"}
    assert "failed: [host-a]" in text or "fatal: [host-a]" in text, text


@pytest.mark.parametrize("why", [pytest.param(w, marks=() if w == "no file" else full) for w in BROKEN])
def test_a_hook_that_cannot_be_run_is_no_restored_host(roll: Roll, why: str) -> None:
    if BROKEN[why]:
        roll.write("hook.yml", BROKEN[why])
    code, text = roll.run("host-a hook gone", playbook="restore", hooks="active")
    assert code != 0, text
    assert "host-a is not restored" in text or "[host-a]: UNREACHABLE!" in text, text


@full
def test_a_host_that_is_lost_ends_a_drain(roll: Roll) -> None:
    """With any_errors_fatal it went on to the next host."""
    code, text = roll.run("host-a drained gone", playbook="drain")
    assert code != 0, text
    assert roll.steps == ["host-a look", "host-a drained"]


@full
def test_a_second_drain_in_the_same_run_does_not_believe_the_first(roll: Roll) -> None:
    play = "- ansible.builtin.import_playbook: virtops.maintenance.drain\n"
    roll.write("twice.yml", play * 2)
    code, text = roll.run(playbook="twice.yml")
    assert code == 0, text
    assert len(roll.steps) == 8
