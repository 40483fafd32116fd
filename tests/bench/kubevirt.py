"""Draining KubeVirt nodes: our loop, kubectl drain and k8s_drain, against one simulated server.

One node with 20 VMs, outbound limit 2, then 5; three nodes with 10 VMs each, cluster limit 5,
then 6. A migration holds its slot for 6 s. The ideal is VMs / limit * 6 s. What a client took is
read from the server's own log: from its first request to its last. Of two settings the worse
one counts, for the requests as well.

    kubevirt.py [--vms 20] [--each 10] [--only ours,kubectl,k8s_drain,three,playbook]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "bench")]

from bench import ping  # noqa: E402
from kubevirt_log import Log, Stretch  # noqa: E402

from kubesim.process import Process  # noqa: E402
from kubesim.remote import Remote  # noqa: E402
from lab.procs import interruptible  # noqa: E402

SLOT = 6.0
PARTS = ("ours", "kubectl", "k8s_drain", "three", "playbook")
PEERS = ROOT / "build" / "peers" / "bin"
ROLE = ROOT / "docs" / "kubevirt-clusterrole.yml"
COLLECTIONS = ROOT / "build" / "collections"
CUT_SECONDS = 600
SOURCES = ("n1", "n2", "n3")
OPTIONS = {"force": True, "ignore_daemonsets": True, "delete_emptydir_data": True}


@dataclass
class Figure:
    """One client in one setting."""

    ratio: float
    requests_per_vm: float
    slot: float
    code: int


@dataclass
class Bench:
    """One simulated cluster with three nodes to drain and three that take the VMs."""

    directory: Path
    remote: Remote
    log: Log
    knob: float = 3.0
    figures: dict[str, list[Figure]] = field(default_factory=dict)

    def prepare(self, count: int, nodes: tuple[str, ...], cluster: int, outbound: int) -> None:
        limits = {"parallelMigrationsPerCluster": cluster, "parallelOutboundMigrationsPerNode": outbound}
        self.remote.configure(migrations=limits)
        for node in nodes:
            for number in range(count):
                name = f"{node}-{number:02}"
                self.remote.add_vm(name, node, wait=False, migrate_seconds=f"{self.knob:.2f}")
        for node in nodes:
            for number in range(count):
                name = f"{node}-{number:02}"
                self.remote.until(lambda name=name: self.remote.running(name))

    def clean(self) -> None:
        """Nothing of it is counted."""
        self.remote.until(lambda: not self.remote.leftovers(), CUT_SECONDS)
        self.engine(SOURCES, "active")
        self.remote.uncordon()
        self.remote.remove_vms()

    def calibrate(self) -> None:
        """Find how long the data phase must be for a slot to be held 6 s on this machine."""
        for _round in range(2):  # the first one warms up as well
            self.prepare(4, SOURCES[:1], 5, 2)
            self.log.skip()
            self.engine(SOURCES[:1], "drained")
            held = self.log.stretch("maintenance").slot
            self.knob += SLOT - held
            print(f"a slot was held {held:.2f} s: migrate-seconds is {self.knob:.2f}", flush=True)
            self.clean()

    # The clients

    def engine(self, nodes: tuple[str, ...], state: str = "drained") -> int:
        tool = str(Path(__file__).with_name("kubevirt_engine.py"))
        config = str(self.directory / "kubeconfig-maintenance")
        done = _run([sys.executable, tool, str(COLLECTIONS), config, state, *nodes])
        if done.returncode:
            raise SystemExit(f"bench-kubevirt: our loop failed: {done.stderr[-2000:]}")
        phases = set(json.loads(done.stdout.splitlines()[-1])["phases"])
        return 0 if phases <= {"Drained", "Active"} else 1

    def kubectl(self, nodes: tuple[str, ...]) -> int:
        config = self.directory / "kubeconfig-kubectl"
        with tempfile.TemporaryDirectory() as cache:
            command = [str(kubectl()), "drain", *nodes, "--ignore-daemonsets", "--force"]
            command += ["--delete-emptydir-data", "--timeout=0s"]
            done = _run([*command, f"--kubeconfig={config}", f"--cache-dir={cache}"])
        return self._report("kubectl", done)

    def k8s_drain(self, nodes: tuple[str, ...], again: bool) -> int:
        task: dict[str, Any] = {
            "kubernetes.core.k8s_drain": {
                "name": nodes[0],
                "state": "drain",
                "kubeconfig": str(self.directory / "kubeconfig-k8s_drain"),
                "delete_options": OPTIONS,
            }
        }
        if again:
            task.update(register="drained", until="drained is success", retries=500, delay=5)
        play = [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]
        file = self.directory / "k8s_drain.json"
        file.write_text(json.dumps(play), encoding="utf-8")
        environment = {"ANSIBLE_HOME": str(self.directory / "ansible"), "ANSIBLE_NOCOLOR": "1"}
        command = [str(PEERS / "ansible-playbook"), "-i", "localhost,", "-c", "local"]
        command += ["-e", f"ansible_python_interpreter={PEERS / 'python'}", str(file)]
        return self._report("k8s_drain", _run(command, environment))

    def playbook(self, nodes: tuple[str, ...]) -> int:
        inventory = {"all": {"hosts": {nodes[0]: {}}, "vars": {"maintenance_platform": "kubevirt"}}}
        file = self.directory / "hosts.json"
        file.write_text(json.dumps(inventory), encoding="utf-8")
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_HOME": str(self.directory / "ansible"),
            "K8S_AUTH_KUBECONFIG": str(self.directory / "kubeconfig-maintenance"),
        }
        tool = str(Path(sys.executable).with_name("ansible-playbook"))
        command = [tool, "-i", str(file), "virtops.maintenance.drain", "-e"]
        done = _run([*command, f"maintenance_hosts={nodes[0]}"], environment)
        return self._report("playbook", done)

    def pings(self, playbook: Path) -> str:
        """What it prints: of modules that run where the playbook does, as ours."""
        environment = {"ANSIBLE_PYTHON_INTERPRETER": sys.executable, "ANSIBLE_HOME": str(self.directory / "ansible")}
        tool = str(Path(sys.executable).with_name("ansible-playbook"))
        return _run([tool, "-i", "localhost,", "-c", "local", str(playbook)], environment).stdout

    @staticmethod
    def _report(client: str, done: subprocess.CompletedProcess[str]) -> int:
        """What it said at the end if it failed: no peer shall be misjudged for a slip of ours."""
        if done.returncode:
            said = " ".join((done.stdout + done.stderr)[-900:].split())
            print(f"  {client} ended with {done.returncode}: ...{said}", flush=True)
        return done.returncode

    # One measurement

    def still_there(self, nodes: tuple[str, ...], count: int) -> int:
        names = [(node, f"{node}-{number:02}") for node in nodes for number in range(count)]
        return sum(self.remote.node_of(name) == node for node, name in names)

    def measure(
        self,
        title: str,
        user: str,
        client: Callable[[tuple[str, ...]], int],
        setting: tuple[int, tuple[str, ...], int, int],
    ) -> float:
        """Wall seconds of the client's process."""
        count, nodes, cluster, outbound = setting
        self.prepare(count, nodes, cluster, outbound)
        vms = count * len(nodes)
        at_once = min(cluster, outbound * len(nodes))
        ideal = -(-vms // at_once) * SLOT
        self.log.skip()
        begun = time.monotonic()
        code = client(nodes)
        wall = time.monotonic() - begun
        found: Stretch = self.log.stretch(user)
        figure = Figure(found.span / ideal, found.requests / vms, found.slot, code)
        self.figures.setdefault(title, []).append(figure)
        moved = vms - self.still_there(nodes, count)
        print(
            f"{title:<16} cluster {cluster} outbound {outbound}: {found.span:6.1f} s of "
            f"{ideal:.0f} = {figure.ratio:.3f}, {found.requests} requests = "
            f"{figure.requests_per_vm:.2f} a VM, slot {found.slot:.2f} s, "
            f"moved {moved}/{vms}, exit {code}",
            flush=True,
        )
        for kind, number in sorted(found.kinds.items(), key=lambda item: -item[1])[:12]:
            print(f"    {number:5} {kind}", flush=True)
        self.clean()
        return wall

    def worst(self, title: str) -> str:
        """Of a client that drained; "-" without a figure, "failed" if it did not get there."""
        found = self.figures.get(title, [])
        if any(figure.code for figure in found):
            return "failed"
        return f"{max(f.ratio for f in found):.2f}" if found else "-"

    def most(self, title: str) -> str:
        found = self.figures.get(title, [])
        return f"{max(f.requests_per_vm for f in found):.1f}" if found else "-"


def _run(command: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONPATH"))}
    try:
        return subprocess.run(
            command,
            env={**clean, **(environment or {})},
            cwd=ROOT / "build",
            text=True,
            capture_output=True,
            timeout=CUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        text = f"cut: not over after {CUT_SECONDS} s"
        return subprocess.CompletedProcess(command, 124, "", text)


def kubectl() -> Path:
    """The one of the peers' environment, so that every machine measures the same."""
    found = PEERS / "kubectl"
    if found.exists():
        return found
    other = shutil.which("kubectl")
    if other is None:
        raise SystemExit("bench-kubevirt: no kubectl: make build/stamps/peers")
    return Path(other)


def versions() -> None:
    print(f"machine: {os.cpu_count()} cores, {platform.platform()}, Python {sys.version.split()[0]}")
    client = _run([str(kubectl()), "version", "--client", "-o", "json"]).stdout
    print(f"kubectl: {json.loads(client)['clientVersion']['gitVersion']}")
    listed = _run([str(PEERS / "ansible-galaxy"), "collection", "list", "kubernetes.core"])
    found = [line.split() for line in listed.stdout.splitlines() if "kubernetes.core" in line]
    core = _run([str(PEERS / "ansible"), "--version"]).stdout.splitlines()[:1]
    print(f"kubernetes.core: {found[-1][1] if found else 'unknown'}; {''.join(core)}", flush=True)


def accounts(directory: Path) -> dict[str, Path]:
    """Ours has the role that we document; the peers may do everything."""
    everything = directory / "everything.yml"
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    everything.write_text(json.dumps({"rules": [rule]}), encoding="utf-8")
    return {"maintenance": ROLE, "kubectl": everything, "k8s_drain": everything}


def run(bench: Bench, parts: list[str], vms: int, each: int) -> tuple[float, float] | None:
    """All measurements. The playbook's overhead and a ping in seconds, if it was measured."""
    one, ours = SOURCES[:1], {}
    bench.calibrate()
    for outbound in (2, 5):
        setting = (vms, one, 5, outbound)
        if "ours" in parts:
            ours[outbound] = bench.measure("ours", "maintenance", bench.engine, setting)
        if "kubectl" in parts:
            bench.measure("kubectl", "kubectl", bench.kubectl, setting)
        if "k8s_drain" in parts:
            bench.measure("k8s_drain", "k8s_drain", lambda n: bench.k8s_drain(n, True), setting)
    if "k8s_drain" in parts:
        bench.measure("k8s_drain alone", "k8s_drain", lambda n: bench.k8s_drain(n, False), (vms, one, 5, 2))
    for cluster in (5, 6) if "three" in parts else ():
        setting = (each, SOURCES, cluster, 2)
        bench.measure("three ours", "maintenance", bench.engine, setting)
        bench.measure("three kubectl", "kubectl", bench.kubectl, setting)
    if "playbook" in parts and 5 in ours:
        setting = (vms, one, 5, 5)
        overhead = bench.measure("playbook", "maintenance", bench.playbook, setting) - ours[5]
        return overhead, ping.seconds("all", bench.directory, bench.pings)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-kubevirt", description=__doc__.splitlines()[0])
    parser.add_argument("--vms", type=int, default=20, help="on the one node (20)")
    parser.add_argument("--each", type=int, default=10, help="on each of three nodes (10)")
    parser.add_argument("--only", default=",".join(PARTS), help="a part, comma-separated")
    args = parser.parse_args()
    interruptible()
    versions()
    with tempfile.TemporaryDirectory(prefix="bench-kubevirt-") as name:
        directory = Path(name)
        with Process(directory, accounts(directory)) as server:
            remote = Remote(server.kubeconfig())
            for node in (*SOURCES, "t1", "t2", "t3"):
                remote.add_node(node)
            bench = Bench(directory, remote, Log(directory))
            overhead = run(bench, args.only.split(","), args.vms, args.each)
    print(
        f"bench-kubevirt: ours={bench.worst('ours')} kubectl={bench.worst('kubectl')} "
        f"k8s_drain={bench.worst('k8s_drain')} three_nodes_ours={bench.worst('three ours')} "
        f"three_nodes_kubectl={bench.worst('three kubectl')} "
        f"requests_per_vm={bench.most('ours')} kubectl_requests_per_vm={bench.most('kubectl')} "
        f"{ping.multiple('playbook_overhead_s', *overhead) if overhead else 'playbook_overhead_s=-'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
