"""What a call of a module costs on this machine: `ping_s`, the median of calls of ansible.builtin.ping.

Machines differ by a factor of 2.5, so a benchmark says its seconds as multiples of it too. It is measured in the same
run and by the connection that the benchmark's playbooks use.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

CALLS = 10
_CLOCK = "at {{ now(utc=true).timestamp() }} s"


def playbook(folder: Path, hosts: str) -> Path:
    """One that asks the clock before each call and after the last. `hosts`: its pattern; it runs on the first one."""
    clock = {"ansible.builtin.debug": {"msg": _CLOCK}}
    tasks = [task for _call in range(CALLS + 1) for task in ({"ansible.builtin.ping": {}}, clock)]
    found = folder / "ping.yml"
    play = {"hosts": f"{hosts}[0]", "gather_facts": False, "tasks": tasks}
    found.write_text(json.dumps([play]), encoding="utf-8")
    return found


def seconds(hosts: str, folder: Path, run: Callable[[Path], str]) -> float:
    """`run` runs a playbook and returns what it printed. The first call, which may connect, is not counted."""
    printed = run(playbook(folder, hosts))
    at = [float(found) for found in re.findall(r"at ([0-9.]+) s", printed)]
    if len(at) != CALLS + 1:
        raise RuntimeError(f"no ping_s: {len(at) - 1} of {CALLS} calls in\n{printed[-2000:]}")
    return statistics.median(after - before for before, after in pairwise(at))


def multiple(word: str, value: float, ping_s: float) -> str:
    """The words of a last line: the figure in seconds, and in pings."""
    return f"{word}={value:.1f} {word.removesuffix('_s')}_pings={value / ping_s:.1f}"
