# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put nodes and VMs into a cluster, and say what is in it, from a shell.

    python -m kubesim.ctl KUBECONFIG nodes NAME ...
    python -m kubesim.ctl KUBECONFIG vm NAME NODE [strategy=None] [run_strategy=Always] [KNOB=...]
    python -m kubesim.ctl KUBECONFIG fit NODE ...
    python -m kubesim.ctl KUBECONFIG remove [NODE ...]
    python -m kubesim.ctl KUBECONFIG state [NODE ...]

A knob is one of the annotations lab/... that the simulator's agents obey; another one is an error.

`state` prints JSON: where each VM that was made here runs (nowhere: an empty text), which nodes
are cordoned and which carry annotations of ours, and what migrations and evacuations have left
behind. `fit` fails if one of the nodes is not there, or carries VMs of others. `remove` takes
away the VMs that were made here, no other, and cordon, record and Lease of the nodes.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from . import templates, words
from .kinds import NODES, VMIS
from .nodes import ABLE
from .remote import Remote

COMMANDS = ("nodes", "vm", "fit", "remove", "state")
_ASKED = re.compile(r"""(?:knob\(\s*"|lab/)([a-z][a-z-]+)""")


def knobs() -> set[str]:
    """The options of `vm`: words of every VM, and what the simulator's source asks for."""
    asked = {name for path in Path(__file__).parent.glob("*.py") for name in _ASKED.findall(path.read_text("utf-8"))}
    return {name.replace("-", "_") for name in {*asked, *ABLE}} | {*inspect.signature(templates.vm).parameters}


def fit(cluster: Remote, nodes: list[str]) -> str:
    """What speaks against tests on these nodes; empty: nothing."""
    there = {node["metadata"]["name"] for node in cluster.all(NODES)}
    missing = [name for name in nodes if name not in there]
    if missing:
        return f"no node {', '.join(missing)}: VIRTOPS_NODES names three of {sorted(there)}"
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


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[2] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    config, what, *rest = sys.argv[1:]
    cluster = Remote(Path(config))
    if what == "nodes":
        for name in rest:
            cluster.add_node(name)
    elif what == "vm":
        name, node, *options = rest
        given = dict(option.partition("=")[::2] for option in options)
        unknown = sorted({*given} - knobs())
        if unknown:
            near = get_close_matches(unknown[0], knobs())
            what = f"{', '.join(unknown)} (did you mean {near[0]}?)" if near else ", ".join(unknown)
            print(f"kubesim.ctl: there is no option {what}", file=sys.stderr)
            return 2
        cluster.add_vm(name, node, **given)
    elif what == "remove":
        cluster.remove_vms()
        for name in rest:
            cluster.tidy(name)
    elif what == "state":
        print(json.dumps(state(cluster, rest)))
    elif what == "fit":
        wrong = fit(cluster, rest)
        if wrong:
            print(f"kubesim.ctl: {wrong}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
