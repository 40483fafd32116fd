"""The roll itself, with stand-ins for what it calls: where it stops, and what it says then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.unit.playbooks.stand_ins import ROLL, Roll, steps


def test_host_after_host(roll: Roll) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=all", "-e", "preflight_measure=true")
    assert code == 0, text
    assert roll.steps == steps("host-a") + steps("host-b")
    # What host-b got of host-a goes back with its own, as the plan has it.
    told = [json.loads(line) for line in Path(f"{roll.steps_file}.expects").read_text(encoding="utf-8").splitlines()]
    assert told == [{"host-a": {"host-b": ["vm-host-a"]}}, {"host-b": {"host-a": ["vm-host-a", "vm-host-b"]}}]


@pytest.mark.full
def test_vms_go_back_when_all_hosts_are_done(roll: Roll) -> None:
    """Each by the host where it is. One that cannot is said, and the same command moves it alone."""
    back = ["-e", "maintenance_hosts=all", "-e", "maintenance_move_back=true"]
    code, text = roll.run("u-host-a stays", *back)
    assert code == 2, text
    moves = {"u-host-a from host-b at host-b to host-a", "u-host-b from host-a at host-a to host-b"}
    assert roll.steps[:-2] == steps("host-a") + steps("host-b") and set(roll.steps[-2:]) == moves, text
    assert "all hosts are done; 2 VMs go back to where they were" in text
    assert "some VMs are not back where they were: 1 of host-a. u-host-a is not back on host-a: NoTarget" in text
    done = roll.steps
    code, text = roll.run("", *back)
    assert code == 0, text
    assert roll.steps == [*done, "u-host-a from host-b at host-b to host-a"]
    code, text = roll.run("", "-e", "maintenance_hosts=all", "--check", "-e", "maintenance_move_back=true")
    assert code == 0 and "Then 1 VM goes back to where it was: takes " in text, text


@pytest.mark.parametrize(
    ("step", "before", "how"),
    [
        pytest.param("look", 0, "gone", marks=pytest.mark.full),
        pytest.param("drained", 1, "gone", marks=pytest.mark.full),
        pytest.param("drained", 1, "failed", marks=pytest.mark.full),
        ("active", 3, "gone"),
    ],
)
def test_it_stops_at_the_first_host_that_fails_or_is_gone(roll: Roll, step: str, before: int, how: str) -> None:
    code, text = roll.run(f"host-a {step} {how}")
    assert code != 0
    assert roll.steps == steps("host-a")[: before + 1]
    assert "The roll stopped at host-a" in text
    assert ("no route to host" if how == "gone" else "said by the step") in text
    out = "none" if step == "look" else "host-a"  # one that was not touched takes no place
    assert f"Done: none. Out: {out}. Not begun: host-b." in text
    assert "run the same command again" in text
    untouched = "host-a: nothing was changed." in text
    assert untouched == (step == "look")


def test_a_host_that_keeps_the_record_may_be_off(roll: Roll) -> None:
    """Ansible ends a play for an unreachable host of a task with run_once, even where that is ignored. What is left to
    later jobs of a workflow is of the run, since AWX reads nothing of a host (ansible-core 2.18)."""
    roll.write("ansible.cfg", "[defaults]\nshow_custom_stats = true\n")
    code, text = roll.run("host-a is off", "-e", "maintenance_hosts=host-b")
    assert code == 0, text
    assert roll.steps == steps("host-b")
    assert "host-a, a quorum host, cannot be reached: no route to host" in text
    assert 'RUN: { "maintenance_roll_stats":' in text, text
    for playbook, said in (("status", "host-b done"), ("abort", "there is no roll")):
        code, text = roll.run("host-a is off", "-e", "maintenance_hosts=host-b", playbook=playbook)
        assert (code, said in text) == (0, True), text
        assert 'RUN: { "maintenance_roll_stats":' in text, text


@pytest.mark.parametrize(
    "playbook", [ROLL, *(pytest.param(one, marks=pytest.mark.full) for one in ("status", "abort"))]
)
def test_where_nobody_has_the_record_nothing_succeeds(roll: Roll, playbook: str) -> None:
    code, text = roll.run("all are off", playbook=playbook)
    assert code == 2, text
    assert "No quorum host could be reached" in text
    assert "UNREACHABLE" not in text and "{{ item }}" not in text
    assert roll.steps == []


def test_a_drain_that_is_refused_is_not_said_to_have_moved_vms(roll: Roll) -> None:
    code, text = roll.run("host-a drained refused")
    assert code != 0
    text = text.partition("The roll stopped at host-a")[2]
    assert "Nothing was changed. host-a: the drain reported no change before this error" in text
    assert "VMs may have moved" not in text


def test_the_error_of_a_failed_task_is_in_the_summary(roll: Roll) -> None:
    work = "echo repository is unreachable >&2; exit 3"
    (roll.folder / "work.yml").write_text(f"- ansible.builtin.shell: {work}\n")
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", "-e", "maintenance_tasks=work.yml")
    assert code != 0
    text = text.partition("The roll stopped at host-a")[2]
    assert text.startswith('. In the task "ansible.builtin.shell": ')
    assert "non-zero return code: repository is unreachable. host-a: " in text


def _notifies(roll: Roll, name: str) -> None:
    """A task file with a role whose handler fails until `mended` is there."""
    for part in ("tasks", "handlers"):
        (roll.folder / "agent" / part).mkdir(parents=True)
    roll.write("agent/tasks/main.yml", "- ansible.builtin.command: 'true'\n  notify: restart\n")
    restart = f"test -e {roll.folder}/mended && echo {{{{ inventory_hostname }}}} restart >> {roll.steps_file}"
    roll.write("agent/handlers/main.yml", f"- name: restart\n  ansible.builtin.shell: {restart}\n")
    roll.write(name, f"- ansible.builtin.include_role: {{name: {roll.folder}/agent}}\n")


@pytest.mark.parametrize("where", ["tasks", "checks"])
def test_what_the_users_tasks_notify_is_done_before_the_vms_are_back(roll: Roll, where: str) -> None:
    """Ansible would run a handler at the end of the play. One that fails leaves the host empty."""
    _notifies(roll, "mine.yml")
    words = ("-e", "maintenance_hosts=host-a", "-e", f"maintenance_{where}=mine.yml")
    code, text = roll.run("", *words)
    assert code != 0
    assert "host-a active" not in roll.steps
    assert "host-a: it is empty and stays cordoned" in text
    roll.write("mended", "")
    code, text = roll.run("", *words)
    assert code == 0, text
    assert roll.steps.index("host-a restart") < roll.steps.index("host-a active")


@pytest.mark.parametrize("step", ["drained", "active"])
def test_what_a_hook_notifies_is_done_before_it_is_answered(roll: Roll, step: str) -> None:
    _notifies(roll, "hook.yml")
    roll.write("mended", "")
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", hooks=step)
    assert code == 0, text
    at = roll.steps.index("host-a restart")
    assert roll.steps[at - 1] == f"host-a {step}" and f"host-a {step}" in roll.steps[at:]


@pytest.mark.full
def test_it_says_what_is_done(roll: Roll) -> None:
    code, text = roll.run("host-b drained gone")
    assert code != 0
    assert roll.steps == steps("host-a") + steps("host-b")[:2]
    assert "Done: host-a. Out: host-b. Not begun: none." in text


@pytest.mark.full
@pytest.mark.parametrize("playbook", ["drain", "restore", ROLL])
def test_a_pattern_that_matches_no_host_is_an_error(roll: Roll, playbook: str) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=host-aa", playbook=playbook)
    assert code != 0
    assert "No host of the inventory matches maintenance_hosts: host-aa" in text
    assert not roll.steps_file.exists()


@pytest.mark.full
def test_a_pattern_says_which_hosts(roll: Roll) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=all:!host-a")
    assert code == 0, text
    assert roll.steps == steps("host-b")


@pytest.mark.full
@pytest.mark.parametrize("given", [[], ["-e", "maintenance_hosts="]])
@pytest.mark.parametrize("playbook", ["drain", "restore", ROLL])
def test_nothing_is_done_when_nobody_said_which_hosts(roll: Roll, playbook: str, given: list[str]) -> None:
    code, text = roll.run("", *given or ["-e", "ignored=1"], playbook=playbook)
    assert code != 0
    assert "Name the hosts: -e maintenance_hosts=host-a, or --limit host-a" in text
    assert not roll.steps_file.exists()


@pytest.mark.full
@pytest.mark.parametrize(
    "words", [["--limit", "host-b"], ["-e", '{"maintenance_hosts": ["host-b"]}'], ["-e", "maintenance_hosts=host-b"]]
)
def test_hosts_are_named_by_a_limit_a_list_or_a_pattern(roll: Roll, words: list[str]) -> None:
    code, text = roll.run("", *words)
    assert code == 0, text
    assert roll.steps == steps("host-b")


@pytest.mark.full
def test_hosts_are_taken_in_the_order_given(roll: Roll) -> None:
    assert roll.run("", "-e", "maintenance_hosts=host-b,host-a")[0] == 0
    assert roll.steps == steps("host-b") + steps("host-a")


@pytest.mark.full
def test_a_task_file_that_is_not_there_is_told_before_anything_moves(roll: Roll) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=all", "-e", "maintenance_tasks=work.yml")
    assert code != 0
    assert f"there is no file {roll.folder}/work.yml on the controller" in text
    assert not roll.steps_file.exists()


@pytest.mark.full
def test_a_relative_task_file_is_looked_up_where_the_run_was_started(roll: Roll) -> None:
    (roll.folder / "work.yml").write_text('- ansible.builtin.debug: {msg: "the work is done"}\n')
    words = ["-e", "maintenance_hosts=host-a", "-e", "maintenance_tasks=work.yml"]
    code, text = roll.run("", *words)
    assert code == 0, text
    assert "the work is done" in text


@pytest.mark.full
def test_work_that_loses_the_host_stops_the_roll(roll: Roll) -> None:
    (roll.folder / "work.yml").write_text("- virtops.maintenance.virt_drain: {state: work}\n")
    words = ["-e", "maintenance_hosts=all", "-e", "maintenance_tasks=work.yml"]
    code, text = roll.run("host-a work gone", *words)
    assert code != 0
    assert roll.steps == [*steps("host-a")[:2], "host-a work"]
    assert "Done: none. Out: host-a. Not begun: host-b." in text
    assert "host-a has failed while at work: It was left unfinished" in text


def test_the_same_command_carries_on_where_the_roll_stopped(roll: Roll) -> None:
    """What is done is not touched again; work that had ended is not done again."""
    (roll.folder / "work.yml").write_text("- virtops.maintenance.virt_drain: {state: work}\n")
    words = ["-e", "maintenance_hosts=all", "-e", "maintenance_tasks=work.yml"]
    assert roll.run("host-b active failed", *words)[0] != 0
    whole = ["look", "drained", "work", "drained", "look", "active"]
    assert roll.steps == [f"{host} {step}" for host in ("host-a", "host-b") for step in whole]

    roll.steps_file.unlink()
    code, text = roll.run("", *words)
    assert code == 0, text
    assert roll.steps == ["host-b look", "host-b active"]


@pytest.mark.full
def test_a_failure_is_recorded_by_the_next_host_that_can(roll: Roll) -> None:
    """host-b is a quorum host, but cannot write the record; host-c can."""
    inventory = roll.folder / "inventory.json"
    fleet = json.loads(inventory.read_text())
    hosts = fleet["all"]["hosts"]
    hosts["host-c"] = hosts["host-b"] | {"maintenance_peer_uri": "qemu+tls://host-c/system"}
    inventory.write_text(json.dumps(fleet))
    roll.write("work.yml", "- ansible.builtin.command: 'false'\n")
    words = ["-e", "maintenance_tasks=work.yml", "-e", "maintenance_hosts=host-a,host-b"]
    code, text = roll.run("failed not by host-b", *words)
    assert code != 0
    assert "Done: none. Out: host-a. Not begun: host-b. host-a has failed while at work: In the task" in text


@pytest.mark.full
def test_check_mode_shows_the_plan_and_begins_no_roll(roll: Roll) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=all", "--check")
    assert code == 0, text
    assert "Step 1: host-a" in text and "vm-host-b migrate host-b host-a" in text
    assert "2 VMs, by plan" in text
    assert roll.steps == []
    assert not (roll.folder / "steps.roll").exists()


def test_a_roll_that_cannot_be_done_is_refused_before_its_first_host(roll: Roll) -> None:
    """And the next command is a new roll."""
    (roll.folder / "file").write_text("")
    code, text = roll.run("", "-e", f"maintenance_hosts=all maintenance_report={roll.folder / 'file' / 'report'}")
    assert code != 0
    assert "- maintenance_report cannot be written: " in text.partition("The roll cannot be done and did not start")[2]
    assert roll.steps == []
    local = "host-a is to be rebooted, but Ansible cannot reach it: its connection is local"
    roll.vm_mib = 3000
    for fault, why, words in (
        ("", "has no target once host-", ()),
        ("host-b before failed", "host-b is not ready: said by", ()),
        ("", local, ("-e", "maintenance_hosts=host-a", "-e", "maintenance_reboot=always")),
    ):
        code, text = roll.run(fault, *words)
        assert code != 0
        assert why in text.partition("The roll cannot be done and did not start")[2]
        assert roll.steps == []
        assert json.loads((roll.folder / "steps.roll").read_text())["state"] == "refused"


@pytest.mark.full
def test_what_does_not_fit_can_be_tried_all_the_same(roll: Roll) -> None:
    roll.vm_mib = 3000
    code, text = roll.run("", "-e", "maintenance_hosts=all", "-e", "plan_must_fit=false")
    assert code == 0, text
    assert roll.steps == steps("host-a") + steps("host-b")


@pytest.mark.full
def test_another_command_does_not_carry_it_on(roll: Roll) -> None:
    assert roll.run("host-a active failed")[0] != 0
    code, text = roll.run("", "-e", "maintenance_hosts=host-b")
    assert code != 0
    assert "is not finished" in text
    assert "its hosts are host-a, host-b, not host-b" in text
    assert "host-b look" not in roll.steps
    words = ["-e", "maintenance_take_over=true", "-e", "maintenance_hosts=host-b"]
    code, text = roll.run("", *words)
    assert code == 0, text
    assert roll.steps[4:] == ["host-a look", "host-a active", *steps("host-b")]


@pytest.mark.full
@pytest.mark.parametrize("how", ["failed", "gone"])
def test_a_host_that_cannot_be_restored_does_not_keep_the_others(roll: Roll, how: str) -> None:
    code, text = roll.run(f"host-a active {how}", playbook="restore")
    assert code != 0
    assert roll.steps == ["host-a active", "host-b active"]
    assert "host-a is not restored" in text
    assert "host-b is not restored" not in text


@pytest.mark.full
def test_a_plan_to_compare_with_that_is_not_there_is_told_before_anything_moves(roll: Roll) -> None:
    words = ["-e", "maintenance_hosts=host-a", "-e", "maintenance_plan_file=/none/plan.json"]
    code, text = roll.run("", *words, playbook="drain")
    assert code != 0
    assert "there is no file /none/plan.json on the controller. Nothing was done." in text
    roll.write("no.json", "[]")
    code, text = roll.run("", *words[:-1], "maintenance_plan_file=no.json", playbook="drain")
    assert code != 0 and f"there is no plan in the file {roll.folder}/no.json on the controller." in text, text
    assert roll.steps == ["host-a look"] * 2


def _plan(roll: Roll, *hosts: str) -> None:
    steps = [{"hosts": [host], "duration": 1, "moves": []} for host in hosts]
    roll.write("plan.json", json.dumps({"steps": steps}))


@pytest.mark.parametrize("path", ["plan.json", pytest.param("~/plan.json", marks=pytest.mark.full)])
def test_a_drain_reads_the_plan_where_the_playbook_plan_wrote_it(
    roll: Roll, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not where Ansible looks for the files of a playbook, which it does after the host was emptied."""
    monkeypatch.setenv("HOME", str(roll.folder))
    _plan(roll, "host-a", "host-b")
    words = ("-e", "maintenance_hosts=host-a,host-b", "-e", f"maintenance_plan_file={path}")
    code, text = roll.run("", *words, playbook="drain")
    assert code == 0 and "vm-host-b: moved to host-a" in text, text
    assert roll.steps == ["host-a look", "host-a drained", "host-b look", "host-b drained"]


@pytest.mark.parametrize(
    ("given", "playbook"),
    [
        ("maintenance_reboot='true '", ROLL),
        pytest.param("maintenance_reboots=false", ROLL, marks=pytest.mark.full),
        pytest.param("drain_allow_stopp=true", "drain", marks=pytest.mark.full),
        pytest.param("maintenance_reasons=x", "restore", marks=pytest.mark.full),
        pytest.param("maintenance_link_mib_s=0", "plan", marks=pytest.mark.full),
    ],
)
def test_a_wrong_variable_is_told_before_anything_is_done(roll: Roll, given: str, playbook: str) -> None:
    code, text = roll.run("", "-e", "maintenance_hosts=all", "-e", given, playbook=playbook)
    assert code != 0
    assert f"{given.partition('=')[0]} is " in text
    assert "Nothing was done." in text
    assert not roll.steps_file.exists()


@pytest.mark.parametrize(
    "playbook",
    ["plan", *(pytest.param(one, marks=pytest.mark.full) for one in (ROLL, "preflight", "drain", "abort", "status"))],
)
def test_a_variable_without_a_value_is_told_before_it_is_read(roll: Roll, playbook: str) -> None:
    given = {"maintenance_hosts": "all", "maintenance_fleet": None}
    code, text = roll.run("", "-e", json.dumps(given), playbook=playbook)
    assert code != 0 and "maintenance_fleet is empty: give it a value, [] for none, or leave it out." in text, text
    assert "Nothing was done." in text and not roll.steps_file.exists()


@pytest.mark.full
def test_rules_of_a_role_and_own_variables_are_no_wrong_ones(roll: Roll) -> None:
    given = {
        "drain_rules": "{{ rules_host_devices }}",
        "maintenance_window": "Sunday",
        "maintenance_own_variables": ["maintenance_window"],
    }
    code, text = roll.run("", "-e", json.dumps({"maintenance_hosts": "all"} | given))
    assert code == 0, text


@pytest.mark.parametrize("playbook", ["drain", pytest.param(ROLL, marks=pytest.mark.full)])
def test_rules_that_name_what_is_not_there_are_an_error(roll: Roll, playbook: str) -> None:
    """They were none, and each VM was treated without them."""
    given = {"maintenance_hosts": "host-a", "maintenance_rules": "{{ rules_host_device + [] }}"}
    code, text = roll.run("", "-e", json.dumps(given), playbook=playbook)
    assert code != 0 and "'rules_host_device' is undefined" in text, text
    assert roll.steps == []


@pytest.mark.parametrize(
    ("hosts", "limit", "told"),
    [
        ("host-a, hots-b", "", "maintenance_hosts: hots-b; did you mean host-b?"),
        ("all,!hots-b", "", "maintenance_hosts: hots-b; did you mean host-b?"),
        ("all", "host-a,hots-b", "--limit hots-b; did you mean host-b?"),
        ("all:!spare:!kvn*", "host-a", ""),
        pytest.param("host-a:hots-b", "", "maintenance_hosts: hots-b;", marks=pytest.mark.full),
        pytest.param("host-a,kvn*", "", "maintenance_hosts: kvn*.", marks=pytest.mark.full),
    ],
)
def test_one_name_among_others_that_the_inventory_has_not_is_an_error(
    roll: Roll, hosts: str, limit: str, told: str
) -> None:
    """Ansible does the others with a warning, or the one that was to be left out. To leave out an empty group, or what
    a wildcard does not find, is none."""
    roll.write("groups.ini", "[spare]\n")
    words = ["-i", "groups.ini", "-e", json.dumps({"maintenance_hosts": hosts}), *(["--limit", limit] if limit else [])]
    code, text = roll.run("", *words, "--list-hosts", playbook="drain")
    assert (f"No host of the inventory matches {told}" in text) if told else (code == 0), text
    assert bool(code) == bool(told), text


@pytest.mark.full
@pytest.mark.parametrize(("status", "goes_on"), [("1", True), ("3", False)])
def test_a_host_is_rebooted_if_it_says_that_it_needs_it(roll: Roll, status: str, goes_on: bool) -> None:
    """Of a local connection the reboot is refused, by Ansible: so one sees that it was tried."""
    roll.write("needrestart", f"#!/bin/sh\necho 'NEEDRESTART-KSTA: {status}'\n")
    (roll.folder / "needrestart").chmod(0o755)
    code, text = roll.run("", "-e", "maintenance_hosts=host-a", "-e", "maintenance_reboot=auto")
    assert (code == 0) is goes_on, text
    assert ("host-a is not rebooted because it does not need it: needrestart says no" in text) is goes_on
    assert ("host-a needs a reboot: needrestart says yes, for the kernel" in text) is not goes_on
    assert ("would reboot the control node" in text) is not goes_on


LOOKED, PROVEN = "host-a recover by host-b, no proof", "host-a recover by host-b, fence_bed"


@pytest.mark.parametrize(
    ("fault", "on_dead", "calls", "said"),
    [
        ("", "recover", [LOOKED, PROVEN], "Its recovery (maintenance_on_dead): its VMs run elsewhere."),
        pytest.param("", "tell", [], "would reboot the control node.", marks=pytest.mark.full),
        pytest.param(
            "host-a lives",
            "recover",
            [LOOKED],
            "control node. Its recovery (maintenance_on_dead): it lives.",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "host-a stays on",
            "recover",
            [LOOKED],
            "Its recovery is incomplete (maintenance_on_dead): its status is still on.",
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_host_that_does_not_come_back_is_recovered_where_the_user_says_so(
    roll: Roll, fault: str, on_dead: str, calls: list[str], said: str
) -> None:
    """Of a local connection the reboot is refused, by Ansible. The record of the roll has it, too."""
    roll.write("needrestart", "#!/bin/sh\necho 'NEEDRESTART-KSTA: 3'\n")
    (roll.folder / "needrestart").chmod(0o755)
    given = {"maintenance_on_dead": on_dead, "maintenance_fence": {"agent": "fence_bed"}}
    words = ("-e", "maintenance_hosts=host-a", "-e", "maintenance_reboot=auto", "-e", json.dumps(given))
    code, text = roll.run(fault, *words)
    assert code == 2, text
    assert roll.steps == [*steps("host-a")[:2], *calls], text
    summary = text.partition("The roll stopped at host-a")[2].partition("host-a: ")[0]
    assert "would reboot the control node" in summary and said in summary, text
    assert said.rstrip(".") in Path(f"{roll.steps_file}.roll").read_text(encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "calls", "event"),
    [
        ("", [LOOKED, PROVEN], ("recovered", "dead")),
        ("host-a stays on", [LOOKED], ("failed", "its status is still on.")),
        ("localhost has no agent", [LOOKED, PROVEN], ("recovered", "dead")),  # the first peer has it
        ("no agent", [LOOKED], ("failed", "host-b has no fence agent.")),
    ],
)
def test_recover_looks_fences_starts_and_leaves_what_came_of_it(
    roll: Roll, fault: str, calls: list[str], event: tuple[str, str]
) -> None:
    """Where the agent failed its words are in the notification and in the report."""
    note = {"content": "{{ maintenance_event | to_json }}", "dest": f"{roll.folder}/told"}
    roll.write("notify.yml", json.dumps([{"ansible.builtin.copy": note}]))
    given = {"maintenance_fence": {"agent": "fence_bed"}, "maintenance_fence_tasks": "not-there.yml"}
    given |= {"maintenance_notify": "notify.yml", "maintenance_report": "not/there"}
    words = ("-e", "maintenance_hosts=host-a", "-e", json.dumps(given))
    code, text = roll.run(fault, *words, playbook="recover")
    failed = event[0] == "failed"
    assert bool(code) == failed and roll.steps == calls, text
    told = json.loads((roll.folder / "told").read_text())
    kept = json.loads((roll.folder / "not" / "there" / "recovery-host-a.json").read_text())
    assert (told["event"], told["message"]) == event and kept["event"] == told, text
    assert kept["phase"] == ("Unproven" if failed else "Recovered")


@pytest.mark.parametrize("policy", [True, pytest.param(False, marks=pytest.mark.full)])
def test_a_host_that_is_back_is_given_back_what_the_policy_says(roll: Roll, policy: bool) -> None:
    given = {
        "drain_migration": {"tls": True},
        "drain_limits": {"outbound": 1},
        "drain_rules": "{{ rules_host_devices }}",
        "awx_job_id": "4711",
        "awx_user_name": "ann",
    }
    words = ("-e", "maintenance_hosts=host-a", *(("-e", "maintenance_move_back=true") if policy else ()))
    code, text = roll.run("host-a is back", *words, "-e", json.dumps(given), playbook="recover")
    assert code == 0, text
    assert roll.steps == [LOOKED, *(["web from host-b at host-b to host-a"] if policy else [])]
    assert all((one["run_id"], one["requester"]) == ("4711", "ann") for one in roll.asked)
    for move in roll.asked[1:]:  # by the options of a drain, as a roll moves it back
        assert (move["migration"], move["limits"]) == ({"tls": True}, {"outbound": 1})
        assert move["rules"] and [peer["name"] for peer in move["peers"]] == ["host-a"]


@pytest.mark.parametrize("playbook", ["recover", pytest.param("protect", marks=pytest.mark.full)])
def test_dead_hosts_have_the_rules_of_a_drain(roll: Roll, playbook: str) -> None:
    """Where they build on a ready-made one, too: none was used, and what a cluster manager starts was started."""
    external = {"name": "pacemaker", "when": "name == 'db'", "strategy": "External"}
    given: dict[str, Any] = {
        "drain_rules": f"{{{{ rules_host_devices + [{external}] }}}}",
        "drain_strategy": "External",
        "maintenance_reserve": 16,
        "maintenance_labels": {"disk": "ssd"},
        "maintenance_taints": ["a=b:NoSchedule"],
    }
    words = ("-e", "maintenance_hosts=host-a", "-e", json.dumps(given))
    code, text = roll.run("", *words, playbook=playbook)
    assert code == (2 if playbook == "recover" else 0), text
    assert [rule["name"] for rule in roll.asked[0]["rules"]][-1] == "pacemaker", text
    if playbook == "recover":
        assert roll.asked[0]["strategy"] == "External"
        # The peer that judges takes VMs, too.
        assert (roll.asked[0]["reserve"], roll.asked[0]["labels"]) == (16, {"disk": "ssd"})
        assert roll.asked[0]["taints"] == ["a=b:NoSchedule"]


@pytest.mark.parametrize("tasks", ["off.yml", pytest.param("", marks=pytest.mark.full)])
def test_an_agent_and_a_report_that_are_empty_are_none(roll: Roll, tasks: str) -> None:
    """In the inventory that takes away a group's agent of one host."""
    roll.write("off.yml", "- ansible.builtin.set_fact: {maintenance_off: the PDU says off}\n")
    given = {"maintenance_fence": {}, "maintenance_fence_tasks": tasks, "maintenance_report": ""}
    words = ("-e", "maintenance_hosts=host-a", "-e", json.dumps(given))
    code, text = roll.run("", *words, playbook="recover")
    assert code == (0 if tasks else 2), text
    assert roll.steps == [LOOKED, *(["host-a recover by host-b, the PDU says off"] if tasks else [])]


@pytest.mark.parametrize(
    ("given", "uri", "said"),
    [
        (("-e", "maintenance_hosts=host-a,host-b"), True, ["host-b"]),
        pytest.param(("--limit", "host-b"), True, ["host-b"], marks=pytest.mark.full),
        pytest.param(("-e", "ignored=1"), True, [], marks=pytest.mark.full),
        pytest.param(("-e", "ignored=1"), False, ["host-a", "host-b"], marks=pytest.mark.full),
    ],
)
def test_a_host_that_is_in_no_fleet_is_not_protected(
    roll: Roll, given: tuple[str, ...], uri: bool, said: list[str]
) -> None:
    """The exit code was 0, and nothing was kept."""
    inventory = json.loads((roll.folder / "inventory.json").read_text())
    for name in ("host-b",) if uri else ("host-a", "host-b"):
        inventory["all"]["hosts"][name].pop("maintenance_peer_uri")
    roll.write("inventory.json", json.dumps(inventory))
    code, text = roll.run("", *given, playbook="protect")
    assert code == (2 if said else 0), text
    assert [one for one in ("host-a", "host-b") if f"{one} is not protected, since it is in no libvirt" in text] == said


@pytest.mark.full
def test_one_that_cannot_be_asked_whether_it_needs_a_reboot_is_recorded_as_lost(roll: Roll) -> None:
    inventory = json.loads((roll.folder / "inventory.json").read_text())
    inventory["all"]["hosts"]["host-a"] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    roll.write("inventory.json", json.dumps(inventory))
    words = ("-e", "maintenance_hosts=host-a", "-e", "maintenance_reboot=auto", "-e", "maintenance_reboot_timeout=1")
    code, text = roll.run("", *words)
    assert code != 0
    assert roll.steps == ["host-a look", "host-a drained"]
    assert "The roll stopped at host-a" in text and "host-a cannot be reached: it does not answer" in text
    assert "Out: host-a. Not begun: none." in text


@pytest.mark.full
def test_a_roll_pauses_well_and_the_same_command_goes_on(roll: Roll) -> None:
    words = ("-e", "maintenance_hosts=all", "-e", "maintenance_pause_after=host-a", "-e", "maintenance_soak=1s")
    code, text = roll.run("", *words)
    assert code == 0, text
    assert roll.steps == steps("host-a")
    assert "is paused: the roll pauses after host-a (maintenance_pause_after). Done: host-a. Left: host-b." in text
    code, text = roll.run("", *words)
    assert code == 0, text
    assert roll.steps == steps("host-a") + steps("host-b")


@pytest.mark.full
def test_the_order_is_that_of_the_plan(roll: Roll, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(roll.folder))
    _plan(roll, "host-b", "host-a")
    roll.write("work.yml", "- ansible.builtin.debug: {msg: it is done}\n")
    given = {"plan_file": "~/plan.json", "report": "~/report", "textfile": "$HOME/roll.prom", "tasks": "~/work.yml"}
    given |= {"hosts": "host-a,host-b"}
    code, text = roll.run("", "-e", json.dumps({f"maintenance_{name}": path for name, path in given.items()}))
    began = [step for step in roll.steps if step.endswith("drained")]
    assert list(dict.fromkeys(began)) == ["host-b drained", "host-a drained"], text
    assert code == 0 and "could not be written" not in text and '"msg": "it is done"' in text, text
    assert (roll.folder / "report" / "report.json").exists() and (roll.folder / "roll.prom").exists()


@pytest.mark.full
def test_a_window_that_is_too_short_for_a_host_begins_none(roll: Roll) -> None:
    """The stand-in's clock stands still in January, so the window is months long."""
    roll.write("plan.json", json.dumps({"steps": [{"hosts": ["host-a", "host-b"], "duration": 10**9, "moves": []}]}))
    words = ("-e", "maintenance_hosts=all", "-e", "maintenance_plan_file=plan.json", "-e", "maintenance_until=06:00")
    code, text = roll.run("", *words)
    assert code == 0, text
    assert roll.steps == []
    assert "host-a was not started: host-a takes about 16666667 min, and the window ends at" in text
    assert "Done: none. Left: host-a, host-b." in text


@pytest.mark.full
def test_your_own_checks_come_before_the_vms_do(roll: Roll) -> None:
    """And one that fails leaves the host empty; the same command begins with the gate again."""
    roll.write("checks.yml", f"- ansible.builtin.command: test -e {roll.folder}/mended\n")
    words = ("-e", "maintenance_hosts=host-a", "-e", "maintenance_checks=checks.yml")
    code, text = roll.run("", *words)
    assert code != 0
    assert roll.steps == ["host-a look", "host-a drained", "host-a look"]
    assert "host-a: it is empty and stays cordoned" in text
    roll.write("mended", "")
    code, text = roll.run("", *words)
    assert code == 0, text
    assert roll.steps[3:] == ["host-a look", "host-a active"]
