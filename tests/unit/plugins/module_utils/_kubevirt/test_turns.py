# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a drain asks for its next VMs: alone, and with others in the queue."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.cluster import Cluster
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.turns import (
    Course,
    room,
)

EACH = 2
CLUSTER = Cluster((1, 9), "None", 5, EACH, False)


def asks(own: Course, **others: int | None) -> int:
    return room(own, CLUSTER, lambda: others)


def not_looked() -> Mapping[str, int | None]:
    raise AssertionError("the board was read for nothing")


def test_the_first_ones_and_one_more_without_looking() -> None:
    assert room(Course(20, 0, 0, 1e9), CLUSTER, not_looked) == EACH + 1


def test_nothing_more_while_one_is_in_the_queue() -> None:
    assert room(Course(16, 1, 2, 5.0), CLUSTER, not_looked) == 0


def test_all_of_them_when_it_is_alone() -> None:
    assert asks(Course(16, 0, 2, 5.0)) == 16


def test_all_of_them_where_the_cluster_has_slots_for_all_nodes() -> None:
    assert asks(Course(16, 0, 2, 5.0), n2=50) == 16
    assert asks(Course(16, 0, 2, 5.0), n2=50, n3=1) == 16
    assert asks(Course(16, 0, 2, 5.0), n2=50, n3=50) == 0


def test_the_node_with_the_most_left_goes_first() -> None:
    assert asks(Course(8, 0, 2, 5.0), n2=9, n3=8) == 0
    assert asks(Course(9, 0, 2, 5.0), n2=9, n3=8) == 1
    assert asks(Course(9, 0, 2, 5.0), n2=8, n3=7) == 1


def test_what_others_did_not_tell_hinders_nobody() -> None:
    assert asks(Course(9, 0, 2, 5.0), n2=None, n3=None) == 1


@pytest.mark.parametrize(("since", "asked"), [(0.5, 0), (1.5, 1)])
def test_others_that_tell_nothing_new_do_not_hold_it_up(since: float, asked: int) -> None:
    """They may be dead: whoever has a free place and nobody in the queue asks for one."""
    assert asks(Course(9, 0, 1, since), n2=99, n3=99) == asked
    assert asks(Course(9, 0, 2, since), n2=99, n3=99) == 0


@pytest.mark.parametrize(("since", "asked"), [(59.0, 0), (61.0, 9)])
def test_a_queue_that_does_not_move_holds_nobody_up(since: float, asked: int) -> None:
    """What waits there for a minute waits for something else than a slot."""
    assert asks(Course(9, 2, 1, since), n2=99, n3=99) == asked
    assert asks(Course(9, 2, 2, since), n2=99, n3=99) == 0


class Server:
    """Slots of a cluster, given by chance to whoever waits; each is held for about a minute."""

    def __init__(self, nodes: int, vms: int, seed: int, turns: bool) -> None:
        self.chance = random.Random(seed)
        self.wanted = dict.fromkeys(range(nodes), vms)
        self.queue: list[int] = []
        self.held: list[tuple[float, int]] = []  # until when, by which node
        self.now = 0.0
        self.turns = turns

    def slots(self, node: int) -> int:
        return sum(holder == node for _until, holder in self.held)

    def ask(self) -> None:
        """Each sees what the others have told."""
        for node in self.chance.sample(list(self.wanted), len(self.wanted)):
            left = {str(n): w + self.queue.count(n) for n, w in self.wanted.items() if n != node}
            own = Course(self.wanted[node], self.queue.count(node), self.slots(node), 0.0)
            count = room(own, CLUSTER, lambda left=left: left) if self.turns else own.wanted
            count = min(count, own.wanted)
            self.wanted[node] -= count
            self.queue += [node] * count

    def give(self) -> None:
        self.chance.shuffle(self.queue)
        for node in list(self.queue):
            if len(self.held) < CLUSTER.cluster and self.slots(node) < EACH:
                self.queue.remove(node)
                self.held.append((self.now + self.chance.uniform(1.0, 1.01), node))

    def minutes(self) -> int:
        """A slot that is free is taken by who waits; only then the drains look and ask."""
        self.ask()
        self.give()
        while self.held:
            first = min(self.held)
            self.held.remove(first)
            self.now = first[0]
            self.give()
            self.ask()
            self.give()
        return round(self.now)


def late(turns: bool) -> int:
    """30 VMs, five slots: six minutes are enough. How many of 100 such maintenances take more."""
    return sum(Server(3, 10, seed, turns).minutes() > 6 for seed in range(100))


def test_the_slots_stay_full_to_the_end() -> None:
    """Whomever chance prefers. It may be that who ends first is who should wait."""
    assert late(turns=True) <= 3


def test_by_chance_alone_they_do_not() -> None:
    assert late(turns=False) >= 20
