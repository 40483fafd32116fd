# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make postcopy-demo: the cable of the target is pulled while a guest is in post-copy, for 3, 30 and 120 s.

The guest compares its memory all along; the checker of the lab judges from its raw log. The drain that moves it goes
on, or the same command does. Nothing may be cleaned away meanwhile: each host has its domain until the link is back.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import plays, report, traces

from lab import GuestSpec, Lab
from lab.once import in_a_lab
from lab.procs import wait_for

CUTS = (3, 30, 120)  # seconds
SLOW = 60  # Mbit/s: what remains takes some 20 s
DRAIN = {
    **plays.UNMEASURED,
    "maintenance_hosts": "host-a",
    "drain_migration": {"post_copy": True, "on_timeout": "post_copy", "completion_timeout_per_gib": 3},
}
AGAIN = 3  # times that the same command may be given


def cut(lab: Lab, seconds: int) -> list[str]:
    """What was wrong with one guest whose link broke for so long."""
    name, source, target = f"cut-{seconds}", lab.host("host-a"), lab.host("host-b")
    lab.run("host-a", GuestSpec(name, memory_mib=256, fill_mib=160, dirty_mib_s=4))
    lab.wait_ticking([name])
    lab.shape("host-a", SLOW)
    drain = plays.Play(lab, "drain", DRAIN)
    if not wait_for(lambda: "post-copy" in source.virsh("domstate", "--reason", name, check=False), pause=0.2):
        return [f"{name} did not come to post-copy: {drain.text}"]
    print(f"{name} is in post-copy: the cable of host-b is pulled for {seconds} s", flush=True)
    lab.unplug("host-b")
    until = time.monotonic() + seconds
    wrong = []
    while time.monotonic() < until:
        if name not in traces.defined(source):
            wrong.append(f"{name} is gone from host-a while its memory is there")
        time.sleep(1)
    lab.plug("host-b")
    lab.unshape("host-a")
    ended = drain.wait()
    for _again in range(AGAIN):
        if ended.code == 0:
            break
        print(f"the drain ended with {ended.code}; the same command again:\n{ended.text}", flush=True)
        ended = plays.run(lab, "drain", DRAIN)
    print(ended.text, flush=True)
    if ended.code or traces.running(target) != [name] or traces.defined(source):
        wrong.append(f"{name}: the drain ended with {ended.code}, on host-b run {traces.running(target)}")
    lab.wait_ticking([name])
    restored = plays.run(lab, "restore", {"maintenance_hosts": "host-a"})
    wrong += [f"{name}: the restore ended with {restored.code}: {restored.text}"] if restored.code else []
    lab.remove_guest(name)
    return wrong


def demo(lab: Lab) -> int:
    wrong = {seconds: cut(lab, seconds) for seconds in CUTS}
    for text in (text for texts in wrong.values() for text in texts):
        print(f"WRONG: {text}")
    totals = report.check(lab.paths.raw, set())["totals"]
    resumed = sum(not texts for texts in wrong.values())
    print(
        f"postcopy-demo: cuts={len(CUTS)} resumed={resumed} memory_errors={totals['memory_errors']}"
        f" lost={totals['lost']}",
        flush=True,
    )
    return 0 if resumed == len(CUTS) and not totals["memory_errors"] and not totals["lost"] else 1


if __name__ == "__main__":
    sys.exit(in_a_lab("postcopy-demo", 2, demo))
