# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make test-cancel: rolls that are cancelled at seeded moments; then the same command, or abort.yml.

Three hosts, on the simulator and on the lab. Cancelled by SIGINT, SIGTERM, SIGKILL of the process
group, by ansible-runner's own cancel, and by the end of a whole PID namespace, as a container
ends. What the words of the last line count: cancel/case.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kill.program import guarded, keep, options, say, seed

from cancel import simulator
from cancel.case import WORDS, Bed, Case, Outcome, draw, run

PROG = "test-cancel"
# How many times the moment is tried earlier, where the roll was over before it.
EARLIER = 4


def on_simulator(case: Case) -> Outcome:
    """A simulator for each try."""
    for _time in range(EARLIER):
        with simulator.bed() as bed:
            outcome = run(bed, case)
            if not outcome.missed:
                tell(outcome, bed)
                return outcome
        case = replace(case, events=case.events // 2)
    raise RuntimeError(f"{case}: the roll was over each time")


def tell(outcome: Outcome, bed: Bed) -> None:
    case, judgement = outcome.case, outcome.judgement
    text = f"{case} ({outcome.seen}): {'ok' if judgement.ok else 'WRONG'}, {outcome.seconds:.0f} s"
    if not judgement.ok:
        kept = keep(PROG, f"{case.platform}-{case.number}", bed.folders)
        text = "\n    ".join([text, *judgement.lines(), f"kept: {kept}", f"again: {again(case)}"])
    say(text)


def again(case: Case) -> str:
    return (
        f'make {PROG} CANCEL_ARGS="--platform {case.platform} --seed {SEED} --only {case.number}"'
    )


def cases(args: argparse.Namespace, platform: str, most: dict[str, int]) -> Iterator[Case]:
    last = {"simulator": args.simulator, "lab": args.lab}[platform]
    for number in [args.only] if args.only else range(1, last + 1):
        yield draw(SEED, platform, number, most)


def work(args: argparse.Namespace) -> int:
    say(f"seed {SEED}")
    outcomes: list[Outcome] = []
    if args.platform in ("", "simulator"):
        with ThreadPoolExecutor(args.jobs) as pool:
            outcomes += pool.map(on_simulator, cases(args, "simulator", simulator.Bed.most))
    good = sum(outcome.judgement.ok for outcome in outcomes)
    faults = " ".join(
        f"{word}={sum(len(outcome.judgement.faults[word]) for outcome in outcomes)}"
        for word in WORDS
    )
    say(f"{PROG}: cases={len(outcomes)} ok={good} {faults}")
    return 0 if good == len(outcomes) else 1


def parse() -> argparse.Namespace:
    parser = options(PROG, __doc__)
    parser.add_argument("--platform", choices=("simulator", "lab"), default="", help="only this")
    parser.add_argument("--simulator", type=int, default=60, help="cases there (default 60)")
    parser.add_argument("--lab", type=int, default=20, help="cases there (default 20)")
    parser.add_argument("--jobs", type=int, default=2, help="simulators at once (default 2)")
    return parser.parse_args()


if __name__ == "__main__":
    ARGS = parse()
    SEED = seed(ARGS)
    sys.exit(guarded(PROG, lambda: work(ARGS), lambda: None))
