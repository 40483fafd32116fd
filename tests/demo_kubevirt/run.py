"""make demo-kubevirt: roll the maintenance over three nodes of a simulated cluster of four.

24 VMs of every eviction strategy. First a drain that may not stop anything meets VMs that
cannot move: it blocks, says why, and is taken back. Then the roll, by ansible-playbook, with a
policy that allows the stops: it is killed while the second node is drained, and the same command
carries it on. What became of each VM is counted by counter.py from the server's
own log, against a declaration that is written down before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from demo.plays import MiddleOfDrain  # noqa: E402

from kubesim.kinds import NODES, VMIS  # noqa: E402
from kubesim.process import Process  # noqa: E402
from kubesim.remote import Remote, RemoteError  # noqa: E402
from lab.procs import interruptible  # noqa: E402

BEGAN = time.monotonic()
ALL = ("n1", "n2", "n3", "n4")
ROLL = ("n1", "n2", "n3")
REPORT = ROOT / "build" / "demo-kubevirt"  # report.html, report.json and junit.xml of the roll
ROLE = ROOT / "docs" / "kubevirt-clusterrole.yml"
NOT = "DisksNotLiveMigratable"
# On each of the three nodes: (name, what may happen to it, how it is made). Six, and six of
# n4, which nobody touches: of those one could not move at all.
KINDS: list[tuple[str, str, dict[str, Any]]] = [
    ("live-1", "move", {"strategy": "LiveMigrate"}),
    ("live-2", "move", {"strategy": "LiveMigrate", "run_strategy": "RerunOnFailure"}),
    ("maybe", "move", {"strategy": "LiveMigrateIfPossible"}),
    ("local", "stop", {"strategy": "LiveMigrateIfPossible", "not_migratable_reason": NOT}),
    ("plain", "stop", {"strategy": "None"}),
]
SIXTH: dict[str, tuple[str, str, dict[str, Any]]] = {
    "n1": ("owned", "move", {"strategy": "External"}),
    "n2": ("manual", "stop", {"strategy": "None", "run_strategy": "Manual"}),
    "n3": ("retries", "move", {"strategy": "LiveMigrate", "migrate_result": "fail:1"}),
}


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.1f} s  {text}", flush=True)


def fill(cluster: Remote) -> dict[str, str]:
    """Nodes and VMs. What may happen to which VM."""
    declared = {}
    for node in ALL:
        cluster.add_node(node)
    for node in ROLL:
        for name, may, how in [*KINDS, SIXTH[node]]:
            declared[f"{node}-{name}"] = may
            cluster.add_vm(f"{node}-{name}", node, wait=False, **{"migrate_seconds": "1", **how})
    for number in range(5):
        declared[f"n4-stays-{number}"] = "stay"
        cluster.add_vm(f"n4-stays-{number}", "n4", wait=False)
    declared["n4-stuck"] = "stay"
    cluster.add_vm("n4-stuck", "n4", wait=False, not_migratable_reason=NOT)
    for name in declared:
        cluster.until(lambda name=name: cluster.running(name))
    return declared


class Owner(threading.Thread):
    """The owner of VMs of strategy External: migrates those that are marked."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(name="owner", daemon=True)
        self._cluster = Remote(kubeconfig)
        self._asked: set[str] = set()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(1.0):
            for vmi in self._cluster.all(VMIS):
                marked = vmi.get("status", {}).get("evacuationNodeName")
                key = f"{vmi['metadata']['uid']} {marked}"
                external = vmi["spec"].get("evictionStrategy") == "External"
                if marked and external and key not in self._asked:
                    self._migrate(vmi["metadata"], key)

    def _migrate(self, meta: dict[str, Any], key: str) -> None:
        body = {
            "metadata": {"generateName": "owner-", "namespace": meta["namespace"]},
            "spec": {"vmiName": meta["name"]},
        }
        try:
            self._cluster.add("virtualmachineinstancemigrations", body)
        except RemoteError as exc:
            say(f"the owner of {meta['name']} may not migrate it: {exc}")
            return
        self._asked.add(key)


class Plays:
    """Runs the collection's playbooks as a user would."""

    def __init__(self, directory: Path, kubeconfig: Path) -> None:
        shared = {"maintenance_platform": "kubevirt", "maintenance_reason": "demo"}
        hosts = {name: {} for name in ALL}
        self._inventory = directory / "hosts.json"
        self._inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": shared}}))
        self._environment = {
            **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
            "ANSIBLE_HOME": str(directory / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "0",
            "K8S_AUTH_KUBECONFIG": str(kubeconfig),
        }

    def run(self, name: str, kill_in: str = "", **variables: Any) -> tuple[int, str]:
        """Exit code and output, which is shown as it comes.

        `kill_in`: ansible-playbook is killed while the VMs of this node move.
        """
        tool = str(Path(sys.executable).with_name("ansible-playbook"))
        extra = json.dumps(variables)
        command = [tool, "-i", str(self._inventory), f"virtops.maintenance.{name}", "-e", extra]
        process = subprocess.Popen(
            command, env=self._environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        lines, middle = [], MiddleOfDrain(kill_in)
        try:
            for line in process.stdout or ():
                lines.append(line)
                if line.strip():
                    say(f"| {line.rstrip()[:150]}")
                if kill_in and middle(line.rstrip()):
                    process.kill()
                    break  # its workers live on for a moment, and have the pipe
            return process.wait(), "".join(lines)
        finally:
            process.kill()


def blocked_first(plays: Plays, cluster: Remote) -> list[str]:
    """What is wrong with how a drain went that may not stop anything."""
    say("-- drain n1; nothing allows a stop, so it has to block, and to say why")
    code, text = plays.run("drain", maintenance_hosts="n1")
    wrong = []
    if code == 0 or "n1 is Blocked, not Drained." not in text:
        wrong.append("the drain that may not stop anything did not block")
    if text.count("StopNotAllowed") < 2:
        wrong.append("it does not say StopNotAllowed for the two VMs that cannot move")
    say("-- take it back")
    if plays.run("restore", maintenance_hosts="n1")[0] != 0:
        wrong.append("the blocked drain could not be taken back")
    node = cluster.find(NODES, "n1")
    if node is None or node["spec"].get("unschedulable"):
        wrong.append("n1 is still cordoned after it was taken back")
    return wrong


def roll(plays: Plays) -> list[str]:
    say("-- the roll over n1, n2 and n3; stops are allowed where needed")
    words = {"maintenance_hosts": ",".join(ROLL), "maintenance_reboot": False, "drain_allow_stop": True}
    words["maintenance_report"] = str(REPORT)
    code, _text = plays.run("rolling_maintenance", kill_in="n2", **words)
    wrong = [] if code == -signal.SIGKILL else ["the roll was over before it was killed"]
    say("-- ansible-playbook was killed while n2 was drained; the same command again")
    code, _text = plays.run("rolling_maintenance", **words)
    return wrong + ([] if code == 0 else [f"the roll ended with {code}"])


def reported() -> list[str]:
    """What is wrong with the report that the roll left."""
    doc = json.loads((REPORT / "report.json").read_text(encoding="utf-8"))
    # A host that was half done when the roll was carried on stands first.
    done = sorted(host["name"] for host in doc["hosts"] if host["stage"] == "done" and host["certificate"])
    say(f"report: {doc['outcome']}, {REPORT / 'report.html'}")
    return [] if (doc["outcome"], done) == ("done", list(ROLL)) else [f"the report says {doc['outcome']}: {done}"]


def count(directory: Path, declaration: Path) -> dict[str, Any]:
    """By a program of its own, from the log alone."""
    tool, log = HERE / "counter.py", directory / "changes.jsonl"
    done = subprocess.run(
        [sys.executable, "-I", str(tool), str(log), str(declaration)], text=True, stdout=subprocess.PIPE, check=False
    )
    *said, last = done.stdout.splitlines()
    for text in said:
        say(f"counter:{text}")
    found: dict[str, Any] = json.loads(last)
    return found


def main() -> int:
    interruptible()
    with tempfile.TemporaryDirectory(prefix="demo-kubevirt-") as name:
        directory = Path(name)
        declaration = directory / "declared.json"
        with Process(directory, {"maintenance": ROLE}) as server:
            cluster = Remote(server.kubeconfig())
            declared = fill(cluster)
            declaration.write_text(json.dumps(declared), encoding="utf-8")
            say(f"{len(ALL)} nodes, {len(declared)} VMs run")
            owner = Owner(server.kubeconfig())
            owner.start()
            plays = Plays(directory, server.kubeconfig("maintenance"))
            wrong = blocked_first(plays, cluster)
            wrong += roll(plays)
            owner.over.set()
            owner.join(10)
        found = count(directory, declaration)
        say(f"counter: {found['moves']} moves, {found['stopped']} stops that were declared or not")
    wrong += reported()
    for text in wrong:
        say(f"WRONG: {text}")
    nodes = found["nodes"]  # that were empty while cordoned: not n1 at the first time
    print(
        f"demo-kubevirt: nodes={nodes} vms={found['vms']} "
        f"stopped_by_surprise={found['stopped_by_surprise']} leftovers={found['leftovers']} "
        f"wall_s={time.monotonic() - BEGAN:.0f}",
        flush=True,
    )
    good = nodes == len(ROLL) and not found["stopped_by_surprise"] and not found["leftovers"]
    return 0 if good and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
