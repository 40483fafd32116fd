"""The page that is read at 3 a.m.: its commands, its tables and its examples are what the code takes and says.

The commands are run word by word on a lab by `make test-fencing`.
"""

from __future__ import annotations

import re
import shlex

import pytest
import readme
import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import CONTROLLER, View, judge
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.nodes import (
    NodeSeen,
    Watched,
    judge_node,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import confirmed, said_by_tasks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import guard
from ansible_collections.virtops.maintenance.plugins.plugin_utils._recovery import failure
from ansible_collections.virtops.maintenance.plugins.plugin_utils._variable_checks import faults

PAGE = "docs/dead-host.md"
TEXT = (readme.ROOT / PAGE).read_text(encoding="utf-8")
AT = "2026-11-27T14:03:00Z"


def given(command: str) -> tuple[str, dict[str, str]]:
    """(the playbook, the variables)"""
    words = shlex.split(command)
    assert words[0] == "ansible-playbook" and words[2::2] == ["-e"] * (len(words[2:]) // 2)
    return words[1], dict(word.split("=", 1) for word in words[3::2])


@pytest.mark.parametrize("command", readme.typed(PAGE))
def test_each_command_names_a_playbook_and_variables_that_there_are(command: str) -> None:
    playbook, variables = given(command)
    assert (readme.ROOT / "playbooks" / f"{playbook.removeprefix('virtops.maintenance.')}.yml").is_file()
    assert not faults(variables, variables.__getitem__, ["host-a"])


def test_the_command_that_confirms_is_the_one_that_a_run_prints() -> None:
    (command,) = [one for one in readme.typed(PAGE) if "confirm_off" in one]
    _playbook, variables = given(command)
    found = {"host": "host-a", "phase": "Unproven", "may_be_fenced": True, "message": "m", "found_dead": AT}
    assert failure(found).endswith(f"-e maintenance_confirm_off={variables['maintenance_confirm_off']}")
    assert confirmed(variables["maintenance_confirm_off"], variables["maintenance_hosts"], AT, "ann", AT).by == "ann"


def test_the_table_has_each_way_in_which_a_host_looks() -> None:
    def seen(own: bool = False, answers: bool = False, libvirt: bool = False, guests: tuple[str, ...] = ()) -> str:
        peers = [View(name, AT, answers, libvirt, guests) for name in ("host-b", "host-c")]
        return judge("host-a", [View(CONTROLLER, AT, own), *peers], 2).text

    said = [seen(True, True, True), seen(False, True, True), seen(False, True), seen(guests=("web0",)), seen()]
    said.append(judge("host-a", [View(CONTROLLER, AT)], 2).text)
    watched = Watched(100, 100)
    for ready, lease, beat in (("False", 0, 0), ("Unknown", 500, 0), ("Unknown", 100, 500), ("Unknown", 100, 100)):
        said.append(judge_node(NodeSeen("n1", ready, 200.0, AT, beat, 900.0, "boot", lease), watched).text)
    said.append(judge_node(NodeSeen("n1", "Unknown", 200.0, AT, 100, 900.0, "boot", 500)).text)
    rows = re.findall(r"^ *\| `([^`]+)` \|", TEXT, re.MULTILINE)
    assert len(rows) == len(said) and all(row in text for row, text in zip(rows, said, strict=True))
    assert "could not look: ..." in TEXT and "could not look: " in str(View("host-b", AT, looked=False))


def test_its_examples_are_taken() -> None:
    agent, tasks = (
        yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    )
    assert not faults(agent, agent.__getitem__, ["host-a"])
    assert [set(task) for task in tasks] == [{"name", "ansible.builtin.set_fact"}]
    said = tasks[-1]["ansible.builtin.set_fact"]["maintenance_off"]
    assert said_by_tasks({"tasks": "off.yml", "said": said, "before": ""}, "host-a", AT).how == said


def test_what_it_says_of_the_guard_is_so() -> None:
    sentence = re.findall(r"^```text\n(.*?)\n```$", TEXT, re.DOTALL | re.MULTILINE)[0]
    template = sentence.replace("web0", "%s").replace("host-c", "%s").replace("host-a", "%s")
    assert template in re.sub(r'"\s+"', "", guard._SCRIPT)
    assert f"`{guard.HOOK}`" in TEXT
    assert f"{re.findall('SECONDS = ([0-9]+)', guard._SCRIPT)[0]} s, the start is refused" in " ".join(TEXT.split())
    assert all(code in Reason.__members__ for code in re.findall(r"\(`([A-Z]\w+)`\)", TEXT))
