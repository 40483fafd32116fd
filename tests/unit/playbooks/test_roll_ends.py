"""How a roll, and the abort of one, comes to its end where something went another way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.unit.playbooks.stand_ins import Roll, steps


def _record(roll: Roll) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{roll.steps_file}.roll").read_text(encoding="utf-8"))
    return found


@pytest.mark.full
def test_hooks_of_vms_that_a_restore_starts_are_run_in_a_roll_too(roll: Roll) -> None:
    roll.write("hook.yml", "- ansible.builtin.debug: {msg: 'after {{ maintenance_hook.name }}'}\n")
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", hooks="active")
    assert code == 0, text
    assert "after vm" in text
    assert _record(roll)["state"] == "ended"


def test_a_host_that_is_half_done_and_was_not_named_is_brought_back_as_what_it_is(roll: Roll) -> None:
    """It was in no play before. In its reboot it is waited for."""
    assert roll.run("host-b drained failed")[0] == 2
    record = _record(roll)
    record["hosts"][-1]["failed_in"] = "rebooting"
    Path(f"{roll.steps_file}.roll").write_text(json.dumps(record), encoding="utf-8")
    words = ["maintenance_hosts=host-a", "maintenance_take_over=true", "maintenance_reboot_timeout=1"]
    code, text = roll.run("host-b look failed", "-e", " ".join(words))
    assert code == 2 and "host-b is not healthy yet, waiting 1 s at most: said by the step" in text, text
    done = roll.steps
    code, text = roll.run("", "-e", " ".join(words))
    assert code == 0 and roll.steps == done + steps("host-b"), text


@pytest.mark.full
def test_a_roll_whose_hosts_all_failed_says_how_it_ended(roll: Roll) -> None:
    told = roll.folder / "told"
    roll.write(
        "notify.yml",
        f"- ansible.builtin.shell: echo '{{{{ maintenance_event.event }}}}' >> {told}\n  delegate_to: localhost\n",
    )
    words = ("-e", "maintenance_hosts=host-a", "-e", "maintenance_notify=notify.yml")
    code, text = roll.run("host-a drained failed", *words)
    assert code == 2, text
    assert "The roll stopped at host-a" in text and "Done: none. Out: host-a. Not begun: none." in text
    assert told.read_text().split() == ["begin", "failed", "end"]


@pytest.mark.full
def test_a_roll_of_several_hosts_that_all_failed_says_how_it_ended(roll: Roll) -> None:
    told = roll.folder / "told"
    event = f"echo '{{{{ maintenance_event.event }}}}' >> {told}"
    roll.write("notify.yml", f"- ansible.builtin.shell: {event}\n  delegate_to: localhost\n")
    roll.write(
        "work.yml",
        "- ansible.builtin.command: touch out-{{ inventory_hostname }}\n"
        "- ansible.builtin.wait_for: {path: 'out-{{ item }}', timeout: 60}\n"
        "  loop: [host-a, host-b]\n"
        "- ansible.builtin.fail: {msg: the new kernel is missing}\n",
    )
    words = ("-e", "maintenance_hosts=all", "-e", "maintenance_max_unavailable=2", "-e", "maintenance_tasks=work.yml")
    code, text = roll.run("", *words, "-e", "maintenance_notify=notify.yml")
    assert code == 2, text
    assert "Done: none. Out: host-a, host-b. Not begun: none." in text, text
    assert sorted(told.read_text().split()) == ["begin", "end", "failed", "failed"]
    assert sorted(roll.steps) == sorted([*steps("host-a")[:2], *steps("host-b")[:2]])


def test_a_failed_restore_is_not_reported_as_an_empty_host(roll: Roll) -> None:
    code, text = roll.run("host-a active failed", "-e", "maintenance_hosts=host-a")
    assert code == 2
    assert "host-a: its restore began: it may be in service again" in text, text
    assert "stays cordoned" not in text


def test_work_that_takes_the_quorum_hosts_of_the_record_away_does_not_end_well(roll: Roll) -> None:
    work = "- ansible.builtin.set_fact: {maintenance_fleet: []}\n- ansible.builtin.meta: end_host\n"
    roll.write("work.yml", work)
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", "-e", "maintenance_tasks=work.yml")
    assert code != 0, text
    assert "There is no quorum host" in text


@pytest.mark.parametrize("playbook", ["drain", pytest.param("rolling_maintenance", marks=pytest.mark.full)])
def test_a_limit_that_leaves_none_of_the_hosts_is_an_error(roll: Roll, playbook: str) -> None:
    """Ansible calls it a success."""
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", "--limit", "host-b", playbook=playbook)
    assert code != 0
    assert "None of the hosts of host-a is in --limit host-b. Nothing was done." in text, text
    assert roll.steps == []


@pytest.mark.parametrize(
    ("playbook", "words"),
    [
        ("drain", ["--limit", ","]),
        pytest.param("rolling_maintenance", ["--limit", " : ", "-e", "maintenance_hosts=all"], marks=pytest.mark.full),
        ("drain", ["-e", "maintenance_hosts=,"]),
    ],
)
def test_separators_alone_are_not_every_host(roll: Roll, playbook: str, words: list[str]) -> None:
    """To Ansible they are; a pipeline whose variable is empty writes them."""
    code, text = roll.run("", *words, playbook=playbook)
    assert code != 0
    assert ("names no host" if "--limit" in words else "Name the hosts: ") in text, text
    assert not roll.steps_file.exists()


def test_a_platform_with_a_typo_is_told_as_that(roll: Roll) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", "-e", "maintenance_platform=kubvirt")
    assert code != 0
    assert "maintenance_platform is 'kubvirt': expected one of libvirt, kubevirt." in text, text


def test_a_roll_whose_drains_would_look_for_its_record_elsewhere_is_refused(roll: Roll) -> None:
    given = {"maintenance_hosts": "all", "drain_fleet": "{{ [inventory_hostname] }}"}
    code, text = roll.run("", "-e", json.dumps(given))
    assert code != 0 and "drain_fleet is not the fleet of the roll, it lacks host-b: " in text, text
    assert "Nothing was" in text and not roll.steps


def test_an_abort_names_what_it_leaves_out_and_ends_though_a_host_that_is_out_left_the_inventory(roll: Roll) -> None:
    assert roll.run("host-a drained failed")[0] == 2
    code, text = roll.run("", "--limit", "host-b", playbook="abort")
    assert code != 0
    assert "host-a not restored: it is not among the hosts of this command" in text, text
    inventory = json.loads((roll.folder / "inventory.json").read_text())
    del inventory["all"]["hosts"]["host-a"]
    roll.write("inventory.json", json.dumps(inventory))
    code, text = roll.run("", "-e", "x=y", playbook="abort")
    assert code == 0, text
    assert "host-a not restored: it is not in the inventory" in text
    assert "none of its hosts is out of service except host-a, no longer in the fleet" in text
    code, text = roll.run("", "-e", "maintenance_hosts=host-b")
    assert code == 0, text


@pytest.mark.parametrize(
    "playbook", ["abort", *(pytest.param(one, marks=pytest.mark.full) for one in ("restore", "status"))]
)
def test_what_is_over_or_gone_keeps_from_nothing_that_does_not_use_it(roll: Roll, playbook: str) -> None:
    """It stands in the inventory: the window of last month, a hook that another controller has."""
    rules = [{"name": "web", "hooks": {"before": "gone.yml"}}]
    past = {"maintenance_until": "2026-03-01T06:00", "maintenance_hosts": "all"}
    code, text = roll.run("", "-e", json.dumps(past | {"maintenance_rules": rules}), playbook=playbook)
    assert code == 0, text
    if playbook == "abort":
        done = roll.steps
        code, text = roll.run("", "-e", json.dumps(past))
        assert code != 0 and "'2026-03-01T06:00', which is over: a time to come is expected" in text, text
        given = {"maintenance_hosts": "all", "maintenance_rules": rules}
        code, text = roll.run("", "-e", json.dumps(given), playbook="drain")
        assert code != 0 and "maintenance_rules: rules[0] (web), hooks.before: there is no file" in text, text
        assert roll.steps == done


@pytest.mark.parametrize(
    "playbook",
    ["abort", *(pytest.param(one, marks=pytest.mark.full) for one in ("status", "preflight", "protect", "plan"))],
)
def test_variables_of_a_host_that_is_not_in_the_fleet_are_no_fault(roll: Roll, playbook: str) -> None:
    """The names are another role's. A host of the fleet, or one that a typo keeps out of it, has none of these."""

    def run(host: str, **given: str) -> tuple[int, str]:
        inventory = json.loads((roll.folder / "inventory.json").read_text())
        here = inventory["all"]["hosts"]
        here["bak-1"] = {"ansible_connection": "local", "restore_dir": "/srv", "plan_name": "nightly"}
        here[host] |= given
        roll.write("with-backup.json", json.dumps(inventory))
        return roll.run("", "-i", "with-backup.json", "-e", "x=y", playbook=playbook)

    assert "is not a variable of this collection" not in run("bak-1")[1]
    assert roll.steps or playbook != "preflight"
    code, text = run("host-b", plan_name="nightly")
    assert code != 0 and "plan_name is not a variable of this collection" in text, text
    code, text = run("bak-1", maintenance_peer_uir="qemu+tls://bak-1/system")
    assert code != 0 and "did you mean maintenance_peer_uri?" in text, text
    assert "restore_dir" not in text and "plan_name" not in text


@pytest.mark.full
def test_check_mode_of_an_abort_says_what_it_would_do(roll: Roll) -> None:
    assert roll.run("host-a drained failed")[0] == 2
    before, done = _record(roll), roll.steps
    code, text = roll.run("", "-e", "x=y", "--check", playbook="abort")
    assert code == 0, text
    assert f"roll {before['id']} would be aborted; hosts to restore: host-a" in text
    assert _record(roll) == before and roll.steps == done


def _needs_a_reboot(roll: Roll, meanwhile: str) -> tuple[int, str]:
    """A roll of host-a, whose record is edited while that is asked whether it needs a reboot. `meanwhile`: by sed."""
    script = f"#!/bin/sh\nsed -i '{meanwhile}' {roll.steps_file}.roll\necho 'NEEDRESTART-KSTA: 3'\n"
    roll.write("needrestart", script)
    (roll.folder / "needrestart").chmod(0o755)
    return roll.run("", "-e", "maintenance_hosts=host-a", "-e", "maintenance_reboot=auto")


def test_a_host_that_an_abort_gave_back_while_it_was_asked_is_not_rebooted(roll: Roll) -> None:
    """Of a local connection the reboot is refused, by Ansible: so one sees that it was tried."""
    code, text = _needs_a_reboot(roll, 's/"run":"[^"]*"/"run":"another"/')
    assert code == 2, text
    assert "was taken over" in text and "would reboot the control node" not in text
    assert roll.steps == steps("host-a")[:2]


def test_a_host_that_has_rebooted_while_it_was_asked_is_not_rebooted_again(roll: Roll) -> None:
    """By itself, or because who was killed had told it to."""
    code, text = _needs_a_reboot(roll, 's/"boot_id":"boot"/"boot_id":"boot before"/')
    assert code == 0, text
    assert "host-a is not rebooted: it has rebooted since" in text and "would reboot the control node" not in text
    assert roll.steps == steps("host-a")


@pytest.mark.parametrize(
    ("stage", "words"),
    [("at work", ("-e", "maintenance_tasks=file.yml")), ("checking", ("-e", "maintenance_checks=file.yml"))],
)
def test_a_controller_that_stood_still_runs_no_file_of_the_user(roll: Roll, stage: str, words: tuple[str, ...]) -> None:
    """Meanwhile somebody may have taken the host over, and put it back into service."""
    roll.write("file.yml", "- ansible.builtin.debug: {msg: it is done}\n")
    code, text = roll.run(f"stood still after {stage}", "-e", "maintenance_hosts=host-a", *words)
    assert code == 2 and '"msg": "it is done"' not in text, text
    assert "s passed since it was asked whether to go on with host-a" in text and "give the same command again" in text
    assert _record(roll)["state"] == "stopped"
    assert f"host-a {'active'}" not in roll.steps
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", *words)
    assert code == 0 and '"msg": "it is done"' in text, text


@pytest.mark.full
def test_a_host_that_was_lost_in_its_work_does_not_go_on_when_another_one_fails(roll: Roll) -> None:
    """Both are out. Ansible clears the errors of all hosts at once, also of those that are lost."""
    went_on = roll.folder / "went_on"
    roll.write(
        "wait.yml",
        "- ansible.builtin.command: sleep 0.2\n"
        "- ansible.builtin.include_tasks: wait.yml\n"
        "  when: \"'host-b' in ansible_play_hosts\"\n",
    )
    roll.write(
        "work.yml",
        "- when: inventory_hostname == 'host-b'\n"
        "  block:\n"
        "    - ansible.builtin.command: 'true'\n"
        "      vars: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}\n"
        f"    - ansible.builtin.command: touch {went_on}\n"
        "- ansible.builtin.include_tasks: wait.yml\n"
        "- ansible.builtin.fail: {msg: the new kernel is missing}\n",
    )
    words = ("-e", "maintenance_hosts=all", "-e", "maintenance_max_unavailable=2", "-e", "maintenance_tasks=work.yml")
    code, text = roll.run("", *words)
    assert code != 0, text
    assert "The roll stopped at host-a" in text and "the new kernel is missing" in text
    assert not went_on.exists()
    assert sorted(roll.steps) == sorted([*steps("host-a")[:2], *steps("host-b")[:2]])


@pytest.mark.full
def test_what_a_survey_leaves_empty_is_not_given_to_the_plan(roll: Roll) -> None:
    empty = {"drain_allow_stop": "", "drain_strategy": "", "drain_on_not_migratable": ""}
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", "-e", json.dumps(empty))
    assert code == 0, text
