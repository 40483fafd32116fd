"""The collection's playbooks and roles, with stand-ins for the modules that they call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
ROLL = "rolling_maintenance"
# A step that succeeds, unless FAULT names it and the host: then it fails, or the host is gone.
STAND_IN = """
import fcntl, json, os
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

NOTED = {"drained": "empty", "active": "restoring"}

def note(record, host, stage):
    # As a drain notes its certificate, and a restore that it begins.
    with open(record + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        roll = json.loads(open(record).read())
        for entry in roll["hosts"]:
            if entry["name"] == host:
                entry["stage"] = stage
        with open(record + ".new", "w") as stream:
            stream.write(json.dumps({**roll, "beat": roll["beat"] + 1}))
        os.rename(record + ".new", record)

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        step = self._task.args.get("state", "look")
        host = task_vars["inventory_hostname"]
        # Before the roll all are looked at, in any order.
        step = "before" if self._task.name == "Look at the hosts" else step
        with open(os.environ["STEPS"], "a") as stream:
            stream.write("" if step == "before" else f"{host} {step}\\n")
        if step == "drained":
            expects = {peer["name"]: peer.get("expects", []) for peer in self._task.args["peers"]}
            with open(os.environ["STEPS"] + ".expects", "a") as stream:
                stream.write(json.dumps({host: expects}) + "\\n")
        if os.environ["FAULT"] == f"{host} {step} gone":
            raise AnsibleConnectionFailure("no route to host")
        if os.environ["FAULT"] == f"{host} {step} refused":
            text = "host-c cannot be read. Nothing was changed."
            return {"failed": True, "changed": False, "error": "PeerUnreachable", "msg": text}
        first = "drained_once" not in task_vars["hostvars"][host]
        hooks = os.environ["HOOKS"].replace("again", "" if first else "drained").split()
        answered = os.environ["STEPS"] + f".answered.{host}.{step}"
        if self._task.args.get("begun"):
            open(answered, "w").close()
        if step in hooks and not os.path.exists(answered):
            # The same folder for all: the file says what it does.
            return {"phase": "Draining", "ended": "needs", "run_id": "1", "needs": [
                {"hook": "before", "name": "vm", "tasks": "hook.yml"}]}
        failed = os.environ["FAULT"] == f"{host} {step} failed"
        record = os.environ["STEPS"] + ".roll"
        if step in NOTED and not failed and os.path.exists(record):
            note(record, host, NOTED[step])
        found = {"findings": [], "blockers": [], "node_blockers": [], "cautions": []}
        phase = {"drained": {"phase": "Drained"}, "active": {"phase": "Active"}}.get(step, {})
        if step == "before":
            row = {"name": host, "memory_mib": 4096}
            vm = {"name": f"vm-{host}", "host": host, "memory_mib": int(os.environ["VM_MIB"])}
            vms = [{**vm, "document": {"name": vm["name"], "host_devices": []}}]
            peers = [{"name": name, "memory_mib": 4096} for name in ("host-a", "host-b") if name != host]
            found["fleet"] = {"host": row, "vms": vms, "peers": peers}
        if step == "drained":
            other = {"host-a": "host-b", "host-b": "host-a"}[host]
            row = {"uuid": f"u-{host}", "name": f"vm-{host}", "way": "migrate", "verdict": "moved", "at": other}
            found |= {"node": host, "vms": [{**row, "outage_ms": None}]}
        # As the modules do: a result that is as wanted has no message.
        return {"failed": failed, **({"msg": "said by the step"} if failed else {**phase, **found})}
"""

# A VM that goes back is there at once, unless FAULT names it.
MOVE_STAND_IN = """
import json, os
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        args = self._task.args
        with open(os.environ["STEPS"], "a") as stream:
            stream.write(f"{args['name']} from {args['node']} at {self._task.delegate_to} to {args['target']}\\n")
        with open(os.environ["STEPS"] + ".args", "a") as stream:
            stream.write(json.dumps(args, default=str) + "\\n")
        row = {"uuid": args["name"], "name": args["name"], "at": args["target"], "reason": "", "message": ""}
        if os.environ["FAULT"] == f"{args['name']} stays":
            row |= {"at": args["node"], "reason": "NoTarget", "message": "it is full"}
            return {"failed": True, "msg": "Blocked", "vms": [row], "vm": args["name"]}
        return {"changed": True, "phase": "Migrated", "vms": [row], "vm": args["name"]}
"""

# A host that nobody reaches; FAULT may say that it lives.
RECOVERY_STAND_IN = """
import json, os
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        args = self._task.args
        if args["state"] == "seen":
            return {"view": {"by": args.get("node", "controller"), "looked": True, "text": "it looked"}}
        with open(os.environ["STEPS"] + ".args", "a") as stream:
            stream.write(json.dumps(args, default=str) + "\\n")
        if args["state"] == "protected":
            return {"not_done": ""}
        host, proof = args["host"], args["proof"] or ({"how": args["said"]["said"]} if args["said"] else {})
        with open(os.environ["STEPS"], "a") as stream:
            stream.write(f"{host} recover by {self._task.delegate_to}, {proof.get('how', 'no proof')}\\n")
        if os.environ["FAULT"] == f"{host} lives":
            return {"phase": "Alive", "may_be_fenced": False, "message": "it lives.", "not_done": ""}
        if os.environ["FAULT"] == f"{host} is back":
            vms = [{"name": "web", "target": "host-b", "verdict": "removed"}, {"name": "off", "target": ""}]
            return {"phase": "Returned", "may_be_fenced": False, "message": "it is back.", "not_done": "", "vms": vms}
        phase = "Recovered" if proof else "Unproven"
        about = {"event": {"event": "recovered" if proof else "failed", "host": host, "message": "dead"}, "stats": {}}
        return {"phase": phase, "may_be_fenced": not proof, "message": "dead", "not_done": "" if proof else "no proof",
                "asked": {}, **about}
"""

FENCE_STAND_IN = """
import os
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        if os.environ["FAULT"] == "no agent" or os.environ["FAULT"] == f"{self._task.delegate_to} has no agent":
            return {"failed": True, "msg": f"{self._task.delegate_to} has no fence agent.", "error": "AgentMissing"}
        if os.environ["FAULT"] == f"{self._task.args['host']} stays on":
            return {"failed": True, "msg": "its status is still on."}
        return {"proof": {"how": self._task.args["agent"]}}
"""

# The record of the roll, by the real rules, in a file instead of on hosts.
ROLL_STAND_IN = """
import fcntl, json, os, time
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import owner, rules
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.options import (
    ROLL_SPEC, answer_of)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Clock, Fleet, Roll
from ansible_collections.virtops.maintenance.plugins.plugin_utils.real_roll import ActionModule

owner.LEASE, rules.LEFT_AFTER = 4.0, 2.0

class Store:
    path = os.environ["STEPS"] + ".roll"
    def read(self):
        text = open(self.path).read() if os.path.exists(self.path) else ""
        return (Roll.from_json(text) if text else None), text
    def write(self, roll, seen):
        with open(self.path + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.read()[1] != seen:
                return False
            with open(self.path + ".new", "w") as stream:
                stream.write(roll.to_json())
            os.rename(self.path + ".new", self.path)
        return True
    def fleet(self):
        names = [*json.load(open("inventory.json"))["all"]["hosts"]]
        return Fleet(names, exist=frozenset(names))

class ActionModule(ActionModule):
    def _once(self, asked):
        found = super()._once(asked)
        if os.environ["FAULT"] == f"stood still after {asked['stage']}" and "asked" in found:
            # As if the controller had been stopped right after it.
            found["asked"] = {clock: at - owner.FRESH - 1 for clock, at in found["asked"].items()}
        return found

    def _execute_module(self, module_name, module_args, task_vars):
        args = {name: spec.get("default") for name, spec in ROLL_SPEC.items()}
        args.update({**module_args, **module_args["request"], "slice": 0.5, "max_failures": 0})
        if os.environ["FAULT"].endswith(f"{args['stage']} not by {module_args.get('node')}"):
            return {"failed": True, "msg": "too few answer", "error": "RollUnreadable"}
        if os.environ["FAULT"] in (f"{module_args.get('node')} is off", "all are off"):
            raise AnsibleConnectionFailure("no route to host")
        clock = Clock(time.monotonic, lambda: "2026-01-01T00:00:00Z", lambda _s: time.sleep(0.1))
        try:
            return answer_of(args, Store(), clock, lambda: "boot", bool(self._task.check_mode))
        except (owner.RollRefused, owner.RollTakenOver) as exc:
            return {"failed": True, "msg": str(exc), "error": type(exc).__name__}
"""


def collection(folder: Path) -> Path:
    """Below `folder` the real playbooks and roles, with the stand-ins. Ansible compiles it in its first run."""
    here = folder / "ansible_collections" / "virtops" / "maintenance"
    for name in (
        "playbooks",
        "roles",
        *(f"plugins/{kind}" for kind in ("filter", "lookup", "plugin_utils", "module_utils")),
    ):
        shutil.copytree(ROOT / name, here / name)
    shutil.copy(ROOT / "galaxy.yml", here)
    action, modules = here / "plugins" / "action", here / "plugins" / "modules"
    for kind in (action, modules):
        kind.mkdir()
        for name in ("maintenance_host_reboot", "maintenance_reboot_info", "maintenance_show"):
            shutil.copy(ROOT / "plugins" / kind.name / f"{name}.py", kind)
    stand_ins = {
        "virt_drain": STAND_IN,
        "virt_preflight": STAND_IN,
        "virt_migration": MOVE_STAND_IN,
        "virt_recovery": RECOVERY_STAND_IN,
        "maintenance_fence": FENCE_STAND_IN,
        "maintenance_roll": ROLL_STAND_IN,
    }
    for name, text in stand_ins.items():
        (action / f"{name}.py").write_text(text)
    shutil.copy(ROOT / "plugins" / "action" / "maintenance_host.py", action)
    shutil.copy(ROOT / "plugins" / "action" / "maintenance_roll.py", here / "plugins" / "plugin_utils" / "real_roll.py")
    return folder


class Roll:
    """A command on two hosts that do not exist, in a folder of its own."""

    def __init__(self, folder: Path, collections: Path) -> None:
        self.folder = folder
        self.collections = collections
        self.steps_file = folder / "steps"
        self.vm_mib = 512  # of the VM that each host has, of 4096 for all
        # That hosts are measured is asked once, and who asks it sets preflight_measure.
        common = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "preflight_measure": False,
        }
        hosts = {name: common | {"maintenance_peer_uri": f"qemu+tls://{name}/system"} for name in ("host-a", "host-b")}
        (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": hosts}}))

    def run(self, fault: str = "", *words: str, playbook: str = ROLL, hooks: str = "") -> tuple[int, str]:
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
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_") and k != "PYTHONDONTWRITEBYTECODE"}
        mine = {
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "FAULT": fault,
            "HOOKS": hooks,
            "VM_MIB": str(self.vm_mib),
            "STEPS": str(self.steps_file),
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }
        done = subprocess.run(argv, cwd=self.folder, env=clean | mine, capture_output=True, text=True, check=False)
        # ansible-core 2.18 prints an error as JSON.
        return done.returncode, " ".join((done.stdout + done.stderr).split()).replace('\\"', '"')

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The options that recoveries and moves of single VMs were given."""
        return [json.loads(line) for line in Path(f"{self.steps_file}.args").read_text().splitlines()]

    @property
    def steps(self) -> list[str]:
        """What was called, a line each: host and step."""
        return self.steps_file.read_text().splitlines() if self.steps_file.exists() else []


def steps(host: str) -> list[str]:
    """Of a host on which all goes well."""
    return [f"{host} {step}" for step in ("look", "drained", "look", "active")]
