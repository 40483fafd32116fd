"""What README and the start page show of libvirt hosts, typed as it is there, and how ssh gets into the lab."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import readme
import yaml
from demo import plays, traces

from lab import GuestSpec, Lab

pytestmark = [pytest.mark.lab, pytest.mark.full]
PAGE = "docs/start-libvirt.md"
READS = ("preflight", "plan", "status")


def ssh_only(lab: Lab) -> str:
    """The lab's inventory without a word about the maintenance."""
    group = json.loads(lab.paths.inventory.read_text(encoding="utf-8").partition("\n")[2])["lab"]
    for variables in (group["vars"], *group["hosts"].values()):
        for name in [name for name in variables if name.startswith("maintenance_")]:
            del variables[name]
    return json.dumps({"lab": group})


def test_the_commands_of_the_page(shared: Callable[[int], Lab], tmp_path: Path) -> None:
    lab = shared(3)
    lab.run("host-a", GuestSpec("shop", fill_mib=32, autostart=True))
    lab.wait_ticking(["shop"])
    boots = {name: host.boot_id for name, host in lab.hosts.items()}
    inventory = readme.inventory("kvm.yml", PAGE)
    (tmp_path / "kvm.yml").write_text(inventory, encoding="utf-8")
    (tmp_path / "ssh.json").write_text(ssh_only(lab), encoding="utf-8")
    typed = readme.commands("kvm.yml", PAGE)
    assert set(readme.commands("kvm.yml")) < set(typed), "README.md shows some of them, of the same hosts"
    assert yaml.safe_load(readme.inventory("kvm.yml")) == yaml.safe_load(inventory)
    names = [line.partition("maintenance.")[2].split()[0] for line in typed]
    assert [name for name in names if name not in READS] == ["drain", "drain", "restore", "rolling_maintenance"]
    for line in typed:
        done = subprocess.run(
            [*shlex.split(line), "-i", "ssh.json"],
            env=plays.environment(tmp_path / "results"),
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        if "--check" in line:
            assert "shop  would be migrated" in done.stdout
            assert lab.where() == {"shop": [("host-a", "running")]}
    assert all(host.boot_id != boots[name] for name, host in lab.hosts.items())
    lab.wait_ticking(["shop"])
    assert [traces.volumes(host) for host in lab.hosts.values()] == [[], [], []]
    lab.remove_guest("shop")
