# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roll itself, with stand-ins for what it calls: where it stops, and what it says then."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROLL = "rolling_maintenance"
# A step that succeeds, unless FAULT names it and the host: then it fails, or the host is gone.
STAND_IN = """
import os
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        step = self._task.args.get("state", "look")
        host = task_vars["inventory_hostname"]
        with open(os.environ["STEPS"], "a") as stream:
            stream.write(f"{host} {step}\\n")
        if os.environ["FAULT"] == f"{host} {step} gone":
            raise AnsibleConnectionFailure("no route to host")
        if os.environ["FAULT"] == f"{host} {step} refused":
            text = "host-c cannot be read. Nothing was changed."
            return {"failed": True, "changed": False, "error": "PeerUnreachable", "msg": text}
        failed = os.environ["FAULT"] == f"{host} {step} failed"
        found = {"findings": [], "blockers": [], "node_blockers": [], "cautions": []}
        # As the modules do: a result that is as wanted has no message.
        return {"failed": failed, **({"msg": "said by the step"} if failed else {}), **found}
"""


class Roll:
    """A collection with the real playbooks and roles, over two hosts that do not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps_file = folder / "steps"
        here = folder / "ansible_collections" / "virtops" / "maintenance"
        for name in ("playbooks", "roles", "plugins/filter", "plugins/lookup"):
            shutil.copytree(ROOT / name, here / name)
        shutil.copy(ROOT / "galaxy.yml", here)
        (here / "plugins" / "action").mkdir()
        for name in ("virt_drain", "virt_preflight"):
            (here / "plugins" / "action" / f"{name}.py").write_text(STAND_IN)
        hosts = {
            name: {
                "ansible_connection": "local",
                "maintenance_peer_uri": f"qemu+tls://{name}/system",
            }
            for name in ("host-a", "host-b")
        }
        (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts}}))

    def run(self, fault: str = "", *words: str, playbook: str = ROLL) -> tuple[int, str]:
        """(exit code, all that was said in one line)."""
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "inventory.json"]
        argv += ["-e", "maintenance_reboot=false", *words, f"virtops.maintenance.{playbook}"]
        if not {"--limit", "-e"} & set(words):
            argv += ["-e", "maintenance_hosts=all"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
        mine = {
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "FAULT": fault,
            "STEPS": str(self.steps_file),
        }
        done = subprocess.run(
            argv, cwd=self.folder, env=clean | mine, capture_output=True, text=True, check=False
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    @property
    def steps(self) -> list[str]:
        return self.steps_file.read_text().splitlines()


def steps(host: str) -> list[str]:
    return [f"{host} {step}" for step in ("look", "drained", "drained", "look", "active")]


@pytest.fixture
def roll(tmp_path: Path) -> Roll:
    return Roll(tmp_path)


def test_host_after_host(roll: Roll) -> None:
    code, text = roll.run()
    assert code == 0, text
    assert roll.steps == steps("host-a") + steps("host-b")


@pytest.mark.parametrize(
    ("step", "before", "how"),
    [
        pytest.param("look", 0, "gone", marks=pytest.mark.full),
        pytest.param("drained", 1, "gone", marks=pytest.mark.full),
        ("drained", 1, "failed"),
        ("active", 4, "gone"),
    ],
)
def test_it_stops_at_the_first_host_that_fails_or_is_gone(
    roll: Roll, step: str, before: int, how: str
) -> None:
    code, text = roll.run(f"host-a {step} {how}")
    assert code != 0
    assert roll.steps == steps("host-a")[: before + 1]
    assert "The roll stopped at host-a" in text
    assert ("no route to host" if how == "gone" else "said by the step") in text
    assert "Done: none. Not done: host-a, host-b." in text
    assert "continue with -e maintenance_hosts=host-a,host-b, or run restore.yml for host-a" in text
    untouched = "host-a: nothing was changed." in text
    assert untouched == (step == "look")


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
    assert text.startswith(', in the task "ansible.builtin.shell": ')
    assert "non-zero return code: repository is unreachable. host-a: " in text


@pytest.mark.full
def test_it_says_what_is_done(roll: Roll) -> None:
    code, text = roll.run("host-b drained gone")
    assert code != 0
    assert roll.steps == steps("host-a") + steps("host-b")[:2]
    assert "Done: host-a. Not done: host-b." in text


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
def test_nothing_is_done_when_nobody_said_which_hosts(
    roll: Roll, playbook: str, given: list[str]
) -> None:
    code, text = roll.run("", *given or ["-e", "ignored=1"], playbook=playbook)
    assert code != 0
    assert "Say which hosts: -e maintenance_hosts=host-a, or --limit host-a" in text
    assert not roll.steps_file.exists()


@pytest.mark.full
@pytest.mark.parametrize("playbook", ["drain", "restore", "plan", ROLL])
def test_a_syntax_check_needs_no_hosts(roll: Roll, playbook: str) -> None:
    code, text = roll.run("", "-e", "ignored=1", "--syntax-check", playbook=playbook)
    assert code == 0, text


@pytest.mark.parametrize(
    "words",
    [
        ["--limit", "host-b"],
        ["-e", '{"maintenance_hosts": ["host-b"]}'],
        ["-e", "maintenance_hosts=host-b"],
    ],
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
def test_how_to_go_on_is_said_before_work_that_loses_the_host(roll: Roll) -> None:
    (roll.folder / "work.yml").write_text("- virtops.maintenance.virt_drain: {state: work}\n")
    words = ["-e", "maintenance_hosts=all", "-e", "maintenance_tasks=work.yml"]
    code, text = roll.run("host-b work gone", *words)
    assert code != 0
    assert roll.steps[-1] == "host-b work"
    text = text.partition("TASK [Run the maintenance tasks]")[2].partition("no route to host")[0]
    assert "host-b is empty. If the work loses it, the roll stops here. Done: host-a." in text
    assert "Not done: host-b. Fix the cause and continue with -e maintenance_hosts=host-b," in text


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
    assert roll.steps == ["host-a look"]
