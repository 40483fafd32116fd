"""make perturb: each scenario once for each point and each fault.

perturb/run.py [SCENARIO[/CASE] ...] [--share CASES --seed N] [--jobs N] [--show N]
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from perturb import ends, pairs, points, rolls
from perturb.play import Case
from perturb.scenarios import BY_NAME

NAMES = (*rolls.BY_NAME, *reversed(BY_NAME))  # the longest ones first, so that all processes end together
KINDS = ("differences_unexplained", "lost", "twice", "false_certificates", "left_behind", "out_of_order", "endless")


@dataclass
class Sum:
    """What came of some cases."""

    points: int = 0
    runs: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    shown: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, other: Sum) -> None:
        self.points += other.points
        self.runs += other.runs
        self.wrong += other.wrong
        self.shown += other.shown


def play(name: str, only: str = "", share: int = 0, seed: int = 1) -> Sum:
    """One scenario. `only`: cases whose name begins so. `share`: so many of them, drawn by `seed`; 0: all."""
    of_roll = name in rolls.BY_NAME
    layer, judge = (rolls, rolls) if of_roll else (points, ends)
    run: Any = layer.record((rolls.BY_NAME if of_roll else BY_NAME)[name])
    found = Sum(points=len(run.points) - run.first + 1)
    wanted = [*layer.cases(run)]
    wanted += (rolls if of_roll else pairs).pairs(run, wanted)
    wanted = [case for case in wanted if not only or str(case).startswith(only)]
    if share:
        random.Random(f"{seed} {name}").shuffle(wanted)
        wanted = one_of_each(wanted)
    for case in wanted[: share or None]:
        outcome = judge.run_case(run, case)
        if outcome is None:
            continue
        found.runs += 1
        found.wrong.update({wrong.kind for wrong in outcome.wrong})
        if outcome.wrong or only:
            found.shown.append((name, judge.told(outcome)))
    return found


def one_of_each(wanted: list[Case]) -> list[Case]:
    """One case of each kind, then a second one of each, and so on: some kinds have few points, others all."""
    count: Counter[str] = Counter()
    turns = []
    for case in wanted:
        kind = "two" if case.second else case.kind
        count[kind] += 1
        turns.append((count[kind], case))
    return [case for _turn, case in sorted(turns, key=lambda turn: turn[0])]


def groups(shown: list[tuple[str, dict[str, Any]]]) -> list[tuple[tuple[str, tuple[str, ...]], list[Any]]]:
    """What is wrong in the same words after the same fault, most of it first."""
    found: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
    for name, about in shown:
        found.setdefault(
            (
                " and ".join(part.split("/")[0] for part in about["case"].split("/and/")),
                tuple(dict.fromkeys(about["wrong"])),
            ),
            [],
        ).append((name, about))
    return sorted(found.items(), key=lambda group: -len(group[1]))


def last_line(scenarios: int, found: Sum) -> str:
    words = [f"scenarios={scenarios}", f"points={found.points}", f"runs={found.runs}"]
    return "perturb: " + " ".join([*words, *(f"{kind}={found.wrong[kind]}" for kind in KINDS)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--share", type=int, default=0, help="so many cases of each scenario, drawn by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    wanted = [name.partition("/") for name in options.scenarios] or [(name, "", "") for name in NAMES]
    all_of_it, began = Sum(), time.monotonic()
    with ProcessPoolExecutor(options.jobs) as pool:
        asked = [(name, only, options.share, options.seed) for name, _slash, only in wanted]
        for (name, *_rest), found in zip(asked, pool.map(play, *zip(*asked, strict=True)), strict=True):
            print(f"{name}: points={found.points} runs={found.runs} {dict(found.wrong)}", flush=True)
            all_of_it.add(found)
    for (kind, wrong), found in groups(all_of_it.shown)[: options.show]:
        name, about = found[0]
        print(f"\n{kind}, {len(found)} times, as {name}/{about['case']} ({', '.join(sorted({n for n, _a in found}))})")
        for line in (*wrong, *map(str, about["results"])):
            print(f"    {line}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.monotonic() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors")
    print(last_line(len(wanted), all_of_it))
    return 1 if all_of_it.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
