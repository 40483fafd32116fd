"""The Ansible inventory of a running lab (JSON, which is YAML too)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .host import Host
from .names import Paths
from .sshkeys import OPTIONS


def write(paths: Paths, hosts: Sequence[Host]) -> None:
    # BatchMode and the timeout are Ansible's own business.
    common = ["-o", f"UserKnownHostsFile={paths.ssh / 'known_hosts'}", *OPTIONS[2:6]]
    shared: dict[str, Any] = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(paths.ssh / "id_ed25519"),
        "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=60s",
        "ansible_ssh_common_args": " ".join(common),
        # In the lab's folder in /run: short, and `down` finds the masters there.
        "ansible_control_path": f"{paths.sockets}/%%h",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_pipelining": True,
        "ansible_pipelining": True,
        "maintenance_uri": "qemu:///system",
    }
    members = {
        host.name: {
            "ansible_host": host.address,
            "maintenance_peer_uri": host.peer_uri,
            "maintenance_memory": host.memory_mib,
        }
        for host in hosts
    }
    tree = {"lab": {"hosts": members, "vars": shared}}
    paths.inventory.write_text("# Written by the lab; made anew at every up.\n" + json.dumps(tree, indent=2) + "\n")
