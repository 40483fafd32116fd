"""make recover-demo-kubevirt: a node of a simulated cluster dies with its VMs; they run elsewhere, and it comes back.

A person proves that it is off. What became of each VM is read from the server's own log, against a declaration that is
written down before. It imports nothing of the product, which runs in processes of its own.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kubevirt.account import TOKEN, documented_rules
from kubevirt.plays import Plays

from kubesim import Kubesim
from kubesim.journal import CHANGES, Journal
from kubesim.kinds import NODES, VMIMS
from kubesim.words import condition
from recover import judge

DEAD = "n1"
WITHIN = 60  # seconds from the proof to the last VM that runs
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
OVER = ("Succeeded", "Failed")
# VM: its node, what becomes of it, how it is made
VMS: dict[str, tuple[str, str, dict[str, str]]] = {
    "always-1": (DEAD, "restarts", {}),
    "always-2": (DEAD, "restarts", {"strategy": "None"}),
    "rerun-1": (DEAD, "restarts", {"run_strategy": "RerunOnFailure"}),
    "rerun-2": (DEAD, "restarts", {"run_strategy": "RerunOnFailure"}),
    "leaving": (DEAD, "restarts", {"migrate_seconds": "3000"}),
    "manual": (DEAD, "stays", {"run_strategy": "Manual"}),
    "once": (DEAD, "stays", {"run_strategy": "Once"}),
    "bare": (DEAD, "stays", {"run_strategy": ""}),
    "arriving": ("n2", "runs on", {"migrate_seconds": "3000"}),
    "other": ("n3", "runs on", {}),
}
Line = dict[str, Any]


def events(lines: Iterable[Line], proven: float) -> Iterator[judge.Event]:
    """What the judge reads. `proven`: when the person said so. A guest of a node ends with the node's power."""
    told = False
    where: dict[str, tuple[str, str]] = {}  # UID -> node, VM
    for line in lines:
        if not told and line["at"] > proven:
            told = True
            yield "read as off", DEAD, ""
        obj = line["object"]
        if obj["kind"] == "Node" and obj["metadata"]["name"] == DEAD:
            yield from _node(obj, where)
        if obj["kind"] == "VirtualMachineInstance":
            yield from _instance(line["type"], obj, where)


def _node(obj: Line, where: dict[str, tuple[str, str]]) -> Iterator[judge.Event]:
    if "lab/down" in (obj["metadata"].get("annotations") or {}):
        for uid, (node, vm) in list(where.items()):
            if node == DEAD:
                where[uid] = ("", vm)
                yield "ends", DEAD, vm
    elif obj["status"]["nodeInfo"]["bootID"].endswith("+"):
        yield "power on", DEAD, ""
    if any(taint["key"] == OUT_OF_SERVICE for taint in obj["spec"].get("taints") or []):
        yield "last look", DEAD, ""


def _instance(change: str, obj: Line, where: dict[str, tuple[str, str]]) -> Iterator[judge.Event]:
    uid, vm, status = obj["metadata"]["uid"], obj["metadata"]["name"], obj.get("status") or {}
    node, known = status.get("nodeName", ""), where.get(uid)
    if known and known[0] and (change == "DELETED" or status.get("phase") in OVER or node != known[0]):
        where[uid] = ("", vm)
        yield "ends", known[0], vm
    if change != "DELETED" and status.get("phase") == "Running" and where.get(uid, ("?", vm))[0] not in (node, ""):
        where[uid] = (node, vm)
        yield "runs", node, vm


def outcome(lines: Iterable[Line]) -> tuple[dict[str, str], dict[str, float], dict[str, set[str]], set[str]]:
    """Of each VM: where it runs in the end, since when its last instance runs, its instances, and whose definition is
    still there."""
    runs: dict[str, str] = {}
    since: dict[str, float] = {}
    uids: dict[str, set[str]] = {}
    defined: set[str] = set()
    for line in lines:
        obj = line["object"]
        name, kind, status = obj["metadata"]["name"], obj["kind"], obj.get("status") or {}
        if kind == "VirtualMachine" or (
            kind == "VirtualMachineInstance" and not obj["metadata"].get("ownerReferences")
        ):
            (defined.discard if line["type"] == "DELETED" else defined.add)(name)
        if kind != "VirtualMachineInstance":
            continue
        running = line["type"] != "DELETED" and status.get("phase") == "Running"
        if running and obj["metadata"]["uid"] not in uids.setdefault(name, set()):
            uids[name].add(obj["metadata"]["uid"])
            since[name] = line["at"]
        runs[name] = status.get("nodeName", "") if running else ""
    return runs, since, uids, defined


def lost(lines: list[Line]) -> list[str]:
    """VMs of which not became what was declared."""
    runs, _since, uids, defined = outcome(lines)
    found = []
    for name, (node, becomes, _how) in VMS.items():
        good = {
            "restarts": runs[name] not in ("", DEAD) and len(uids[name]) == 2,
            "stays": not runs[name] and len(uids[name]) == 1 and name in defined,
            "runs on": runs[name] == node and len(uids[name]) == 1,
        }
        found += [] if good[becomes] else [name]
    return found


def migrate(sim: Kubesim, name: str, **spec: Any) -> None:
    meta = {"generateName": f"{name}-", "namespace": "default", "labels": {"kubevirt.io/vmi-name": name}}
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": name, **spec}})


def power(sim: Kubesim, on: bool) -> None:
    """Off, until Kubernetes sees that its kubelet is silent; on, until it is Ready with another boot."""

    def change(obj: Line) -> None:
        if not on:
            obj["metadata"]["annotations"]["lab/down"] = "true"
            return
        del obj["metadata"]["annotations"]["lab/down"]
        obj["status"]["nodeInfo"]["bootID"] += "+"

    sim.edit(NODES, DEAD, change)
    wanted = "True" if on else "Unknown"
    sim.until(lambda: (condition(sim.world.store.find(NODES, "", DEAD), "Ready") or {}).get("status") == wanted, 120)


def demo(sim: Kubesim, folder: Path) -> int:
    wrong = []
    for name in ("n1", "n2", "n3"):
        sim.add_node(name)
    sim.api.access.rules[TOKEN] = documented_rules()
    for name, (node, _becomes, how) in VMS.items():
        sim.add_vm(name, node, **how)  # type: ignore[arg-type]
    migrate(sim, "leaving")
    migrate(sim, "arriving", addedNodeSelector={"kubernetes.io/hostname": DEAD})
    sim.until(lambda: all((m.get("status") or {}).get("phase") == "Running" for m in sim.world.store.all(VMIMS)))
    plays = Plays(sim, folder)
    print(f"{len(VMS)} VMs run; {DEAD} loses its power", flush=True)
    power(sim, on=False)
    found = plays.own("recover", maintenance_hosts=DEAD)
    print(found.stdout, flush=True)
    word = re.search(rf"maintenance_confirm_off=({DEAD}@\S+Z)", found.stdout)
    wrong += [] if word and found.returncode else ["the first recover did not ask for a proof"]
    proven = time.monotonic()
    found = plays.own("recover", maintenance_hosts=DEAD, maintenance_confirm_off=word.group(1) if word else "")
    print(found.stdout, flush=True)
    stay = [name for name, (_node, becomes, _how) in VMS.items() if becomes == "stays"]
    wrong += [f"it does not say why {name} stays" for name in stay if f"{name} stays:" not in found.stdout]
    wrong += [] if found.returncode else ["the second recover says that all is well, and VMs stay"]
    print(f"{DEAD} has its power back", flush=True)
    power(sim, on=True)
    found = plays.own("recover", maintenance_hosts=DEAD)
    print(found.stdout, flush=True)
    wrong += [f"the third recover ended with {found.returncode}"] if found.returncode else []
    node = sim.find(NODES, DEAD) or {}
    kept = [taint["key"] for taint in node["spec"].get("taints") or [] if taint["key"] == OUT_OF_SERVICE]
    wrong += [f"{DEAD} still has {', '.join(kept)}"] if kept else []
    wrong += [f"{DEAD} is still cordoned"] if node["spec"].get("unschedulable") else []
    wrong += [f"left: {text}" for text in sim.leftovers()]
    return report([json.loads(line) for line in (folder / CHANGES).read_text("utf-8").splitlines()], proven, wrong)


def report(lines: list[Line], proven: float, wrong: list[str]) -> int:
    runs, since, uids, _defined = outcome(lines)
    mine = [name for name, (node, _becomes, _how) in VMS.items() if node == DEAD]
    again = [name for name in mine if runs[name] not in ("", DEAD) and len(uids[name]) == 2]
    seconds = max((since[name] for name in again), default=proven) - proven
    log = list(events(lines, proven))
    twice, without, gone = judge.twice(log), judge.without_proof(log[_killed(log) :], DEAD), lost(lines)
    for text in [*wrong, *(f"not as declared: {name}" for name in gone)]:
        print(f"WRONG: {text}")
    print(
        f"recover-demo-kubevirt: killed=1 restarted={len(again)} stayed={len(mine) - len(again)}"
        f" within_s={seconds:.0f} twice={len(twice)} started_without_proof={len(without)} lost={len(gone)}",
        flush=True,
    )
    return 1 if wrong or twice or without or gone or seconds > WITHIN else 0


def _killed(log: list[judge.Event]) -> int:
    """What began to run before the node lost its power needed no proof."""
    return next(number for number, (what, host, _vm) in enumerate(log) if (what, host) == ("ends", DEAD))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="recover-demo-") as name, Kubesim() as sim, Journal(sim, Path(name)):
        return demo(sim, Path(name))


if __name__ == "__main__":
    sys.exit(main())
