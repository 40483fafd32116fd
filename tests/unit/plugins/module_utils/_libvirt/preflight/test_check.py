"""What a libvirt host tells the preflight: slots, claims, clocks, post-copy, and what runs us."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Job, Reservation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits, Policy, PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Attempt, Intent, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight import check as preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight import userfaultfd
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight.check import Measured
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.hosts import (
    CAPS,
    CLOCKS,
    CLOSED,
    POST_COPY,
    UUID,
    Fleet,
    claim,
    record,
    stale,
)


def test_post_copy_needs_no_setting_where_qemu_is_root(fleet: Fleet) -> None:
    fleet.user = 0
    assert fleet.look(POST_COPY, CLOSED) == {}


def test_one_target_that_permits_post_copy_is_enough(fleet: Fleet) -> None:
    half = (Measured("b", 0.1, 0), Measured("c", 0.1, -1))
    row = fleet.look(POST_COPY, half)[Reason.PostCopyNotPermitted]
    assert (row["severity"], row["subject"]) == ("warning", "host b")


def test_a_host_that_its_vms_could_not_be_migrated_back_to_is_told(fleet: Fleet) -> None:
    """Its own kernel: while they leave only the targets need it."""
    mixed = (Measured("a", 0.1, 0), Measured("b", 0.1, -1), Measured("c", 0.1, -1))
    row = fleet.look(POST_COPY, mixed)[Reason.PostCopyNotPermitted]
    assert (row["severity"], row["subject"]) == ("warning", "host a")


@pytest.mark.parametrize(("old", "severity"), [("a", "blocker"), ("b", "warning"), ("bc", "blocker"), ("", "")])
def test_post_copy_is_refused_where_nobody_could_resume_it(fleet: Fleet, old: str, severity: str) -> None:
    fleet.user = 0
    for name in old:
        fleet.facts[name] = replace(fleet.facts[name], libvirt_version=8000000)
    row = fleet.look(POST_COPY, CLOSED).get(Reason.PostCopyNotPermitted)
    assert (row["severity"] if row else "") == severity
    assert not row or "libvirt is 8.0.0: only 8.5 and later can resume" in row["message"]
    assert Reason.PostCopyNotPermitted not in fleet.look()


def test_a_slot_that_is_just_being_taken_is_not_stuck(fleet: Fleet) -> None:
    stale(fleet)
    fleet.later = {**fleet.reads, "b": HostNow("b")}
    assert Reason.StuckMigration not in fleet.look()


def test_slots_of_a_killed_run_do_not_keep_the_next_one_from_carrying_on(fleet: Fleet) -> None:
    stale(fleet)
    for number in range(2):
        claimed = UUID(number)
        fleet.obs.claims[claimed] = Reservation(claimed, "b", "a", 512)
    assert Reason.StuckMigration not in fleet.look()


def test_a_slot_whose_migration_runs_is_not_stuck(fleet: Fleet) -> None:
    stale(fleet, 1)
    fleet.reads["a"].domains[UUID(0)].job = Job()
    assert Reason.StuckMigration not in fleet.look()


def test_a_stale_slot_beside_free_ones_is_a_warning(fleet: Fleet) -> None:
    stale(fleet, 1)
    assert fleet.look()[Reason.StuckMigration]["severity"] == "warning"
    assert fleet.look(Policy(limits=Limits(1, 1, 1)))[Reason.StuckMigration]["severity"] == "blocker"


def test_claims_and_marks_of_a_maintenance_that_stands_are_not_left_over(fleet: Fleet) -> None:
    record(fleet)
    claim(fleet)
    fleet.vm(marked=True)
    assert set(fleet.look()) == {Reason.MaintenanceUnderWay}


def test_a_migration_of_the_run_that_stands_is_ours(fleet: Fleet) -> None:
    record(fleet)
    fleet.vm(job=Job())
    assert Reason.MigrationInFlight in fleet.look()
    assert fleet.record is not None
    entry = VMRecord(UUID(0), "vm0", 1024)
    entry.attempts.append(Attempt(1, "b", "LiveMigration", 0.0, "boot"))
    fleet.record.vms[UUID(0)] = entry
    assert Reason.MigrationInFlight not in fleet.look()


def test_a_vm_that_runs_us_and_can_move_is_good_to_know(fleet: Fleet) -> None:
    """The drain moves it last: that is no blocker."""
    fleet.vm(control_node="It is us.")
    told = fleet.look()
    row = told[Reason.RunsTheMaintenance]
    assert (row["severity"], row["message"]) == ("warning", "It is us. It is moved last.")
    fleet.vm(declared_strategy="None")
    told = fleet.look(Policy(allow_stop=True))
    assert set(told) == {Reason.RunsTheMaintenance, Reason.MigrationInTheClear}
    row = told[Reason.RunsTheMaintenance]
    assert (row["severity"], row["message"]) == ("blocker", "It is us. It is never stopped.")


def test_of_two_clocks_the_one_that_the_controller_does_not_have_is_wrong(fleet: Fleet) -> None:
    for clocks, wrong in (((0.1, 90.0), "b"), ((-90.0, 0.1), "a"), ((90.0, 90.2), "")):
        told = fleet.look(measured=tuple(map(Measured, "ab", clocks)))
        row = told.get(Reason.ClockSkew, {"subject": "host "})
        assert row["subject"] == f"host {wrong}"


@pytest.mark.parametrize(("ahead", "wrong"), [(14.0, False), (16.0, True)])
def test_a_slow_connection_is_no_skew(fleet: Fleet, ahead: float, wrong: bool) -> None:
    """It took 20 s to read: the clock may be right to 10 s, and five more."""
    slow = Measured("b", ahead, clock_within=10.0)
    told = fleet.look(measured=(CLOCKS[0], slow, CLOCKS[2]))
    assert (Reason.ClockSkew in told) is wrong


def test_clocks_that_nobody_measured_are_not_checked(fleet: Fleet) -> None:
    """Silence would read as: they agree."""
    for measured, dark in (((), "a, b, c"), (CLOCKS[:1], "b, c"), ((CLOCKS[0], Measured("b"), CLOCKS[2]), "b")):
        row = fleet.look(measured=measured)[Reason.NotChecked]
        assert (row["severity"], row["message"]) == ("warning", f"The clocks of {dark}.")
    for name in "bc":
        fleet.obs.nodes[name].reachable = False
    assert Reason.NotChecked not in fleet.look(measured=())


def test_the_kernels_setting_and_qemus_user() -> None:
    assert userfaultfd.own_userfaultfd("/does/not/exist") == -1
    assert userfaultfd.qemu_is_root(CAPS.format(0)) is True
    assert userfaultfd.qemu_is_root(CAPS.format(64055)) is False
    assert userfaultfd.qemu_is_root("<capabilities><host/></capabilities>") is None
    permits = userfaultfd.permits_userfaultfd
    assert (permits(0, False), permits(0, True), permits(1, False)) == (False, True, True)
    assert permits(None, False) is None and permits(0, None) is None


def test_a_wrong_name_in_measured_is_one_clear_error() -> None:
    request = Request(HostConfig("a", "qemu:///system"), [], Policy(), Intent.DRAINED, "preflight")
    with pytest.raises(PolicyError, match="measured names z, which is neither node nor"):
        preflight.preflight(request, {}, [Measured("z")])


def test_hosts_whose_whole_memory_counts_as_room_are_named(fleet: Fleet) -> None:
    """One that keeps something free has said enough, and of the drained one nothing is asked."""
    bare = {name: replace(config, memory_mib=0) for name, config in fleet.configs.items()}
    fleet.configs = bare | {"c": replace(bare["c"], reserve_mib=2048)}
    row = fleet.look()[Reason.CapacityNotDeclared]
    assert (row["severity"], row["message"]) == ("warning", "Not declared for b.")
