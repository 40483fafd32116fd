"""What a notification is given."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import notifications, rules, stages
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Fleet, Roll, Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.rules import Ask

HOSTS = ("a", "b", "c")
AT = "2026-03-01T04:00:00Z"


@pytest.fixture
def roll() -> Roll:
    verdict = rules.begin(None, Ask("7f3a", "one", HOSTS), False, Fleet(HOSTS), AT)
    assert verdict.roll is not None
    return verdict.roll


def test_the_begin_has_its_line_and_its_hosts(roll: Roll) -> None:
    told = notifications.begun(roll, "roll 7f3a: 3 hosts")
    assert (told["event"], told["host"], told["message"]) == ("begin", "", "roll 7f3a: 3 hosts")
    assert (told["roll"], told["hosts"], told["done"], told["out"], told["failed"]) == ("7f3a", 3, 0, [], [])


def test_a_host_that_is_done_or_failed_is_told_and_nothing_between(roll: Roll) -> None:
    out = stages.with_stage(roll, "a", Stage.DRAINING, AT)
    assert notifications.of_host(out, "a") == {} and notifications.of_host(out, "x") == {}
    failed = stages.with_stage(out, "a", Stage.FAILED, AT, "", "The drain is blocked")
    told = notifications.of_host(failed, "a")
    assert (told["event"], told["host"], told["out"], told["failed"]) == ("failed", "a", ["a"], ["a"])
    assert told["message"] == "a has failed while draining: The drain is blocked"
    done = stages.with_stage(out, "a", Stage.DONE, AT)
    told = notifications.of_host(done, "a")
    assert (told["event"], told["done"], told["out"]) == ("done", 1, [])
    assert told["message"].startswith("a is done")


def test_the_end_says_what_is_left(roll: Roll) -> None:
    told = notifications.ended(rules.end(stages.with_stage(roll, "a", Stage.DONE, AT)))
    assert (told["event"], told["result"], told["done"]) == ("end", "stopped", 1)
    assert "Not begun: b, c" in told["message"]
