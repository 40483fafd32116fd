"""make test-cancel: rolls, cancelled at seeded moments; then the same command, or abort.yml.

Three hosts, on the simulator and on the lab. Cancelled by SIGINT, SIGTERM, SIGKILL of the process
group, by ansible-runner's own cancel, and by the end of a whole PID namespace, as a container
ends. What the words of the last line count: cancel/case.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kill.program import guarded, keep, options, say, seeded

from cancel import hosts, simulator, ways
from cancel.case import WORDS, Bed, Case, Outcome, draw, run
from lab import Lab, missing
from lab.names import lab_name

PROG = "test-cancel"
# How many times the moment is tried earlier, where the roll was over before it.
EARLIER = 4


def tries(case: Case) -> Iterator[Case]:
    for time in range(EARLIER):
        yield replace(case, events=case.events >> time)
    raise RuntimeError(f"{case}: the roll was over each time")


def on_simulator(case: Case) -> Outcome:
    """A simulator for each try."""
    for one in tries(case):
        with simulator.bed() as bed:
            outcome = run(bed, one)
            if not outcome.missed:
                tell(outcome, bed)
                break
    return outcome


def on_lab(name: str, cases: Iterable[Case]) -> Iterator[Outcome]:
    """One lab for all, made anew after a fault and before the first."""
    fresh = True
    for case in cases:
        for one in tries(case):
            with hosts.bed(name, fresh) as bed:
                outcome = run(bed, one)
            fresh = not (outcome.missed or outcome.judgement.ok)
            if not outcome.missed:
                tell(outcome, bed)
                yield outcome
                break


def tell(outcome: Outcome, bed: Bed) -> None:
    case, judgement = outcome.case, outcome.judgement
    text = f"{case} ({outcome.seen}): {'ok' if judgement.ok else 'WRONG'}, {outcome.seconds:.0f} s"
    if not judgement.ok:
        kept = keep(PROG, f"{case.platform}-{case.number}", bed.folders)
        text = "\n    ".join([text, *judgement.lines(), f"kept: {kept}", f"again: {again(case)}"])
    say(text)


def again(case: Case) -> str:
    words = f"--platform {case.platform} --seed {case.seed} --only {case.number}"
    return f'make {PROG} CANCEL_ARGS="{words}"'


def cases(args: argparse.Namespace, platform: str, most: dict[str, int]) -> Iterator[Case]:
    last = {"simulator": args.simulator, "lab": args.lab}[platform]
    for number in args.only or range(1, last + 1):
        yield draw(args.seed, platform, number, most)


def work(args: argparse.Namespace, name: str) -> int:
    say(f"seed {args.seed}")
    outcomes: list[Outcome] = []
    if args.platform in ("", "simulator"):
        pool = ThreadPoolExecutor(args.jobs)
        try:
            with ways.simulators():
                outcomes += pool.map(on_simulator, cases(args, "simulator", simulator.MOST))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if args.platform in ("", "lab"):
        outcomes += on_lab(name, cases(args, "lab", hosts.MOST))
    good = sum(outcome.judgement.ok for outcome in outcomes)
    faults = " ".join(f"{word}={sum(len(outcome.judgement.faults[word]) for outcome in outcomes)}" for word in WORDS)
    say(f"{PROG}: cases={len(outcomes)} ok={good} {faults}")
    return 0 if good == len(outcomes) else 1


def parse() -> argparse.Namespace:
    parser = options(PROG, __doc__)
    parser.add_argument("--platform", choices=("simulator", "lab"), default="", help="only this")
    parser.add_argument("--simulator", type=int, default=60, help="cases there (default 60)")
    parser.add_argument("--lab", type=int, default=20, help="cases there (default 20)")
    parser.add_argument("--jobs", type=int, default=2, help="simulators at once (default 2)")
    return seeded(parser)


def main() -> int:
    args = parse()
    if args.platform != "simulator" and (lacking := missing()):
        say("The lab cannot run on this machine:\n  " + "\n  ".join(lacking))
        return 2
    name = f"{lab_name()[:24]}-cancel"

    def after() -> None:
        ways.end_all()
        if args.platform != "simulator" and not args.keep:
            Lab.down(name)

    return guarded(PROG, lambda: work(args, name), after)


if __name__ == "__main__":
    CODE = main()
    sys.stdout.flush()
    os._exit(CODE)  # after an interrupt without waiting for the threads of its cases
