"""make recover-demo: a libvirt host with eight guests dies; its guests run elsewhere, and it comes back.

The checker of the lab judges from the guests' raw logs. Whether anything was started without a proof is read there,
too: a QEMU process of a guest on another host before the agent read that the host is off.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import traces

from lab import Lab
from lab.once import in_a_lab
from recover import case

WITHIN = 30  # seconds from the proof to the last start
LEAST = 5


def demo(lab: Lab) -> int:
    wrong = []
    names = case.start(lab, case.guests())
    case.protect(lab)
    print(f"{len(names)} VMs run on {case.HOST}, which is protected and has the guard", flush=True)
    killed = time.monotonic_ns()
    case.cut_power(lab, names)
    ended = case.recover(lab, **case.fence(lab))
    print(ended.text, flush=True)
    proven = case.event(lab, "read as off")
    begun = case.starts(lab, killed)
    without = [vm for vm, found in begun.items() if any(stamp < proven for stamp, _host in found) or not proven]
    restarted = [vm for vm in begun if all(host != case.HOST for _stamp, host in begun[vm])]
    last = max((stamp for found in begun.values() for stamp, _host in found), default=proven)
    lab.wait_ticking(restarted)
    print(f"{case.HOST} has its power back; autostart is on for all that had it", flush=True)
    case.power_back(lab)
    lab.wait_ticking(["local"])  # it was not taken over, so it is its host's again
    back = case.recover(lab)
    print(back.text, flush=True)
    wrong += [f"recover ended with {ended.code}, and 2 was expected: local stays"] if ended.code != 2 else []
    wrong += [f"the second recover ended with {back.code}"] if back.code else []
    left = sorted(set(restarted) & set(traces.defined(lab.host(case.HOST))))
    wrong += [f"still defined on {case.HOST}: {', '.join(left)}"] if left else []
    hurt = case.hurt(lab)
    seconds = (last - proven) / 1e9
    for text in wrong:
        print(f"WRONG: {text}")
    print(
        f"recover-demo: killed=1 restarted={len(restarted)} stayed={len(names) - len(restarted)}"
        f" within_s={seconds:.0f} twice={hurt['twice']} started_without_proof={len(without)} lost={hurt['lost']}",
        flush=True,
    )
    good = len(restarted) >= LEAST and seconds <= WITHIN and not without and not any(hurt.values())
    return 0 if good and not wrong else 1


if __name__ == "__main__":
    sys.exit(in_a_lab("recover-demo", 3, demo))
