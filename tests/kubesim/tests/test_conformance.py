# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator against what a real control plane answered.

expected/*.json holds, for each recorded scenario, the requests in their order and at their
times, the answers (status, message, reason, Retry-After), and the phases of every migration.
The simulator itself never sees these files.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubesim import Kubesim
from kubesim.replay import EXPECTED, Replay, check

# Not here as a replay: 17 (a node dies) is in test_cluster.py, by its moments; 18 (the bare API) is
# in test_api.py. Of these three, compared nowhere: the order of updates of different resources,
# texts and times of events, Warning headers, managedFields, and fields that no controller here
# writes (VMI guest info, volume status, conditions other than those that maintenance reads).
# Server-side apply and PartialObjectMetadata (18) are not simulated: nobody here uses them.


def scenarios() -> list[str]:
    return sorted(path.stem for path in EXPECTED.glob("*.json"))


@pytest.mark.parametrize("name", scenarios())
def test_it_answers_and_changes_as_the_real_one(name: str) -> None:
    with Kubesim(scale=0) as sim:
        if name[:2] in ("03", "09", "12", "15", "16"):  # so it was when they were recorded
            sim.configure(migrations={"parallelMigrationsPerCluster": 12})
        check(sim, Replay(sim, name))


def test_two_scenarios_at_once_under_other_names() -> None:
    with Kubesim(scale=0) as sim:
        sim.configure(migrations={"parallelMigrationsPerCluster": 12})
        check(
            sim,
            Replay(sim, "01-eviction-livemigrate", "x"),
            Replay(sim, "05-eviction-external", "y"),
            Replay(sim, "02-eviction-not-migratable", "z"),
        )


def test_other_durations() -> None:
    """Everything lasts longer; what is answered stays the same."""
    with Kubesim(scale=0) as sim:
        check(sim, Replay(sim, "01-eviction-livemigrate", "w", slower=1.7))


def backwards(steps: list[Any]) -> None:
    """The first evictions in the opposite order, each at the time of another one.

    A later one is left out: what it meets depends on the order.
    """
    where = [
        i for i, s in enumerate(steps) if s.get("path", "").endswith("/eviction") and s["t"] < 1
    ]
    times = [steps[i]["t"] for i in where]
    turned = [steps[i] for i in reversed(where)]
    for place, step, at in zip(where, turned, times, strict=True):
        steps[place] = {**step, "t": at}
    steps[:] = [s for s in steps if not (s.get("path", "").endswith("/eviction") and s["t"] >= 1)]


def test_another_order() -> None:
    """Six VMs evicted the other way round: the same answers, and all of them arrive."""
    with Kubesim(scale=0) as sim:
        check(sim, Replay(sim, "14-six-at-once-limits", mix=backwards))
