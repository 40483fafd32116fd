"""What a VM is called is no template: not in a file, not in a result, and not behind our filters.

Ansible itself runs: what leaves a filter goes into a fact, from there into a message and a module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.filter.eviction_strategy import eviction_strategy
from ansible_collections.virtops.maintenance.plugins.filter.peers import peers
from ansible_collections.virtops.maintenance.plugins.filter.plan_actual import plan_actual
from ansible_collections.virtops.maintenance.plugins.filter.plan_cluster import plan_cluster
from ansible_collections.virtops.maintenance.plugins.filter.plan_fleet import plan_fleet

ROOT = Path(__file__).resolve().parents[4]
ROLE = ROOT / "roles" / "drain" / "tasks" / "after.yml"
MARK = "evil-has-run"
ODD = (f"{{{{ lookup('pipe', 'touch {MARK}') }}}}", "{{ 7*7 }} {% if %} {# #}", "-x 'q\" $(id) büro 東京", "n" * 200)
ROWS = [{"uuid": f"u{number}", "name": name, "host": "a"} for number, name in enumerate(ODD)]
FORESEEN = {"way": "migrate", "target": "b", "duration": 1.0, "pause_ms": 9}
TOOK = {"duration": 1.0, "outage_ms": 9}
LABELS = {name: name for name in ODD}
FILES: dict[str, Any] = {
    "fleet": [{"host": {"name": "a", "memory_mib": 100, "labels": LABELS}, "vms": ROWS}],
    "cluster": {
        "hosts": [{"name": "a", "labels": LABELS}],
        "vms": ROWS,
        "budgets": [{"name": f"shop/{name}"} for name in ODD],
        "limits": {"cluster": 5, "outbound": 2, "inbound": 9},
        "migration": {},
    },
    "plan": {
        "steps": [
            {
                "hosts": ["a"],
                "moves": [{"vm": row["uuid"], "name": row["name"], "source": "a", **FORESEEN} for row in ROWS],
            }
        ]
    },
    "drain_result": {"node": "a", "vms": [{**row, "verdict": "moved", "at": "b", **TOOK} for row in ROWS]},
    "documents": {"documents": [{"name": row["name"], "uuid": row["uuid"]} for row in ROWS]},
    "peer": {"maintenance_peer_uri": "qemu+tls://b/system", "maintenance_labels": LABELS},
    "rules": [{"name": ODD[0], "when": f"name == '{ODD[1]}'", "strategy": "None"}],
}
COLLECTION = "virtops.maintenance"
ASKED = {
    "fleet": f"{{{{ fleet | {COLLECTION}.plan_fleet({{}}) }}}}",
    "cluster": f"{{{{ cluster | {COLLECTION}.plan_cluster({{}}) }}}}",
    "actual": f"{{{{ drain_result | {COLLECTION}.plan_actual(plan) }}}}",
    "peers": f"{{{{ ['a', 'b'] | {COLLECTION}.peers({{'b': peer}}, 'a') }}}}",
    "strategies": f"{{{{ documents | {COLLECTION}.eviction_strategy(rules) }}}}",
}


def expected() -> dict[str, Any]:
    """What the filters make of the same values without Ansible."""
    return {
        "fleet": plan_fleet(FILES["fleet"], {}),
        "cluster": plan_cluster(FILES["cluster"], {}),
        "actual": plan_actual(FILES["drain_result"], FILES["plan"]),
        "peers": peers(["a", "b"], {"b": FILES["peer"]}, "a"),
        "strategies": eviction_strategy(FILES["documents"], FILES["rules"]),
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a play that asks every filter, and what it printed."""
    folder = tmp_path_factory.mktemp("play")
    for name, value in FILES.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    read = {name: f"{{{{ lookup('file', '{folder}/{name}.json') | from_json }}}}" for name in FILES}
    copies = [
        {
            "ansible.builtin.copy": {
                "content": f"{{{{ asked_{name} | to_json }}}}",
                "dest": f"{folder}/{name}.out",
                "mode": "0600",
            }
        }
        for name in ASKED
    ]
    facts = {f"asked_{name}": asked for name, asked in ASKED.items()}
    # The role's own tasks, as they are.
    role = [
        task
        for task in yaml.safe_load(ROLE.read_text(encoding="utf-8"))
        if task["name"].startswith(("Compare the result", "Report prediction"))
    ]
    assert len(role) == 2
    own = yaml.safe_load((ROLE.parents[1] / "vars" / "main.yml").read_text(encoding="utf-8"))
    variables = {**read, "drain_plan_file": f"{folder}/plan.json"}
    variables |= {name: value for name, value in own.items() if name.startswith("__drain_plan")}
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": variables,
        "tasks": [{"ansible.builtin.set_fact": facts}, *copies, *role],
    }
    (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    found = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "play.yml"],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_HOME": str(folder),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return folder, found.stdout


@pytest.mark.parametrize("name", ASKED)
def test_what_goes_into_a_filter_comes_out_as_it_was(ran: tuple[Path, str], name: str) -> None:
    folder, _said = ran
    assert json.loads((folder / f"{name}.out").read_text(encoding="utf-8")) == json.loads(json.dumps(expected()[name]))


def test_nothing_of_it_was_evaluated(ran: tuple[Path, str]) -> None:
    folder, said = ran
    assert not list(folder.rglob(MARK))
    for name in ODD:
        assert f'"msg": {json.dumps(f"{name}: moved to", ensure_ascii=False)[:-1]}' in said, said
