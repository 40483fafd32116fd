"""The ready rule sets: they compile, and do what their comments say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.filter.eviction_strategy import eviction_strategy
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.document import vmi_document

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles" / "rules"
SETS = ROLE / "vars" / "main"
DISK = {
    "target": "vda",
    "kind": "file",
    "device": "disk",
    "source": "/images/a",
    "format": "qcow2",
    "shared": True,
    "read_only": False,
}
CARD = {"kind": "pci", "source": "0000:3b:02.1"}


def ready(name: str) -> list[dict[str, Any]]:
    values = yaml.safe_load((SETS / f"{name}.yml").read_text(encoding="utf-8"))
    limit = "400"  # by default it follows the link
    rules = values[f"rules_{name}"]
    for rule in rules:
        rule["when"] = rule["when"].replace("{{ rules_memory_writers_dirty_rate }}", limit)
    return rules


def document(**changed: Any) -> dict[str, Any]:
    return {
        "name": "vm",
        "namespace": None,
        "uuid": "u",
        "node": "host-a",
        "labels": {},
        "annotations": {},
        "owner": None,
        "anti_affinity_group": None,
        "eviction_strategy": None,
        "memory_mib": 2048,
        "vcpus": 2,
        "migratable": True,
        "reasons": [],
        "migration_method": "LiveMigration",
        "volumes": [DISK],
        "networks": [],
        "host_devices": [],
        "launch_security": None,
        "autostart": True,
        "run_strategy": None,
        "persistent": True,
        "agent_connected": None,
        "dirty_rate": None,
        **changed,
    }


BOUND = {"host_devices": [CARD], "migratable": False, "reasons": ["HostDeviceNotLiveMigratable"]}
HEAVY = {"memory-writes": "heavy"}


@pytest.mark.parametrize(
    ("name", "changed", "rule", "way"),
    [
        ("nearly_stateless", {"labels": {"stateless": "true"}}, "are stopped", "shutdown"),
        ("nearly_stateless", {"labels": {"stateless": "no"}}, "", "migrate"),
        ("nearly_stateless", {}, "", "migrate"),
        ("host_devices", {"host_devices": [CARD]}, "movable", "migrate"),
        ("host_devices", BOUND, "bound to the host", "shutdown"),
        ("host_devices", {**BOUND, "migratable": None}, "bound to the host", "wait"),
        ("host_devices", {"migratable": False, "reasons": ["SnapshotsPresent"]}, "", "block"),
        ("shared_storage", {}, "all on shared storage", "migrate"),
        ("shared_storage", {"volumes": [DISK, {**DISK, "source": None}]}, "all on", "migrate"),
        ("shared_storage", {"volumes": [DISK, {**DISK, "shared": False}]}, "", "migrate"),
        ("shared_storage", {"volumes": [DISK, {**DISK, "shared": None}]}, "", "migrate"),
        ("shared_storage", {"volumes": []}, "", "migrate"),
        ("memory_writers", {"labels": HEAVY}, "slowed down", "migrate"),
        ("memory_writers", {"labels": {**HEAVY, "post-copy": "allowed"}}, "post-copy", "migrate"),
        ("memory_writers", {"dirty_rate": 401}, "slowed down", "migrate"),
        ("memory_writers", {"dirty_rate": 400}, "", "migrate"),
        ("memory_writers", {}, "", "migrate"),
    ],
)
def test_a_set_decides(name: str, changed: dict[str, Any], rule: str, way: str) -> None:
    (row,) = eviction_strategy([document(**changed)], ready(name))
    assert (row["way"], row["decided_by"].startswith("rule")) == (way, bool(rule))
    assert rule in row["decided_by"]


def vmi(**changed: Any) -> dict[str, Any]:
    """The document of a VMI, made as the KubeVirt modules make it: RWX claim, cloud-init disk."""
    labels = changed.pop("labels", {})
    devices = {"disks": [{"name": "root", "disk": {}}, {"name": "init", "disk": {}}]}
    claim = {"claimName": "root"}
    able = {"type": "LiveMigratable", "status": "True"}
    if not changed.get("migratable", True):
        able.update(status="False", reason=changed.pop("reason", "HostDeviceNotLiveMigratable"))
    told = {"name": "root", "persistentVolumeClaimInfo": {"accessModes": changed.get("modes")}}
    made = {
        "metadata": {"name": "vm", "namespace": "default", "uid": "u", "labels": labels},
        "spec": {
            "domain": {"devices": {**devices, **changed.get("devices", {})}},
            "volumes": [
                {"name": "root", "persistentVolumeClaim": claim},
                {"name": "init", "cloudInitNoCloud": {"userData": "x"}},
            ],
        },
        "status": {
            "nodeName": "n1",
            "phase": "Running",
            "conditions": [able] if changed.get("migratable", True) is not None else [],
            "volumeStatus": [told] if "modes" in changed else [],
        },
    }
    return vmi_document(made, None)


GPU = {"gpus": [{"name": "g", "deviceName": "example.org/gpu"}]}
RWX, RWO = ["ReadWriteMany"], ["ReadWriteOnce"]


@pytest.mark.parametrize(
    ("name", "changed", "rule", "way"),
    [
        ("nearly_stateless", {"labels": {"stateless": "true"}}, "are stopped", "shutdown"),
        ("nearly_stateless", {}, "", "migrate"),
        ("host_devices", {"devices": GPU}, "movable", "migrate"),
        ("host_devices", {"devices": GPU, "migratable": False}, "bound to", "shutdown"),
        ("host_devices", {"devices": GPU, "migratable": None}, "bound to", "wait"),
        ("host_devices", {}, "", "migrate"),
        ("shared_storage", {"modes": RWX}, "all on shared storage", "migrate"),
        ("shared_storage", {"modes": RWO}, "", "migrate"),
        ("shared_storage", {}, "", "migrate"),
        ("memory_writers", {"labels": HEAVY}, "slowed down", "migrate"),
        ("memory_writers", {"labels": {**HEAVY, "post-copy": "allowed"}}, "post-copy", "migrate"),
        ("memory_writers", {}, "", "migrate"),
    ],
)
def test_a_set_decides_on_kubevirt(name: str, changed: dict[str, Any], rule: str, way: str) -> None:
    """As its options take the rules, and as the drain chooses."""
    options.rules(ready(name))
    found = {"documents": [vmi(**changed)], "kubevirt": {"default_strategy": "LiveMigrate"}}
    (row,) = eviction_strategy(found, ready(name))
    assert (row["way"], row["decided_by"].startswith("rule")) == (way, bool(rule))
    assert rule in row["decided_by"]


def test_settings_of_the_memory_writers() -> None:
    (row,) = eviction_strategy([document(labels=HEAVY)], ready("memory_writers"))
    assert row["migration"]["auto_converge"]
    assert row["migration"]["completion_timeout_per_gib"] == 600
    labels = {**HEAVY, "post-copy": "allowed"}
    (row,) = eviction_strategy([document(labels=labels)], ready("memory_writers"))
    assert row["migration"]["on_timeout"] == "post_copy"
    assert not row["migration"]["auto_converge"]


def test_all_sets_go_together() -> None:
    names = sorted(path.stem for path in SETS.glob("*.yml"))
    assert names == ["host_devices", "memory_writers", "nearly_stateless", "shared_storage"]
    rules = [rule for name in names for rule in ready(name)]
    assert eviction_strategy([document()], rules)[0]["decided_by"] == "rule all on shared storage"


def test_only_sets_that_say_so_stop_a_vm() -> None:
    for name in ("shared_storage", "memory_writers"):
        for migratable in (True, False, None):
            (row,) = eviction_strategy([document(migratable=migratable, labels=HEAVY)], ready(name), allow_stop=False)
            assert row["way"] in ("migrate", "block", "wait")


PLAY = """
- hosts: localhost
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.include_role:
        name: virtops.maintenance.rules
        public: true
      vars:
        rules_memory_writers_dirty_rate: 5
    - ansible.builtin.assert:
        that:
          - rows | map(attribute='way') | list == ['shutdown', 'migrate']
          - rows[1].decided_by == 'rule memory writers, slowed down'
      vars:
        rows: "{{ found | virtops.maintenance.eviction_strategy(ready) }}"
        ready: "{{ rules_nearly_stateless + rules_memory_writers }}"
        rules_memory_writers_dirty_rate: 5
        found:
          - {name: a, uuid: u1, labels: {stateless: 'true'}, migratable: true}
          - {name: b, uuid: u2, labels: {}, migratable: true, dirty_rate: 6}
"""


def test_ansible_knows_the_role_and_the_filter(tmp_path: Path) -> None:
    """As a user has them: variables of the role, through templates, into the filter."""
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "play.yml"],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
            "ANSIBLE_HOME": str(tmp_path / "home"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
