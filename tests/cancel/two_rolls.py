"""make test-two-rolls: two rolls of one fleet are begun at the same moment, again and again.

One wins each time, never is more out than the budget, and a single drain or restore beside them is
refused. By the modules' own calls and by whole playbooks on the simulator, by playbooks on the lab.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kill.program import guarded, keep, options, say

from cancel import hosts, races, simulator, ways
from lab import Lab, missing
from lab.names import lab_name

PROG = "test-two-rolls"


def by_modules(numbers: Iterable[int]) -> Iterator[bool]:
    with tempfile.TemporaryDirectory() as folder, races.by_modules(Path(folder)) as race:
        for number in numbers:
            yield tell("modules", number, race(number))


def on_simulator(numbers: Iterable[int]) -> Iterator[bool]:
    for number in numbers:
        with ways.simulators(), simulator.bed() as bed:
            wrong = races.by_playbooks(bed, simulator.NODES, f"simulator-{number}")
            most = bed.most_out()
            yield tell("simulator", number, wrong + too_many(most), bed.folders)


def on_lab(name: str, numbers: Iterable[int]) -> Iterator[bool]:
    fresh = True
    for number in numbers:
        with hosts.bed(name, fresh) as bed:
            wrong = races.by_playbooks(bed, [*bed.lab.hosts], f"lab-{number}")
            wrong += too_many(bed.most_out())
        fresh = bool(wrong)
        yield tell("lab", number, wrong, bed.folders)


def too_many(out: int) -> list[str]:
    return [] if out <= 1 else [f"{out} hosts were out at once"]


def tell(kind: str, number: int, wrong: list[str], folders: Iterable[Path] = ()) -> bool:
    if not wrong:
        say(f"{kind} {number:3}: ok")
        return True
    kept = keep(PROG, f"{kind}-{number}", folders)
    say("\n    ".join([f"{kind} {number:3}: WRONG", *wrong, f"kept: {kept}"]))
    return False


def work(args: argparse.Namespace, name: str) -> int:
    good = [
        *by_modules(range(1, args.modules + 1)),
        *on_simulator(range(1, args.simulator + 1)),
        *on_lab(name, range(1, args.lab + 1)),
    ]
    say(f"{PROG}: races={len(good)} ok={sum(good)}")
    return 0 if all(good) else 1


def main() -> int:
    parser = options(PROG, __doc__)
    parser.add_argument("--modules", type=int, default=90, help="races of calls (default 90)")
    parser.add_argument("--simulator", type=int, default=10, help="of playbooks there (default 10)")
    parser.add_argument("--lab", type=int, default=10, help="of playbooks there (default 10)")
    args = parser.parse_args()
    if args.lab and (lacking := missing()):
        say("The lab cannot run on this machine:\n  " + "\n  ".join(lacking))
        return 2
    name = f"{lab_name()[:24]}-cancel"

    def after() -> None:
        ways.end_all()
        if args.lab and not args.keep:
            Lab.down(name)

    return guarded(PROG, lambda: work(args, name), after)


if __name__ == "__main__":
    sys.exit(main())
