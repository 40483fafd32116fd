# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collection's playbooks and roles, with stand-ins for the modules that they call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

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
        first = "drained_once" not in task_vars["hostvars"][host]
        hooks = os.environ["HOOKS"].replace("again", "" if first else "drained").split()
        if step in hooks and not self._task.args.get("begun"):
            # The same folder for all: the file says what it does.
            return {"phase": "Draining", "ended": "needs", "run_id": "1", "needs": [
                {"hook": "before", "name": "vm", "tasks": "hook.yml"}]}
        failed = os.environ["FAULT"] == f"{host} {step} failed"
        found = {"findings": [], "blockers": [], "node_blockers": [], "cautions": []}
        phase = {"drained": {"phase": "Drained"}, "active": {"phase": "Active"}}.get(step, {})
        # As the modules do: a result that is as wanted has no message.
        return {"failed": failed, **({"msg": "said by the step"} if failed else phase), **found}
"""


class Roll:
    """A collection with the real playbooks and roles, over two hosts that do not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps_file = folder / "steps"
        here = folder / "ansible_collections" / "virtops" / "maintenance"
        for name in (
            "playbooks",
            "roles",
            "plugins/filter",
            "plugins/lookup",
            "plugins/plugin_utils",
            "plugins/module_utils",
        ):
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

    def run(
        self, fault: str = "", *words: str, playbook: str = ROLL, hooks: str = ""
    ) -> tuple[int, str]:
        """(exit code, all that was said in one line)."""
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "inventory.json"]
        argv += [
            "-e",
            "maintenance_reboot=false",
            *words,
            playbook if "." in playbook else f"virtops.maintenance.{playbook}",
        ]
        if not {"--limit", "-e"} & set(words):
            argv += ["-e", "maintenance_hosts=all"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
        mine = {
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "FAULT": fault,
            "HOOKS": hooks,
            "STEPS": str(self.steps_file),
        }
        done = subprocess.run(
            argv, cwd=self.folder, env=clean | mine, capture_output=True, text=True, check=False
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    @property
    def steps(self) -> list[str]:
        """What was called, a line each: host and step."""
        return self.steps_file.read_text().splitlines() if self.steps_file.exists() else []


def steps(host: str) -> list[str]:
    """Of a host on which all goes well."""
    return [f"{host} {step}" for step in ("look", "drained", "drained", "look", "active")]
