"""make test-fleet: 24 real libvirt hosts, one off, one that dies, three drained meanwhile.

The host that dies is drained itself and target of another drain's migration at that moment. The
two last drains begin after that, while its claims stand on the hosts that live. Every number of
the last line is counted from the raw log by `count`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fleet import deeds, scene
from fleet.count import Count, count
from lab import Lab, LabError, missing
from lab.names import REPO, lab_name
from lab.procs import interruptible

# With the time that `make` took before, for packages and the virtual environment.
BEGAN = time.monotonic() - (time.time() - float(os.environ.get("MAKE_BEGAN") or time.time()))
KEPT = REPO / "build" / "fleet"


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.1f} s  {text}", flush=True)


def run(name: str, which: scene.Scene) -> int:
    Lab.down(name)
    lab = Lab.up(name, which.hosts)
    say(f"{which.hosts} hosts are up: libvirtd, sshd, network, TLS each")
    wrong = []
    try:
        wrong += deeds.roll(lab, which, say)
    except (LabError, TimeoutError) as error:
        wrong.append(str(error))
    found = count(lab.paths.raw)
    wrong += found.wrong(which.hosts, scene.DEAD, which.drained, which.doomed)
    tell(found, wrong, lab)
    print(found.line(time.monotonic() - BEGAN), flush=True)
    return 1 if wrong else 0


def tell(found: Count, wrong: list[str], lab: Lab) -> None:
    for name, host in found.died_with_host.items():
        say(f"{name} died with {host}, where it ran")
    for text in found.panicked:
        say(f"panicked, which is QEMU's doing when it emulates the CPU: {text}")
    if found.of_the_dead:
        say(f"of the dead, until they are back: {', '.join(found.of_the_dead)}")
    for text in wrong:
        say(f"WRONG: {text}")
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    for folder in (lab.paths.raw, lab.paths.logs) if wrong else ():
        shutil.copytree(folder, KEPT / folder.name, ignore_dangling_symlinks=True)
    report = KEPT / "report.json"
    text = json.dumps({**asdict(found), "wrong": wrong}, indent=1)
    report.write_text(text + "\n", encoding="utf-8")
    say(f"the count, name by name{', the raw log and the logs' if wrong else ''}: {KEPT}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="test-fleet", description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="six hosts, as the tests have them")
    parser.add_argument("--keep", action="store_true", help="leave the lab up afterwards")
    args = parser.parse_args()
    lacking = missing()
    if lacking:
        say("The lab cannot run on this machine:\n  " + "\n  ".join(lacking))
        return 2
    interruptible()
    name = f"{lab_name()[:24]}-fleet"
    try:
        return run(name, scene.SMALL if args.small else scene.LARGE)
    except LabError as error:
        say(f"test-fleet: the lab failed: {error}")
        return 1
    except KeyboardInterrupt:
        say("test-fleet: interrupted")
        return 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if not args.keep:
            Lab.down(name)


if __name__ == "__main__":
    sys.exit(main())
