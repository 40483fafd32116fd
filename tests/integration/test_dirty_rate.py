"""What guests write, measured by their real QEMU, and a rule that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from demo import plays, traces

from lab import GuestSpec, Lab, own_lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

HERE = {**plays.UNMEASURED, "maintenance_hosts": "host-a"}
WRITES, REGION, SECONDS = 12, 64, 2  # MiB/s, MiB, and how long QEMU measures
RULES = [
    {"name": "busy", "when": "dirty_rate > `1`", "on_not_migratable": "skip"},
    {"name": "quiet", "when": "dirty_rate <= `1`", "priority": 1},
]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two hosts; on host-a one guest that writes all the time, and one that does not."""
    with own_lab("dirty", 2) as lab:
        busy = GuestSpec("busy", memory_mib=256, dirty_mib_s=WRITES, dirty_region_mib=REGION)
        lab.run("host-a", busy)
        lab.run("host-a", GuestSpec("quiet", memory_mib=256, fill_mib=32))
        lab.wait_ticking(["busy", "quiet"])
        yield lab


def test_without_a_measurement_the_rule_cannot_be_told(lab: Lab) -> None:
    """First, since QEMU keeps what was measured."""
    ended = plays.run(lab, "drain", {**HERE, "drain_rules": RULES}, "--check")
    assert {row["reason"] for row in ended.last["vms"]} == {"Undecided"}, ended.text
    assert "dirty_rate" in ended.vm("busy")["message"]


def test_a_rule_tells_who_writes_from_who_does_not(lab: Lab) -> None:
    before = traces.snapshot(lab)
    measured = {**HERE, "drain_rules": RULES, "maintenance_measure_dirty_rate": SECONDS}
    ended = plays.run(lab, "drain", measured, "--check")
    assert ended.code == 0, ended.text
    decided = {row["name"]: row["decided_by"] for row in ended.last["vms"]}
    assert decided == {name: f"default, with rule {name}" for name in ("busy", "quiet")}
    assert traces.snapshot(lab) == before
    # What was measured stands with QEMU: the document has it, and the guest's own word is near.
    told = lab.host("host-a").virsh("domstats", "--dirtyrate", "busy")
    rate = int(told.partition("megabytes_per_second=")[2].split()[0])
    # On a busy machine a guest may do less than it should; it writes only in its region.
    assert 1 < rate <= REGION / SECONDS, told
