"""When a drain asks for its next VMs: alone, and with others in the queue."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.cluster import Cluster
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.turns.turns import (
    MigrationProgress,
    Turns,
    may_begin,
)

EACH = 2
CLUSTER = Cluster((1, 9), "None", 5, EACH, False)


def asks(own: MigrationProgress, idle: bool = False, **others: int | None) -> int:
    return may_begin(16, own, CLUSTER, lambda: others, idle)


def not_looked() -> Mapping[str, int | None]:
    raise AssertionError("the board was read for nothing")


def test_the_first_ones_and_one_more_without_looking() -> None:
    other_drains = Told({})
    other_drains.vms_left = not_looked
    assert Turns(other_drains).may_begin(20, MigrationProgress(0, 0, 20), CLUSTER, None) == EACH + 1


def test_nothing_more_while_one_is_in_the_queue() -> None:
    assert may_begin(16, MigrationProgress(1, 2, 17), CLUSTER, not_looked, True) == 0


@pytest.mark.parametrize("cluster", [5, 1])
def test_all_of_them_when_it_is_alone(cluster: int) -> None:
    """Also where a node may have more than the cluster has."""
    narrow = Cluster((1, 9), "None", cluster, EACH, False)
    assert may_begin(16, MigrationProgress(0, 1, 16), narrow, dict, False) == 16


def test_all_of_them_where_the_cluster_has_slots_for_all_nodes() -> None:
    assert asks(MigrationProgress(0, 2, 16), n2=50) == 16
    assert asks(MigrationProgress(0, 2, 16), n2=50, n3=1) == 16
    assert asks(MigrationProgress(0, 2, 16), n2=50, n3=50) == 0


def test_the_node_with_the_most_left_goes_first() -> None:
    assert asks(MigrationProgress(0, 2, 8), n2=9, n3=8) == 0
    assert asks(MigrationProgress(0, 2, 9), n2=9, n3=8) == 1
    assert asks(MigrationProgress(0, 2, 9), n2=8, n3=7) == 1


def test_one_that_may_ask_for_few_has_its_turn_by_what_is_left() -> None:
    """A limit of its own, or priorities, let it ask for one; 40 are left all the same."""
    assert may_begin(1, MigrationProgress(0, 2, 40), CLUSTER, lambda: {"n2": 30, "n3": 30}, False) == 1


def test_what_others_did_not_tell_hinders_nobody() -> None:
    assert asks(MigrationProgress(0, 2, 9), n2=None, n3=None) == 1


def test_one_at_a_time_where_the_others_cannot_be_read() -> None:
    assert may_begin(16, MigrationProgress(0, 2, 16), CLUSTER, lambda: None, False) == 1


def test_others_that_tell_nothing_new_do_not_hold_it_up() -> None:
    """They may be dead: whoever has a free place and nobody in the queue asks for one."""
    assert asks(MigrationProgress(0, 1, 9), n2=99, n3=99) == 0
    assert asks(MigrationProgress(0, 1, 9), idle=True, n2=99, n3=99) == 1


def test_who_knows_of_others_does_not_begin_anew() -> None:
    assert Turns(Told(), Watch()).may_begin(9, MigrationProgress(0, 0, 9), CLUSTER, None) == 0


class Told:
    """A board; `left`: of others."""

    def __init__(self, left: dict[str, int | None] | None = None) -> None:
        left = {"n2": 99, "n3": 99} if left is None else left
        self.vms_left = lambda: left
        self.has_readers = bool(left)


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_idle_is_who_has_free_places_for_a_second() -> None:
    clock = Watch()
    turns = Turns(Told(), clock)
    assert turns.may_begin(9, MigrationProgress(0, 1, 9), CLUSTER, None) == 0
    clock.now = 0.9
    assert turns.may_begin(9, MigrationProgress(0, 1, 9), CLUSTER, None) == 0
    clock.now = 1.1
    assert turns.may_begin(9, MigrationProgress(0, 1, 9), CLUSTER, None) == 1
    assert turns.may_begin(9, MigrationProgress(0, 1, 9), CLUSTER, None) == 0, "it counts anew"
    clock.now = 300.0
    assert turns.may_begin(9, MigrationProgress(0, 2, 9), CLUSTER, None) == 0, "it has all that it may have"
    clock.now = 300.1
    assert turns.may_begin(9, MigrationProgress(0, 1, 9), CLUSTER, None) == 0, "one of its own has just ended"


def test_a_queue_that_is_none_for_slots_holds_nobody_up() -> None:
    """The cluster had free slots when it was read. It is believed once."""
    clock = Watch()
    turns = Turns(Told(), clock)
    clock.now = 10.0
    assert turns.may_begin(9, MigrationProgress(1, 0, 9), CLUSTER, None) == 0
    clock.now = 17.0
    assert turns.may_begin(9, MigrationProgress(1, 0, 9), CLUSTER, 11.0) == 0, "it was just to have its slot"
    assert turns.may_begin(9, MigrationProgress(1, 0, 9), CLUSTER, 17.0) == EACH
    assert turns.may_begin(9, MigrationProgress(3, 0, 9), CLUSTER, 17.0) == 0
    clock.now = 33.0
    assert turns.may_begin(9, MigrationProgress(3, 0, 9), CLUSTER, 32.0) == EACH
    assert turns.may_begin(9, MigrationProgress(3, EACH, 9), CLUSTER, 47.0) == 0


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
            left = {str(n): w + self.queue.count(n) for n, w in self.wanted.items()}
            own = MigrationProgress(self.queue.count(node), self.slots(node), left.pop(str(node)))
            count = wanted = self.wanted[node]
            if self.turns and not self.now:
                count = min(wanted, EACH + 1)
            elif self.turns:
                count = min(wanted, may_begin(wanted, own, CLUSTER, lambda left=left: left, False))
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
        self.now = 0.001
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
