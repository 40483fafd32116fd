"""make chaos: cases by number, drawn by a seed; what went wrong is printed with the command that repeats it."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cancel import ways
from kill.program import guarded, options, say, seeded

from chaos import simulator
from chaos.simulator import WORDS, Outcome
from lab.names import REPO

PROG = "chaos"


def play(seed: int, number: int) -> Outcome:
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-{number}-"))
    outcome = simulator.run(simulator.draw(seed, number), directory)
    if outcome.ok:
        shutil.rmtree(directory)
    return outcome


def tell(outcome: Outcome) -> None:
    case = outcome.case
    say(f"{case}: {'ok' if outcome.ok else 'WRONG'}, {outcome.seconds:.0f} s, exit codes {' '.join(outcome.codes)}")
    for text in outcome.did:
        say(f"    {text}")
    for word, texts in outcome.faults.items():
        for text in texts:
            say(f"    {word}: {text}")
    if not outcome.ok:
        kept = REPO / "build" / PROG / str(case.number)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(outcome.directory, kept)
        say(f'    kept: {kept}; again: make {PROG} CHAOS_ARGS="--seed {case.seed} --only {case.number}"')


def last_line(outcomes: list[Outcome]) -> str:
    words = [f"{word}={sum(len(outcome.faults[word]) for outcome in outcomes)}" for word in WORDS]
    return f"{PROG}: cases={len(outcomes)} {' '.join(words)}"


def work(args: argparse.Namespace) -> int:
    say(f"seed {args.seed}")
    numbers = args.only or range(1, args.cases + 1)
    outcomes = []
    with ways.simulators(), ProcessPoolExecutor(args.jobs) as pool:
        for outcome in pool.map(play, [args.seed] * len(numbers), numbers):
            tell(outcome)
            outcomes.append(outcome)
    say(last_line(outcomes))
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def parse() -> argparse.Namespace:
    parser = options(PROG, __doc__)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2, help="simulators at once (default 2)")
    return seeded(parser)


if __name__ == "__main__":
    ARGS = parse()
    sys.exit(guarded(PROG, lambda: work(ARGS), ways.end_all))
