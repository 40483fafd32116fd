"""Two faults in one run: the second one comes some points after the first, or in the command that follows it.

There are too many to play all of them, so they are drawn, from a seed that is the scenario's name: the same ones in
each run. The kinds are drawn first, so that one with few points comes as often as one with many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from perturb import others
from perturb.play import Case
from perturb.points import FOR_GOOD, REFUSALS, Recorded

PAIRS = 120  # of each scenario
FAR = 60  # points, at most, between the two
# What the judge can tell apart beside another fault; by hosts and owners, see `others`.
_KINDS = ("kill", "kill_holder", "lost_answer", "refused", "no_answer", "error", "unseen", "unreadable", "silent_agent")


def pairs(run: Recorded, singles: list[Case], seed: str = "") -> Iterator[Case]:
    """`singles`: the cases of one fault of this scenario, of which the first ones are taken."""
    draw = random.Random(f"{run.scenario.name} {seed}")
    kinds: dict[str, list[Case]] = {}
    for case in singles:
        if case.kind in _KINDS or case.kind in others.ON_VMS or case.kind in others.ON_HOSTS:
            kinds.setdefault(case.kind, []).append(case)
    for _number in range(PAIRS if kinds else 0):
        first = draw.choice(kinds[draw.choice(sorted(kinds))])
        yield replace(first, second=_second(run, draw))


def _second(run: Recorded, draw: random.Random) -> Case:
    kind = draw.choice((*_KINDS, *others.ON_VMS, *others.ON_HOSTS))
    seconds = draw.choice((0.0, 10.0, FOR_GOOD))
    uuid = draw.choice(run.uuids)
    args: dict[str, Any] = {
        "refused": (draw.choice(REFUSALS), seconds),
        "no_answer": (draw.choice(run.scenario.hosts), seconds),
        "error": seconds,
        "unseen": draw.choice((1, 2, 4)),
        "unreadable": (uuid, draw.choice(("job", "facts", "both", "there", "arrival")), seconds),
        "silent_agent": seconds,
        **dict.fromkeys(others.ON_VMS, uuid),
        **dict.fromkeys(others.ON_HOSTS, draw.choice(run.scenario.hosts)),
    }
    return Case(kind, round(FAR ** draw.random()), args.get(kind))


__all__ = ["pairs"]
