"""make gate: what CI will say of HEAD, from a clone of it; `make steady` repeats it.

HEAD is cloned into build/gate (nothing that is not committed is seen), `CI=true bash .ci/run` runs
there as in CI, and build/gate.json gets what came of it: {"head", "ok", "failed", "wall_s"}.
The last lines name for each red test the command that repeats it alone.

    gate.py                      once
    gate.py --runs 5 [--busy 2]  five times; beside the last two one process keeps a core busy
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLONE = ROOT / "build" / "gate"
RESULT = ROOT / "build" / "gate.json"
QUIET_SECONDS = 900  # what a run may take with nothing beside it


@dataclass
class Run:
    """One run of .ci/run. `failed`: the red tests; where there is none, the red parts."""

    ok: bool
    failed: list[str]
    tests: int
    seconds: float


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def fresh_clone() -> None:
    if CLONE.exists():
        # A lab that an interrupted run left holds mounts below this directory.
        if (CLONE / "build" / "venv").exists():
            subprocess.run(["make", "lab-down"], cwd=CLONE, check=False, capture_output=True)
        shutil.rmtree(CLONE)
    git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(CLONE))
    git("-C", str(CLONE), "checkout", "--quiet", "--detach", git("rev-parse", "HEAD"))


def clones_head() -> str:
    """What was run: commits may have been made meanwhile."""
    return git("-C", str(CLONE), "rev-parse", "HEAD")


def run() -> Run:
    """.ci/run in a fresh clone, its output passed on."""
    fresh_clone()
    began = time.monotonic()
    # What this make exports (paths of this tree's tools) is not in CI's environment.
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("MAKE", "MFLAGS", "ANSIBLE_", "VIRTOPS_")) and key != "TIER"
    }
    own = str(ROOT / "build" / "venv" / "bin")
    environment["PATH"] = ":".join(p for p in environment["PATH"].split(":") if p != own)
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=CLONE, check=False, env={**environment, "CI": "true"}, stdin=subprocess.DEVNULL
    )
    seconds = time.monotonic() - began
    cases = [
        (case, any(result.tag in ("failure", "error") for result in case))
        for path in sorted((CLONE / "build" / "reports").glob("*.xml"))
        for case in ET.parse(path).getroot().iter("testcase")
    ]
    red = sorted({node_id(case) for case, failed in cases if failed})
    if done.returncode and not red:
        red = ["no test: the output above names the part"]
    return Run(done.returncode == 0, red, len(cases), seconds)


def node_id(case: ET.Element) -> str:
    """pytest's name of the test, from the report's dotted module and class."""
    parts = case.get("classname", "").split(".")
    for length in range(len(parts), 0, -1):
        path = Path(*parts[:length]).with_suffix(".py")
        if (CLONE / path).is_file():
            return "::".join([str(path), *parts[length:], case.get("name", "")])
    return f"{case.get('classname')}::{case.get('name')}"


def write(outcome: Run) -> None:
    found = {"head": clones_head(), "ok": outcome.ok, "failed": outcome.failed, "wall_s": round(outcome.seconds)}
    RESULT.write_text(json.dumps(found) + "\n", encoding="utf-8")


def say_how_to_repeat(outcome: Run) -> None:
    for name in outcome.failed:
        if "::" in name:
            print(f"repeat it: make venv && build/venv/bin/python -m pytest '{name}'")


def main() -> int:
    parser = argparse.ArgumentParser(prog="gate", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, help="how often (default 1)")
    parser.add_argument("--busy", type=int, default=0, help="of them, the last N with a busy core")
    args = parser.parse_args()
    if git("status", "--porcelain"):
        print("gate: what is not committed is not seen", file=sys.stderr)
    outcomes: list[Run] = []
    slowest_quiet = 0.0
    for number in range(args.runs):
        beside = number >= args.runs - args.busy
        busy = [sys.executable, "-c", "while True: pass"] if beside else ["sleep", "infinity"]
        other = subprocess.Popen(busy)
        try:
            outcome = run()
        finally:
            other.kill()
            other.wait()
        outcomes.append(outcome)
        write(outcome)
        say_how_to_repeat(outcome)
        if not beside:
            slowest_quiet = max(slowest_quiet, outcome.seconds)
        print(
            f"gate: head={clones_head()[:7]} ok={str(outcome.ok).lower()} "
            f"tests={outcome.tests} failed={len(outcome.failed)} wall_s={outcome.seconds:.0f}"
            + (" (one core was kept busy)" if beside else ""),
            flush=True,
        )
    red = sum(not outcome.ok for outcome in outcomes)
    if args.runs > 1:
        print(
            f"steady: runs={args.runs} red={red} tests={max(one.tests for one in outcomes)} "
            f"slowest_s={slowest_quiet:.0f}"
        )
    return 1 if red or slowest_quiet > QUIET_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
