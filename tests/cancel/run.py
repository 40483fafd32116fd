"""Commands that are ended in their middle, and rolls that begin at once: three programs of one kind.

make test-kill       kill -9 of module, holder or playbook at seeded moments of a drain on the lab. The same command
                     again has to carry on: the host is drained, with no VM lost or run twice, and no claim or mark is
                     left. Nothing stops but the one guest that is to be stopped, and restore starts that one again.
make test-cancel     rolls of three hosts, on the simulator and on the lab: cancelled by SIGINT, SIGTERM, SIGKILL of the
                     process group, by ansible-runner's own cancel, and by the end of a whole PID namespace, as a
                     container ends. Then the same command, or abort.yml.
make test-two-rolls  two rolls of one fleet are begun at the same moment: one wins, the other one is refused, and so is
                     a drain or a restore of a single host beside them. By the modules' own calls, and by playbooks.

What the words of the last line count: cancel/case.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cancel import hosts, races, simulator
from cancel.case import WORDS, Bed, Case, Kind, Outcome
from cancel.program import guarded, keep, options, say, seeded
from lab.names import lab_name

KILL, CANCEL, TWO_ROLLS = "test-kill", "test-cancel", "test-two-rolls"
# How many times the moment is tried earlier, where the command was over before it.
EARLIER = 4


def played(prog: str, lab: str, cases: Iterable[Case]) -> Iterator[Outcome]:
    """One after another. A lab is made anew after a fault."""
    fresh = False
    for case in cases:
        for earlier in range(EARLIER):
            with case.kind.bed(lab, fresh) as bed:
                began = time.monotonic()
                outcome = case.kind.play(bed, replace(case, events=case.events >> earlier))
                if outcome.missed and earlier + 1 < EARLIER:
                    continue
                if outcome.missed:
                    outcome.wrong.append(f"it was over before, {EARLIER} times")
                tell(prog, outcome, bed, time.monotonic() - began)
                break
        fresh = bool(outcome.lines())
        yield outcome


def tell(prog: str, outcome: Outcome, bed: Bed, seconds: float) -> None:
    case, wrong = outcome.case, outcome.lines()
    seen = f" ({outcome.seen})" if outcome.seen else ""
    panicked = f"; panicked: {', '.join(outcome.excused)}" if outcome.excused else ""
    lines = [f"{case}{seen}: {'WRONG' if wrong else 'ok'}, {seconds:.0f} s{panicked}", *wrong]
    if wrong:
        lines.append(f"kept: {keep(prog, f'{case.kind.name}-{case.number}', bed.folders)}")
    if wrong and case.way:
        name, words = prog.removeprefix("test-").upper(), f"{case.kind.options} --seed {case.seed} --only {case.number}"
        lines.append(f'again: make {prog} {name}_ARGS="{words}"')
    say("\n    ".join(lines))


def cases(kind: Kind, last: int, args: argparse.Namespace) -> Iterator[Case]:
    for number in args.only or range(1, last + 1):
        yield kind.draw(args.seed, number)


def killed(args: argparse.Namespace, lab: str) -> Iterator[Outcome]:
    if args.span is None:
        with hosts.bed(hosts.Drains, lab, False) as bed:
            args.span = bed.span()
    say(f"seed {args.seed}; a drain left alone takes {args.span:.1f} s from cordon to end")
    yield from played(KILL, lab, cases(hosts.drains(args.span), args.cases, args))


def cancelled(args: argparse.Namespace, lab: str) -> Iterator[Outcome]:
    say(f"seed {args.seed}")
    if args.platform != "lab":
        pool = ThreadPoolExecutor(args.jobs)
        try:
            drawn = cases(simulator.ROLLS, args.simulator, args)
            yield from pool.map(lambda case: next(played(CANCEL, "", [case])), drawn)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if args.platform != "simulator":
        yield from played(CANCEL, lab, cases(hosts.ROLLS, args.lab, args))


def begun_at_once(args: argparse.Namespace, lab: str) -> Iterator[Outcome]:
    for kind, last in zip(races.KINDS, (args.modules, args.simulator, args.lab), strict=True):
        yield from played(TWO_ROLLS, lab, (Case(kind, 0, number) for number in range(1, last + 1)))


def parse(prog: str) -> argparse.Namespace:
    parser = options(prog, __doc__)
    parser.set_defaults(platform="", lab=1)
    if prog == KILL:
        parser.add_argument("--cases", type=int, default=20, help="how many (default 20)")
        parser.add_argument("--span", type=float, help="length of a drain, from an earlier run")
    if prog == CANCEL:
        parser.add_argument("--platform", choices=("simulator", "lab"), help="only this")
        parser.add_argument("--jobs", type=int, default=2, help="simulators at once (default 2)")
    counts = {KILL: {}, CANCEL: {"simulator": 60, "lab": 20}, TWO_ROLLS: {"modules": 90, "simulator": 10, "lab": 10}}
    for name, many in counts[prog].items():
        parser.add_argument(f"--{name}", type=int, default=many, help=f"cases there (default {many})")
    if prog != TWO_ROLLS:
        seeded(parser)
    return parser.parse_args(sys.argv[2:])


def main() -> int:
    prog = sys.argv[1]
    args = parse(prog)
    lab = f"{lab_name()[:24]}-{prog.split('-')[1]}" if args.lab and args.platform != "simulator" else ""

    def work() -> int:
        outcomes = [*{KILL: killed, CANCEL: cancelled, TWO_ROLLS: begun_at_once}[prog](args, lab)]
        good = sum(not outcome.lines() for outcome in outcomes)
        counted = [f" {word}={sum(len(outcome.faults[word]) for outcome in outcomes)}" for word in WORDS]
        what = "races" if prog == TWO_ROLLS else "cases"
        say(f"{prog}: {what}={len(outcomes)} ok={good}{''.join(counted) if prog == CANCEL else ''}")
        return 0 if good == len(outcomes) else 1

    return guarded(prog, lab, args.keep, work)


if __name__ == "__main__":
    CODE = main()
    sys.stdout.flush()
    os._exit(CODE)  # after an interrupt without waiting for the threads of its cases
