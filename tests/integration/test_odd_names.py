"""Names that are no names, on real hosts: they go through everything, and nobody evaluates them.

libvirt itself refuses a name with a slash, with a line end, and one that is only blanks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
import yaml
from demo import plays

from ansible_collections.virtops.maintenance.tests.integration.on_host import on
from lab import GuestSpec, Lab, own_lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

MARK = "evil-has-run"
QUOTED = f'-x \'q" $(touch {MARK}) {{{{ lookup("pipe", "touch {MARK}") }}}} {{% raw %}}'
LONG = "--all " + "n" * 188 + " #{{1}}"
UNICODE = "büro 東京 \u202e {{ 7*7 }}"
# What stands on the lab's side of each: its file of ticks has this name.
GUESTS = {
    "quoted": (QUOTED, "00000000-0000-4000-8000-000000000001"),
    "long": (LONG, "00000000-0000-4000-8000-000000000002"),
    "unicode": (UNICODE, "00000000-0000-4000-8000-000000000003"),
}
ALL = {QUOTED, LONG, UNICODE}
REASON = 'it\'s "{{ 7*7 }}" {% if %}\nsecond line'
RECORD = """
store = Store(open_connection("qemu:///system"))
(name, *_older) = sorted((n for n in store.names() if n.startswith("record.")), reverse=True)
result = json.loads(store.read(name))
"""
TELL = {
    "name": "Tell of it",
    "ansible.builtin.copy": {"dest": "{{ told }}", "content": "{{ maintenance_hook | to_json }}", "mode": "0600"},
    "delegate_to": "localhost",
    "vars": {"ansible_become": False},
}


def define(lab: Lab, safe: str) -> None:
    """Under its odd name; with what is safe in the path of its console's log."""
    name, uuid = GUESTS[safe]
    spec = GuestSpec(safe, uuid=uuid)
    lab.define("host-a", spec)
    host = lab.host("host-a")
    host.virsh("undefine", uuid)
    xml = lab.xml(spec).replace(f"<name>{safe}</name>", f"<name>{escape(name)}</name>")
    host.virsh("define", "/dev/stdin", stdin=xml)
    host.virsh("start", uuid)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with own_lab("names", 2) as lab:
        for safe in GUESTS:
            define(lab, safe)
        lab.wait_ticking(list(GUESTS))
        yield lab


def names(lab: Lab, host: str) -> set[str]:
    """As libvirt has them there, running."""
    return set(lab.host(host).virsh("list", "--name").splitlines())


def flow(value: Any) -> str:
    """As YAML, each text of it such that Ansible does not evaluate it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return f"!unsafe {json.dumps(value)}" if isinstance(value, str) else json.dumps(value)


def unsafe(folder: Path, **variables: Any) -> tuple[str, ...]:
    """What an operator writes who has such names."""
    lines = [f"{key}: {flow(value)}" for key, value in variables.items()]
    path = folder / "variables.yml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ("-e", f"@{path}")


def assert_shown(ended: plays.Ended) -> None:
    """Each name as it is; only what turns the direction of writing is written out."""
    for name in (QUOTED, LONG, UNICODE.replace("\u202e", "\\u202e")):
        assert name in ended.text, (name, ended.text)


def nothing_evaluated(lab: Lab, folder: Path) -> None:
    for host in lab.hosts.values():
        assert not host.exec(f"find / -xdev -name {MARK}", check=False).stdout
    for place in (lab.paths.logs, folder):
        assert not list(place.rglob(MARK))
    assert not Path(MARK).exists()


def test_they_are_checked_planned_drained_and_restored(lab: Lab, tmp_path: Path) -> None:
    hook, told = tmp_path / "hook.yml", tmp_path / "told"
    hook.write_text(yaml.safe_dump([TELL]), encoding="utf-8")
    stop = f"name == '{UNICODE}'"
    rules = [
        {"name": UNICODE, "when": stop, "strategy": "None", "allow_stop": True},
        {"name": "long", "when": "starts_with(name, '--all')", "hooks": {"before": str(hook)}},
    ]
    signed = {"maintenance_reason": REASON, "maintenance_requester": QUOTED}
    given = unsafe(tmp_path, **signed, drain_rules=rules)
    plan = tmp_path / "plan.json"
    here: dict[str, Any] = {"maintenance_hosts": "host-a", "told": str(told)}
    planned = plays.run(lab, "plan", {**here, "maintenance_plan_file": str(plan)}, *given)
    assert planned.code == 0, planned.text
    assert_shown(planned)

    checked = plays.run(lab, "drain", here, *given, "--check", "--diff")
    assert checked.code == 0, checked.text
    assert_shown(checked)
    assert "\u202e" not in checked.text  # in no line of the preflight or the diff either
    assert names(lab, "host-a") == ALL

    ended = plays.run(lab, "drain", {**here, "maintenance_plan_file": str(plan)}, *given)
    assert ended.code == 0, ended.text
    assert_shown(ended)
    assert {row["name"] for row in ended.last["vms"]} == ALL
    assert {name: ended.vm(name)["verdict"] for name in ALL} == {QUOTED: "moved", LONG: "moved", UNICODE: "stopped"}
    assert names(lab, "host-b") == {QUOTED, LONG} and names(lab, "host-a") == set()
    assert json.loads(told.read_text(encoding="utf-8"))["name"] == LONG
    record = on(lab, "host-a", RECORD)
    assert (record["reason"], record["requester"]) == (REASON, QUOTED)
    again = plays.run(lab, "drain", here, *given)
    assert again.code == 0 and not again.last["changed"], again.text

    restored = plays.run(lab, "restore", {"maintenance_hosts": "host-a"}, *given)
    assert restored.code == 0, restored.text
    assert names(lab, "host-a") == {UNICODE}
    nothing_evaluated(lab, tmp_path)


READS = """
- hosts: "{{ here }}"
  gather_facts: false
  module_defaults:
    group/virtops.maintenance.libvirt: {node: "{{ here }}", peers: "{{ peers }}"}
  tasks:
    - virtops.maintenance.virt_host_info:
      register: host
    - virtops.maintenance.virt_migration: {name: "{{ moves }}", target: "{{ there }}"}
      register: moved
    - virtops.maintenance.virt_migration_info:
      register: migrations
    - ansible.builtin.copy:
        content: "{{ {'host': host, 'moved': moved, 'migrations': migrations} | to_json }}"
        dest: "{{ told }}"
        mode: "0600"
      delegate_to: localhost
    - ansible.builtin.include_role: {name: virtops.maintenance.preflight}
"""


def test_one_of_them_is_read_moved_by_its_name_and_named_by_the_preflight(lab: Lab, tmp_path: Path) -> None:
    """It leaves the host where the others stay. The role fails for these: nobody may stop them."""
    here, there = sorted(lab.hosts, key=lambda host: LONG not in names(lab, host))
    before = names(lab, here)
    assert {QUOTED, LONG} <= before
    book, told = tmp_path / "reads.yml", tmp_path / "told"
    book.write_text(READS, encoding="utf-8")
    peers = [{"name": there, "uri": lab.host(there).peer_uri, "memory": 6144}]
    given = {"here": here, "there": there, "told": str(told), "peers": peers}
    given |= {"drain_strategy": "None", "preflight_fail_on": "blockers"}
    ended = plays.run(lab, str(book), given, *unsafe(tmp_path, moves=QUOTED))
    assert ended.code != 0 and f"{here} is not ready" in ended.text, ended.text
    said = ended.text.partition("Report the findings")[2]
    assert f"StopNotAllowed VM {LONG}: " in said, said
    read = json.loads(told.read_text(encoding="utf-8"))
    assert {QUOTED, LONG} <= {row["name"] for row in read["host"]["vms"]}
    assert [(row["name"], row["verdict"]) for row in read["moved"]["vms"]] == [(QUOTED, "moved")]
    assert QUOTED in {row["name"] for row in read["migrations"]["migrations"]}
    assert names(lab, here) == before - {QUOTED}
    assert QUOTED in names(lab, there)
    nothing_evaluated(lab, tmp_path)
