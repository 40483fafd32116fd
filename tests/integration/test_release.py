"""Hosts of two releases: a VM of the newer one goes back to the older one where a rule allows it, and not else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from demo import plays, report

from lab import GuestSpec, Lab, own_lab, release

pytestmark = [pytest.mark.lab, pytest.mark.full]

NEW = "trixie"
# QEMU 7.2 and 10.0 have it; "pc" is another one on each.
KNOWN = GuestSpec("known", machine="pc-q35-7.2", disks=[("shared", 8)], dirty_mib_s=2)
ONLY_NEW = GuestSpec("only-new")
OLDER = {"name": "back", "allow_older_hypervisor": True}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Both guests are started on the newer host."""
    lacking = release.missing(NEW)
    if lacking:
        pytest.skip(lacking)
    with own_lab("older", 2, releases={"host-a": release.OWN, "host-b": NEW}) as lab:
        for spec in (KNOWN, ONLY_NEW):
            lab.run("host-b", spec)
        lab.wait_ticking(["known", "only-new"])
        yield lab


def drain(lab: Lab, **more: object) -> plays.Ended:
    return plays.run(lab, "drain", {**plays.UNMEASURED, "maintenance_hosts": "host-b", **more})


def test_without_a_rule_it_goes_to_no_older_host(lab: Lab) -> None:
    ended = drain(lab)
    assert ended.code == 2, ended.text
    assert "BLOCKER NewerToOlder host host-a" in ended.text
    assert lab.where() == {"known": [("host-b", "running")], "only-new": [("host-b", "running")]}


def test_by_a_rule_it_goes_where_its_machine_type_is_known(lab: Lab) -> None:
    """And back again: what an older QEMU sends the newer one takes."""
    ended = drain(lab, drain_rules=[OLDER])
    assert ended.code == 2, ended.text
    stays = ended.vm("only-new")
    assert (stays["verdict"], stays["reason"]) == ("blocked", "MachineTypeMissing"), stays
    assert lab.where() == {"known": [("host-a", "running")], "only-new": [("host-b", "running")]}
    lab.wait_ticking(["known", "only-new"])
    assert plays.run(lab, "restore", {**plays.UNMEASURED, "maintenance_hosts": "host-b"}).code == 0
    back = plays.run(lab, "drain", {**plays.UNMEASURED, "maintenance_hosts": "host-a"})
    assert back.code == 0, back.text
    assert lab.where()["known"] == [("host-b", "running")]
    lab.wait_ticking(["known", "only-new"])
    totals = report.check(lab.paths.raw, {"host-a"})["totals"]
    assert not {key: totals[key] for key in report.HURT if totals[key]}
