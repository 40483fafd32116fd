"""make chaos: cases by number, drawn by a seed; what went wrong is printed with the command that repeats it."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cancel.program import guarded, options, say, seeded

from chaos import hosts, simulator
from chaos.case import WORDS, Outcome
from lab.names import REPO

PROG = "chaos"
PLACES = {place.name: place for place in (simulator.PLACE, hosts.PLACE)}


def play(on: str, seed: int, number: int) -> Outcome:
    directory = Path(tempfile.mkdtemp(prefix=f"{PROG}-{number}-"))
    place = PLACES[on]
    outcome = place.run(place.draw(seed, number), directory)
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
        kept = REPO / "build" / PROG / f"{case.on}-{case.number}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(outcome.directory, kept)
        words = f"--on {case.on} --seed {case.seed} --only {case.number}"
        say(f'    kept: {kept}; again: make {PROG} CHAOS_ARGS="{words}"')


def last_line(outcomes: list[Outcome]) -> str:
    words = [f"{word}={sum(len(outcome.faults[word]) for outcome in outcomes)}" for word in WORDS]
    return f"{PROG}: cases={len(outcomes)} {' '.join(words)}"


def played(args: argparse.Namespace, numbers: Sequence[int]) -> Iterator[Outcome]:
    if args.on == "lab":  # one after another: each takes the whole machine
        yield from (play(args.on, args.seed, number) for number in numbers)
        return
    with ProcessPoolExecutor(args.jobs) as pool:
        yield from pool.map(play, [args.on] * len(numbers), [args.seed] * len(numbers), numbers)


def work(args: argparse.Namespace) -> int:
    say(f"seed {args.seed}")
    outcomes = []
    for outcome in played(args, args.only or range(1, args.cases + 1)):
        tell(outcome)
        outcomes.append(outcome)
    say(last_line(outcomes))
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def parse() -> argparse.Namespace:
    parser = options(PROG, __doc__)
    parser.add_argument("--on", choices=sorted(PLACES), default="simulator", help="default: simulator")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2, help="simulators at once (default 2)")
    return seeded(parser).parse_args()


def main() -> int:
    args = parse()
    return guarded(PROG, hosts.name() if args.on == "lab" else "", args.keep, lambda: work(args))


if __name__ == "__main__":
    sys.exit(main())
