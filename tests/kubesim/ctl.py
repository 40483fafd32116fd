"""Put nodes and VMs into a cluster, and say what is in it, from a shell.

    python -m kubesim.ctl KUBECONFIG nodes NAME ...
    python -m kubesim.ctl KUBECONFIG vm NAME NODE [OPTION=VALUE ...]
    python -m kubesim.ctl KUBECONFIG fit NODE ...
    python -m kubesim.ctl KUBECONFIG remove [NODE ...]
    python -m kubesim.ctl KUBECONFIG state [NODE ...]

`state` prints JSON: where each VM that was made here runs (nowhere: an empty text), which nodes
are cordoned and which carry annotations of ours, and what migrations and evacuations have left
behind. `fit` fails if one of the nodes is not there, or carries VMs of others. `remove` takes
away the VMs that were made here, no other, and cordon, record and Lease of the nodes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from urllib3.exceptions import HTTPError

from . import words
from .kinds import NODES, VMIS
from .remote import Remote, RemoteError

COMMANDS = {"nodes": 1, "vm": 2, "fit": 1, "remove": 0, "state": 0}  # with the names that each needs
# What an option takes: a pattern, and in words; without words it is one of these.
_TEXT, _NAME = (r"[^\n]*", "a text"), (r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", "a name")
_WHOLE, _NUMBER = (r"\d+", "a whole number"), (r"\d+(\.\d+)?", "a number")
_MEMORY = (r"\d+(Ki|Mi|Gi)", "a size such as 128Mi")
# Of `vm`. From migrate_seconds on they are annotations lab/... that the simulator's agents obey; a real cluster knows
# nothing of them.
OPTIONS: dict[str, tuple[str, tuple[str, str]]] = {
    "strategy": ("its eviction strategy", ("LiveMigrate|LiveMigrateIfPossible|External|None", "")),
    "run_strategy": ("empty: an instance without a VirtualMachine", ("Always|RerunOnFailure|Manual|Once|", "")),
    "namespace": ("default", _NAME),
    "memory": ("of its guest", _MEMORY),
    "grace": ("seconds that its guest has to shut down", _WHOLE),
    "pool": ("it runs on nodes with this label `pool` alone", _TEXT),
    "image": ("a container disk with a guest", _TEXT),
    "migrate_seconds": ("how long a migration of it takes", _NUMBER),
    "migrate_result": ("what becomes of it; fail:2: twice", (r"ok|fail|fail:\d+|hang|crash|target-crash|deadline", "")),
    "migrate_fail_reason": ("KubeVirt's words of its failure", _TEXT),
    "prepare": ("whether virt-handler prepares the target", ("ok|hang", "")),
    "prepare_seconds": ("how long that takes", _NUMBER),
    "pod": ("what becomes of its first pod", ("ok|hang|fail|notready", "")),
    "target_pod": ("what becomes of the pod of a migration", ("ok|hang|fail|notready", "")),
    "abort": ("what becomes of an abort", ("ok|hang|fail|late|finish", "")),
    "abort_seconds": ("how long that takes", _NUMBER),
    "abort_refused": ("for how many seconds virt-api refuses it", _NUMBER),
    "start_seconds": ("how long its guest boots", _NUMBER),
    "shutdown_seconds": ("how long its guest shuts down", _NUMBER),
    "terminate_seconds": ("how long its pod ends", _NUMBER),
    "linger_seconds": ("how long its pod stays after a migration", _NUMBER),
    "dirty_rate": ("bytes per second, for the simulator's Prometheus", _NUMBER),
    "not_migratable_reason": ("of its condition LiveMigratable, such as DisksNotLiveMigratable", _TEXT),
    "not_migratable_message": ("the words beside it", _TEXT),
}


def _takes(name: str) -> str:
    pattern, words_of_it = OPTIONS[name][1]
    return words_of_it or pattern.replace(r"\d+", "2").rstrip("|").replace("|", ", ")


def usage() -> str:
    options = [f"  {name:24}{what}: {_takes(name)}" for name, (what, _pattern) in OPTIONS.items()]
    return "\n".join([str(__doc__).rstrip(), "", "Options of `vm`:", "", *options])


def wrong_option(given: dict[str, str]) -> str:
    """The first that is not known, or that has another value than it takes; empty: none."""
    for name, value in given.items():
        if name not in OPTIONS:
            near = get_close_matches(name, OPTIONS, 1)
            return f"there is no option {name}" + (f" (did you mean {near[0]}?)" if near else "; --help lists them")
        if not re.fullmatch(OPTIONS[name][1][0], value):
            return f"{name} is '{value}': expected {_takes(name)}"
    return ""


def no_node(cluster: Remote, nodes: list[str]) -> str:
    there = sorted(node["metadata"]["name"] for node in cluster.all(NODES))
    missing = [name for name in nodes if name not in there]
    return f"there is no node {', '.join(missing)}; the cluster has {', '.join(there) or 'none'}" if missing else ""


def fit(cluster: Remote, nodes: list[str]) -> str:
    """What speaks against tests on these nodes; empty: nothing."""
    missing = no_node(cluster, nodes)
    if missing:
        return f"{missing}: VIRTOPS_NODES names three of them"
    strangers = cluster.strangers(nodes)
    return f"VMs of others run on the nodes: {', '.join(strangers)}" if strangers else ""


def state(cluster: Remote, wanted: list[str]) -> dict[str, Any]:
    nodes = [n for n in cluster.all(NODES) if not wanted or n["metadata"]["name"] in wanted]
    names = {name for _namespace, name in cluster.made_here()}
    ours = [n for n in nodes if any(k.startswith("virtops.") for k in words.annotations(n))]
    return {
        "vms": {name: cluster.node_of(name) for name in sorted(names)},
        "uids": {
            v["metadata"]["name"]: v["metadata"]["uid"] for v in cluster.all(VMIS) if v["metadata"]["name"] in names
        },
        "cordoned": [n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable")],
        "recorded": [n["metadata"]["name"] for n in ours],
        "leftovers": cluster.leftovers(),
    }


def _vm(cluster: Remote, rest: list[str]) -> str:
    name, node, *options = rest
    given = dict(option.partition("=")[::2] for option in options)
    wrong = wrong_option(given) or no_node(cluster, [node])
    if not wrong:
        more: dict[str, Any] = {"grace": int(given.pop("grace"))} if "grace" in given else {}
        cluster.add_vm(name, node, **given, **more)
    return wrong


def _nodes(cluster: Remote, rest: list[str]) -> str:
    for name in rest:
        cluster.add_node(name)
    return ""


def _remove(cluster: Remote, rest: list[str]) -> str:
    wrong = no_node(cluster, rest)
    if not wrong:
        cluster.remove_vms()
        for name in rest:
            cluster.tidy(name)
    return wrong


def _state(cluster: Remote, rest: list[str]) -> str:
    wrong = no_node(cluster, rest)
    if not wrong:
        print(json.dumps(state(cluster, rest)))
    return wrong


def main(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(usage())
        return 0
    config, what, *rest = [*argv, "", ""][: max(2, len(argv))]
    todo: dict[str, Callable[[Remote, list[str]], str]]
    todo = {"nodes": _nodes, "vm": _vm, "fit": fit, "remove": _remove, "state": _state}
    wrong = f"there is no command '{what}'" if what not in COMMANDS else ""
    if not wrong and len(rest) < COMMANDS[what]:
        wrong = f"{what} needs {'NAME and NODE' if what == 'vm' else 'a name'}"
    if not wrong and not Path(config).is_file():
        wrong = f"there is no file {config}: expected the kubeconfig"
    if wrong:
        print(f"kubesim.ctl: {wrong}; --help says how", file=sys.stderr)
        return 2
    try:
        wrong = todo[what](Remote(Path(config)), rest)
    except (RemoteError, HTTPError, TimeoutError) as exc:
        wrong = str(exc)
    if wrong:
        print(f"kubesim.ctl: {wrong}", file=sys.stderr)
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
