"""What becomes of a VM is shown at most two seconds later, and no place for a migration stays empty for it.

On the model, by its clock.
"""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import FIXED, on
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain
from fleetsim.platform import ModelPlatform

SLICE, START = 15.0, 1.0  # seconds; between two slices the model's time goes on
VMS = 6


def made_of(*vms: Domain) -> Fleet:
    return fleet([("a", one) for one in vms], {"a": 8192, "b": 8192, "c": 8192})


def a_slice(made: Fleet, begun: bool, policy=POLICY, live: bool = True) -> Slice:
    platform = ModelPlatform(made, "a")
    record = begin(platform.load(), "a", "drained", "run", platform.now(), platform.own.boot_id, fresh=not begun)
    return Engine(platform, policy, record).run(platform.now() + SLICE, live=live)


def slices(made: Fleet, policy=POLICY) -> list[tuple[float, Slice]]:
    """Each with the time of its end."""
    found: list[tuple[float, Slice]] = []
    while not found or found[-1][1].ended is not SliceEnd.FINAL:
        assert len(found) < 50
        found.append((0.0, a_slice(made, bool(found), policy)))
        found[-1] = (made.clock, found[-1][1])
        until = made.clock + START
        while made.clock < until:
            made.advance(min(until, made.next_event()))
    return found


def ends(found: list[tuple[float, Slice]]) -> dict[str, tuple[float, float]]:
    """VM -> (when its migration ended, when the first slice that says so did)."""
    shown: dict[str, tuple[float, float]] = {}
    for at, outcome in found:
        for uuid, entry in outcome.record.vms.items():
            if entry.ending == "moved" and entry.last is not None:
                shown.setdefault(uuid, (entry.last.ended_at, at))
    return shown


def test_an_ending_is_shown_within_two_seconds() -> None:
    """Of one that comes between two slices it is a second after the next has begun."""
    found = slices(made_of(*(vm(number, "a") for number in range(1, VMS + 1))))
    shown = ends(found)
    assert len(shown) == VMS and len(found) > 2
    assert max(at - ended for ended, at in shown.values()) <= 2.0


def test_no_place_stays_empty_when_the_slice_ends() -> None:
    """As many migrations are under way at its end as may be, or as VMs are left."""
    most = POLICY.limits.outbound
    for _at, outcome in slices(made_of(*(vm(number, "a") for number in range(1, VMS + 1)))):
        left = [entry for entry in outcome.record.vms.values() if not entry.ending]
        under_way = [entry for entry in left if entry.last is not None and not entry.last.ended]
        assert len(under_way) == min(most, len(left)) or outcome.ended is SliceEnd.FINAL


def test_those_that_end_together_are_shown_together() -> None:
    """A new slice costs a second; not one for each of many fast VMs."""
    found = slices(made_of(*(vm(number, "a", memory=8) for number in range(1, 21))))
    assert len(found) <= 8


@pytest.mark.parametrize(("stops", "ending"), [(True, "stopped"), (False, "blocked")])
def test_a_stop_and_what_blocks_are_news_too(stops: bool, ending: str) -> None:
    made = made_of(vm(1, "a", **FIXED), vm(2, "a", memory=6000))
    began = made.clock
    outcome = a_slice(made, False, on("shutdown") if stops else POLICY)
    assert outcome.ended is SliceEnd.OUT_OF_TIME and made.clock - began < SLICE / 2
    assert outcome.record.vms["u1"].ending == ending


def test_without_a_reader_a_slice_has_its_time() -> None:
    made = made_of(vm(1, "a"), vm(2, "a", memory=6000))
    began = made.clock
    assert a_slice(made, False, live=False).ended is SliceEnd.OUT_OF_TIME
    assert made.clock - began >= SLICE
