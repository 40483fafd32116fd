"""What a task of the user tells when it fails. What it hides with no_log is in nothing that we say, record, report or
send."""

from __future__ import annotations

import json

import pytest

from ansible_collections.virtops.maintenance.tests.unit.playbooks.stand_ins import Roll

HIDDEN = "its output is hidden (no_log)"


@pytest.fixture
def fails(roll: Roll) -> str:
    """A task that tells a secret and fails. Ansible quotes the file in which it stands."""
    roll.write("secret.yml", "SECRET\n")
    return f"- name: Log in\n  ansible.builtin.shell: cat {roll.folder}/secret.yml >&2; exit 1\n"


def left(roll: Roll) -> str:
    """By the run: its record, its report, what was sent."""
    files = [path for path in roll.folder.rglob("*") if path.is_file() and path.suffix != ".yml"]
    return " ".join(path.read_text("utf-8", "replace") for path in files)


@pytest.mark.parametrize("how", ["true", pytest.param('"{{ item.hides }}"', marks=pytest.mark.full)])
def test_what_a_task_hides_a_roll_does_not_tell(roll: Roll, fails: str, how: str) -> None:
    """Of a notification that fails too, and of an item of a loop."""
    loop = "  loop: [{hides: true}]\n" if "item" in how else ""
    hidden = f"{fails}{loop}  no_log: {how}\n"
    roll.write("work.yml", hidden)
    write = f"- ansible.builtin.copy: {{content: '{{{{ maintenance_event }}}}', dest: {roll.folder}/sent}}\n"
    roll.write("notify.yml", write + hidden)
    given = {"maintenance_tasks": "work.yml", "maintenance_notify": "notify.yml", "maintenance_report": "report"}
    code, text = roll.run("", "-e", json.dumps({"maintenance_hosts": "host-a", **given}))
    assert code == 2 and "SECRET" not in text + left(roll), text
    assert f'The roll stopped at host-a. In the task "Log in": {HIDDEN}. host-a: ' in text
    assert f'maintenance_notify failed in the task "Log in": {HIDDEN}. The playbook goes on.' in text
    for file in ("steps.roll", "sent", "report/report.json", "report/junit.xml"):
        assert HIDDEN in (roll.folder / file).read_text("utf-8"), file


def test_what_a_hook_hides_a_restore_does_not_tell(roll: Roll, fails: str) -> None:
    """It says at its end why a host is not restored. What is not hidden is told there."""
    for hides, told in (("  no_log: true\n", HIDDEN), ("", "non-zero return code: SECRET")):
        roll.write("hook.yml", fails + hides)
        code, text = roll.run("", "-e", "maintenance_hosts=host-a", playbook="restore", hooks="active")
        assert code == 2 and told in text.partition("host-a is not restored: ")[2], text
        assert ("SECRET" in text) is not bool(hides)


# As ansible.builtin.dnf fails when a package cannot be downloaded.
DNF = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
AnsibleModule({}).fail_json(msg="Failed to download packages", results=["Installed: kernel"], stderr_lines="Errno 256")
"""


def test_a_module_that_returns_results_of_its_own_stops_only_its_host(roll: Roll) -> None:
    """`results` of a loop are those of its items, and those of a module whatever it says."""
    (roll.folder / "library").mkdir()
    roll.write("library/like_dnf.py", DNF)
    roll.write("ansible.cfg", "[defaults]\nlibrary = library\n")
    for name in ("work.yml", "hook.yml"):
        roll.write(name, "- name: Patch\n  like_dnf:\n")
    code, text = roll.run("", "-e", json.dumps({"maintenance_hosts": "host-a", "maintenance_tasks": "work.yml"}))
    assert code == 2
    assert 'The roll stopped at host-a. In the task "Patch": Failed to download packages. host-a: ' in text
    roll.steps_file.unlink()
    code, text = roll.run("", playbook="restore", hooks="active")
    assert code == 2
    assert [one for one in roll.steps if one.endswith("active")] == ["host-a active", "host-b active"]
    for host in ("host-a", "host-b"):
        assert f"{host} is not restored: Failed to download packages" in text
