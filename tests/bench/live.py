"""make bench-live: how late the line of a VM is, and what its being early costs the drain.

The playbook `drain` empties a node of 20 VMs on the simulator. A VM has moved when the server writes that
its migration succeeded, by the server's log; its line is late by the seconds until the playbook has printed
it. The drain's seconds are those from its first request to its last.

    live.py [--vms 20] [--outbound 2] [--rounds 3] [--seconds 3] [--collections DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "bench")]

from kubevirt_log import Log  # noqa: E402

from kubesim.process import Process  # noqa: E402
from kubesim.remote import Remote  # noqa: E402
from lab.procs import interruptible  # noqa: E402

ROLE = ROOT / "docs" / "kubevirt-clusterrole.yml"


def drain(directory: Path, collections: Path, state: str) -> tuple[list[tuple[float, str]], int]:
    """(the lines that it printed, with the time of each; its exit code)."""
    file = directory / "hosts.json"
    file.write_text(json.dumps({"all": {"hosts": {"n1": {}}, "vars": {"maintenance_platform": "kubevirt"}}}))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONPATH"))}
    environment = {
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_HOME": str(directory / "ansible"),
        "K8S_AUTH_KUBECONFIG": str(directory / "kubeconfig-maintenance"),
        "PYTHONUNBUFFERED": "1",
    }
    tool = str(Path(sys.executable).with_name("ansible-playbook"))
    words = [tool, "-i", str(file), f"virtops.maintenance.{state}", "-e", "maintenance_hosts=n1"]
    lines = []
    with (
        subprocess.Popen(
            words, env={**clean, **environment}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
        ExitStack() as interrupted,
    ):
        interrupted.callback(process.kill)
        assert process.stdout is not None
        for line in process.stdout:
            lines.append((time.monotonic(), line))
        process.wait()
    return lines, process.returncode


def moved_at(changes: Path, since: int) -> dict[str, float]:
    """When the server wrote that the migration of each VM succeeded."""
    found: dict[str, float] = {}
    with changes.open("rb") as stream:
        stream.seek(since)
        for text in stream:
            change = json.loads(text)
            one = change["object"]
            if one["kind"] == "VirtualMachineInstanceMigration" and one.get("status", {}).get("phase") == "Succeeded":
                found.setdefault(one["spec"]["vmiName"], change["at"])
    return found


def late(lines: list[tuple[float, str]], moved: dict[str, float]) -> list[float]:
    shown: dict[str, float] = {}
    for at, line in lines:
        for name in moved:
            if f"{name} -> " in line and " moved" in line:
                shown.setdefault(name, at)
    return [shown[name] - moved[name] for name in moved if name in shown]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-live", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vms", type=int, default=20)
    parser.add_argument("--outbound", type=int, default=2, help="migrations at once (2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of the data phase of a migration (3)")
    parser.add_argument("--collections", type=Path, default=ROOT / "build" / "collections", help="of another version")
    args = parser.parse_args()
    interruptible()
    spans, lates = [], []
    with tempfile.TemporaryDirectory(prefix="bench-live-") as name:
        directory = Path(name)
        with Process(directory, {"maintenance": ROLE}) as server:
            remote, log = Remote(server.kubeconfig()), Log(directory)
            for node in ("n1", "t1", "t2", "t3"):
                remote.add_node(node)
            limits = {"parallelMigrationsPerCluster": 5, "parallelOutboundMigrationsPerNode": args.outbound}
            remote.configure(migrations=limits)
            names = [f"vm-{number:02}" for number in range(args.vms)]
            for _round in range(args.rounds):
                for vm in names:
                    remote.add_vm(vm, "n1", wait=False, migrate_seconds=f"{args.seconds:.2f}")
                for vm in names:
                    remote.until(lambda vm=vm: remote.running(vm))
                changes = directory / "changes.jsonl"
                since = changes.stat().st_size
                log.skip()
                lines, code = drain(directory, args.collections.resolve(), "drain")
                span = log.stretch("maintenance").span
                behind = late(lines, moved_at(changes, since))
                print(
                    f"{span:6.1f} s, exit {code}, load {os.getloadavg()[0]:.1f}; {len(behind)} lines late by "
                    f"{statistics.median(behind):.1f} s (median), {max(behind):.1f} s at the most",
                    flush=True,
                )
                spans.append(span)
                lates += behind
                drain(directory, args.collections.resolve(), "restore")
                remote.remove_vms()
    lates.sort()
    print(
        f"bench-live: seconds={statistics.median(spans):.1f} late_median={statistics.median(lates):.1f} "
        f"late_95={lates[int(0.95 * (len(lates) - 1))]:.1f} late_most={lates[-1]:.1f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
