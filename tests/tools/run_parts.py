"""Run make targets one after another and say what came of each.

Usage: run_parts.py "integration,molecule-lab lint,sanity" unit ...

What stands in one argument runs at the same time, but what commas join one after another. The
output of these is shown when each has ended, and a target alone is shown as it runs. All of them
run even when one fails, and the last line says it all. pytest's counts come from
build/reports/<target>.xml, so that nothing skips unseen.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "build" / "reports"
SHOWING = threading.Lock()


@dataclass
class Part:
    name: str
    code: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)

    def run(self, alone: bool) -> None:
        report = REPORTS / f"{self.name}.xml"
        report.unlink(missing_ok=True)
        start = time.monotonic()
        command = ["make", "--no-print-directory", self.name]
        if alone:
            print(f"== {self.name}", flush=True)
            self.code = subprocess.run(command, cwd=ROOT, check=False).returncode
        else:
            done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.code = done.returncode
            with SHOWING:
                print(f"== {self.name}", flush=True)
                sys.stdout.buffer.write(done.stdout)
                sys.stdout.flush()
        self.seconds = time.monotonic() - start
        if report.exists():
            self.read(report)

    def read(self, report: Path) -> None:
        for case in ET.parse(report).getroot().iter("testcase"):
            outcome = "passed"
            for result in case:
                if result.tag in {"failure", "error"}:
                    outcome = "failed"
                elif result.tag == "skipped":
                    outcome = "skipped"
                    self.skips[result.get("message") or "no reason given"] += 1
            self.counts[outcome] += 1

    def line(self) -> str:
        counts = " ".join(f"{self.counts[key]} {key}" for key in ("passed", "failed", "skipped"))
        return (
            f"  {self.name:<18}{'ok' if self.code == 0 else 'FAILED':<8}{self.seconds:5.0f} s"
            f"  {counts if self.counts else ''}".rstrip()
        )


def in_turn(lane: list[Part]) -> None:
    for part in lane:
        part.run(alone=False)


def main() -> int:
    REPORTS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    parts: list[Part] = []
    for argument in sys.argv[1:]:
        lanes = [[Part(name) for name in lane.split(",")] for lane in argument.split()]
        group = [part for lane in lanes for part in lane]
        parts += group
        if len(group) == 1:
            group[0].run(alone=True)
        else:
            threads = [threading.Thread(target=in_turn, args=(lane,)) for lane in lanes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    print("\n".join(["", *(part.line() for part in parts)]))
    for part in parts:
        for reason, count in part.skips.most_common():
            print(f"  skipped in {part.name}: {count} x {reason}")
    failed = [part.name for part in parts if part.code]
    skipped = sum(part.counts["skipped"] for part in parts)
    print(
        f"test: parts={len(parts)} failed={len(failed)} skipped={skipped} "
        f"wall_s={time.monotonic() - start:.0f}" + (f" ({', '.join(failed)})" if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
