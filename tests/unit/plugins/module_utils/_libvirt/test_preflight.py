# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a libvirt host tells the preflight, on a stand-in for the platform that cannot write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import (
    VM,
    Job,
    Node,
    Observation,
    OnNotMigratable,
    Reservation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.policy import (
    Limits,
    MigrationSettings,
    Policy,
    PolicyError,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight import (
    check,
    result,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight_catalogue import (
    CHECKS,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight_words import (
    Check,
    Platform,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons import (
    Finding,
    Reason,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import (
    Attempt,
    Intent,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import (
    preflight,
    preflight_host,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import (
    DomainNow,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host_facts import (
    HostFacts,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.migratable import (
    MediumMissing,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight import (
    Measured,
    gather,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.service import Request
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store_names import Slot
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.rules import compile_rules

UUID = "11111111-2222-3333-4444-55555555555{}".format
CAPS = (
    "<capabilities><host><secmodel><model>apparmor</model></secmodel><secmodel><model>dac</model>"
    "<baselabel type='kvm'>+{0}:+{0}</baselabel></secmodel></host></capabilities>"
)
POLICY = Policy()
POST_COPY = Policy(migration=MigrationSettings(post_copy=True))


CLOCKS = tuple(Measured(name, 0.1) for name in "abc")


class Reader:
    """Has what reads, and nothing that writes: anything else is an AttributeError."""

    def __init__(self, **reads: Any) -> None:
        self.__dict__.update(reads)


class Fleet:
    """Three hosts; two VMs run on a. Tests change what stands in it."""

    def __init__(self) -> None:
        vms = {UUID(n): VM(UUID(n), f"vm{n}", "a", memory_mib=1024) for n in range(2)}
        nodes = {name: Node(name, capacity_mib=65536) for name in "abc"}
        self.obs = Observation(nodes=nodes, vms=vms)
        self.record: NodeRecord | None = None
        self.facts = {
            name: HostFacts(libvirt_version=9000000, hypervisor_version=7002000) for name in "abc"
        }
        self.user = 64055
        self.copied: dict[str, tuple[str, ...]] = {}
        self.reads = {name: HostNow(name) for name in "abc"}
        self.reads["a"].domains = {
            vm.uuid: DomainNow(vm.uuid, vm.name, State.RUNNING, 1024) for vm in vms.values()
        }
        self.later = dict(self.reads)

    def vm(self, **changes: Any) -> None:
        self.obs.vms[UUID(0)] = replace(self.obs.vms[UUID(0)], **changes)

    def look(
        self,
        policy: Policy = POLICY,
        measured: tuple[Measured, ...] = CLOCKS,
    ) -> dict[Check, dict[str, Any]]:
        conn = Reader(getCapabilities=lambda: CAPS.format(self.user))
        hosts = {name: Reader(name=name, conn=conn, facts=self.facts[name]) for name in "abc"}
        observer = Reader(
            copied=lambda uuid: self.copied.get(uuid, ()),
            reads=self.reads,
            read_hosts=lambda: self.later,
        )
        platform: Any = Reader(
            load=lambda: self.record,
            observe=lambda _record: self.obs,
            observer=observer,
            source=hosts["a"],
            hosts=hosts,
            slots_on="b",
        )
        own = HostConfig("a", "qemu:///system")
        peers = [HostConfig(name, f"qemu+tls://{name}/system") for name in "bc"]
        request = Request(own, peers, policy, Intent.DRAINED, "preflight")
        facts = gather(platform, request, measured)
        rows = result(facts, check(facts, policy), {})["findings"]
        return {Check(row["code"]): row for row in rows}


@pytest.fixture
def fleet(monkeypatch) -> Fleet:
    monkeypatch.setattr(preflight, "own_userfaultfd", lambda: 1)
    return Fleet()


# Planting


def source(reason: Reason) -> Callable[[Fleet], Any]:
    why = (Finding(reason, "because"),)
    return lambda fleet: fleet.vm(migratable=False, findings=why)


def target(reason: Reason) -> Callable[[Fleet], Any]:
    why = (Finding(reason, "because"),)
    return lambda fleet: fleet.vm(refused_by={"b": why, "c": why})


def unreachable(fleet: Fleet) -> None:
    fleet.obs.nodes["c"] = Node("c", reachable=False, message="no route to host")


def inbound(fleet: Fleet) -> None:
    fleet.obs.inbound.append(Reservation(UUID(9), "a", "c", 512))


def twice(fleet: Fleet) -> None:
    fleet.obs.sightings[UUID(0)] = [Sighting("c", State.RUNNING)]


def medium(fleet: Fleet) -> None:
    volume = {"target": "sda", "device": "cdrom", "source": "/iso/tools.iso", "shared": False}
    why = (MediumMissing(Reason.DISKS, "b does not have it: eject it.", "sda"),)
    fleet.vm(document={"volumes": [volume]}, refused_by={"b": why, "c": why})


def record(fleet: Fleet) -> None:
    fleet.record = NodeRecord("a", "r1", requester="ann", started_wall="2026-01-01T00:00:00Z")


def cordon(fleet: Fleet) -> None:
    fleet.obs.nodes["a"].cordoned = True


def all_cordoned(fleet: Fleet) -> None:
    for name in "bc":
        fleet.obs.nodes[name].cordoned = True


def too_full(fleet: Fleet) -> None:
    """Either fits, both do not."""
    fleet.obs.nodes["b"].capacity_mib = 1500
    fleet.obs.nodes["c"].cordoned = True


def older(fleet: Fleet) -> None:
    for name in "bc":
        fleet.facts[name] = HostFacts(libvirt_version=9000000, hypervisor_version=6000000)


def stale(fleet: Fleet, count: int = 2) -> None:
    """As many slots as may leave a host at once are taken, and nothing migrates."""
    fleet.reads["b"].slots = [Slot(UUID(n), "a") for n in range(count)]


def claim(fleet: Fleet) -> None:
    fleet.obs.claims[UUID(9)] = Reservation(UUID(9), "b", "a", 512)


Look = Callable[[Fleet], dict[Check, dict[str, Any]]]
SKEWED = (Measured("a", 0.2), Measured("b", 0.4), Measured("c", 90.0))
CLOSED = (Measured("a", 0.1), Measured("b", 0.1, 0), Measured("c", 0.1, 0))
PLANTS: dict[Check, Callable[[Fleet], Any]] = {
    **{
        Check(reason.value): source(reason)
        for reason in (
            *(Reason.DISKS, Reason.INTERFACE, Reason.HOTPLUG, Reason.VIRTIOFS, Reason.HOST_DEVICE),
            *(Reason.SEV, Reason.SECURE_EXECUTION, Reason.TDX, Reason.HYPERV_PASSTHROUGH),
            *(Reason.PERSISTENT_RESERVATION, Reason.SNAPSHOTS, Reason.BLOCK_JOB, Reason.TPM_STATE),
        )
    },
    **{
        Check(reason.value): target(reason)
        for reason in (
            *(Reason.CPU_MODEL, Reason.MACHINE_TYPE, Reason.NAME_TAKEN, Reason.SECRET),
            *(Reason.HUGEPAGES, Reason.PINNING),
        )
    },
    Check.NOT_RUNNING_NORMALLY: lambda fleet: fleet.vm(state=State.PAUSED),
    Check.NOT_KNOWN_YET: lambda fleet: fleet.vm(
        migratable=None, findings=(Finding(Reason.NOT_KNOWN_YET, "no XML"),)
    ),
    Check.NO_TARGET: lambda fleet: fleet.vm(memory_mib=10**6),
    Check.LAST_NODE: all_cordoned,
    Check.FLEET_TOO_FULL: too_full,
    Check.NEWER_TO_OLDER: older,
    Check.STORAGE_HERE: lambda fleet: fleet.copied.update({UUID(0): ("vda",)}),
    Check.LOCAL_MEDIUM: medium,
    Check.EXTERNAL_OWNER: lambda fleet: fleet.vm(declared_strategy="External"),
    Check.STOP_NOT_ALLOWED: lambda fleet: fleet.vm(declared_strategy="None"),
    Check.CRASHED: lambda fleet: fleet.vm(state=State.CRASHED),
    Check.RUNNING_TWICE: twice,
    Check.POSTCOPY_BROKEN: lambda fleet: fleet.vm(state=State.POSTCOPY_FAILED),
    Check.MANAGED_SAVE: lambda fleet: fleet.vm(state=State.SHUTOFF, managed_save=True),
    Check.IN_FLIGHT: lambda fleet: fleet.vm(job=Job(elapsed=12.0)),
    Check.INBOUND: inbound,
    Check.STUCK: stale,
    Check.LEFT_MARK: lambda fleet: fleet.vm(marked=True),
    Check.LEFT_CLAIM: claim,
    Check.RECORD: record,
    Check.CORDONED: cordon,
    Check.PEER_UNREACHABLE: unreachable,
    Check.RUNS_THE_MAINTENANCE: lambda fleet: fleet.vm(
        runs_us="It is us.", migratable=False, declared_strategy="None"
    ),
}


def _transient(fleet: Fleet) -> dict[Check, dict[str, Any]]:
    source(Reason.DISKS)(fleet)
    fleet.vm(save_findings=(Finding(Reason.TRANSIENT, "It is transient."),))
    return fleet.look(Policy(on_not_migratable=OnNotMigratable.SAVE, allow_stop=True))


def _undecided(fleet: Fleet) -> dict[Check, dict[str, Any]]:
    fleet.vm(document={"dirty_rate": None})
    fleet.obs.vms.pop(UUID(1))
    raw = [{"name": "writers", "when": "dirty_rate > `100`", "strategy": "External"}]
    return fleet.look(Policy(rules=compile_rules(raw, MigrationSettings())))


def _skipped(fleet: Fleet) -> dict[Check, dict[str, Any]]:
    source(Reason.DISKS)(fleet)
    return fleet.look(Policy(on_not_migratable=OnNotMigratable.SKIP))


def _stopped(fleet: Fleet) -> dict[Check, dict[str, Any]]:
    fleet.vm(declared_strategy="None")
    return fleet.look(Policy(allow_stop=True))


# These need an option as well.
WITH: dict[Check, Look] = {
    Check.TRANSIENT: _transient,
    Check.UNDECIDED: _undecided,
    Check.SKIPPED: _skipped,
    Check.STAYS_OFF: _stopped,
    Check.POST_COPY: lambda fleet: fleet.look(POST_COPY, CLOSED),
    Check.CLOCK_SKEW: lambda fleet: fleet.look(measured=SKEWED),
    Check.NOT_CHECKED: lambda fleet: fleet.look(POST_COPY),
}


def test_every_code_of_this_platform_is_planted_here() -> None:
    here = {c for c, info in CHECKS.items() if Platform.LIBVIRT in info.platforms}
    assert here == set(PLANTS) | set(WITH)


@pytest.mark.parametrize("member", [*PLANTS, *WITH], ids=lambda member: member.value)
def test_what_is_planted_is_found(fleet: Fleet, member: Check) -> None:
    if member in PLANTS:
        PLANTS[member](fleet)
        told = fleet.look()
    else:
        told = WITH[member](fleet)
    assert member in told, sorted(told)
    assert told[member]["severity"] == CHECKS[member].severity.value


def test_a_clean_fleet_has_none(fleet: Fleet) -> None:
    open_ = tuple(Measured(name, 0.1, 1) for name in "abc")
    assert fleet.look(POST_COPY, open_) == {}


# Particulars


def test_post_copy_needs_no_setting_where_qemu_is_root(fleet: Fleet) -> None:
    fleet.user = 0
    assert fleet.look(POST_COPY, CLOSED) == {}


def test_one_target_that_permits_post_copy_is_enough(fleet: Fleet) -> None:
    half = (Measured("b", 0.1, 0), Measured("c", 0.1, -1))
    row = fleet.look(POST_COPY, half)[Check.POST_COPY]
    assert (row["severity"], row["subject"]) == ("warning", "host b")


def test_a_slot_that_is_just_being_taken_is_not_stuck(fleet: Fleet) -> None:
    stale(fleet)
    fleet.later = {**fleet.reads, "b": HostNow("b")}
    assert Check.STUCK not in fleet.look()


def test_slots_of_a_killed_run_do_not_keep_the_next_one_from_carrying_on(fleet: Fleet) -> None:
    stale(fleet)
    for number in range(2):
        claimed = UUID(number)
        fleet.obs.claims[claimed] = Reservation(claimed, "b", "a", 512)
    assert Check.STUCK not in fleet.look()


def test_a_slot_whose_migration_runs_is_not_stuck(fleet: Fleet) -> None:
    stale(fleet, 1)
    fleet.reads["a"].domains[UUID(0)].job = Job()
    assert Check.STUCK not in fleet.look()


def test_a_stale_slot_beside_free_ones_is_a_warning(fleet: Fleet) -> None:
    stale(fleet, 1)
    assert fleet.look()[Check.STUCK]["severity"] == "warning"
    assert fleet.look(Policy(limits=Limits(1, 1, 1)))[Check.STUCK]["severity"] == "blocker"


def test_claims_and_marks_of_a_maintenance_that_stands_are_not_left_over(fleet: Fleet) -> None:
    record(fleet)
    claim(fleet)
    fleet.vm(marked=True)
    assert set(fleet.look()) == {Check.RECORD}


def test_a_migration_of_the_run_that_stands_is_ours(fleet: Fleet) -> None:
    record(fleet)
    fleet.vm(job=Job())
    assert Check.IN_FLIGHT in fleet.look()
    assert fleet.record is not None
    entry = VMRecord(UUID(0), "vm0", 1024)
    entry.attempts.append(Attempt(1, "b", "LiveMigration", 0.0, "boot"))
    fleet.record.vms[UUID(0)] = entry
    assert Check.IN_FLIGHT not in fleet.look()


def test_a_vm_that_runs_us_and_can_move_is_good_to_know(fleet: Fleet) -> None:
    """The drain moves it last: that is no blocker."""
    fleet.vm(runs_us="It is us.")
    told = fleet.look()
    row = told[Check.RUNS_THE_MAINTENANCE]
    assert (row["severity"], row["message"]) == ("warning", "It is us. It is moved last.")
    fleet.vm(declared_strategy="None")
    told = fleet.look(Policy(allow_stop=True))
    assert set(told) == {Check.RUNS_THE_MAINTENANCE}
    row = told[Check.RUNS_THE_MAINTENANCE]
    assert (row["severity"], row["message"]) == ("blocker", "It is us. It is never stopped.")


def test_of_two_clocks_the_one_that_the_controller_does_not_have_is_wrong(fleet: Fleet) -> None:
    for clocks, wrong in (((0.1, 90.0), "b"), ((-90.0, 0.1), "a"), ((90.0, 90.2), "")):
        told = fleet.look(measured=tuple(map(Measured, "ab", clocks)))
        row = told.get(Check.CLOCK_SKEW, {"subject": "host "})
        assert row["subject"] == f"host {wrong}"


def test_clocks_that_nobody_measured_are_not_checked(fleet: Fleet) -> None:
    """Silence would read as: they agree."""
    for measured, dark in (
        ((), "a, b, c"),
        (CLOCKS[:1], "b, c"),
        ((CLOCKS[0], Measured("b"), CLOCKS[2]), "b"),
    ):
        row = fleet.look(measured=measured)[Check.NOT_CHECKED]
        assert (row["severity"], row["message"]) == ("warning", f"The clocks of {dark}.")
    for name in "bc":
        fleet.obs.nodes[name].reachable = False
    assert Check.NOT_CHECKED not in fleet.look(measured=())


def test_the_kernels_setting_and_qemus_user() -> None:
    assert preflight_host.own_userfaultfd("/does/not/exist") == -1
    assert preflight_host.qemu_is_root(CAPS.format(0)) is True
    assert preflight_host.qemu_is_root(CAPS.format(64055)) is False
    assert preflight_host.qemu_is_root("<capabilities><host/></capabilities>") is None
    permits = preflight_host.permits_userfaultfd
    assert (permits(0, False), permits(0, True), permits(1, False)) == (False, True, True)
    assert permits(None, False) is None and permits(0, None) is None


def test_a_wrong_name_in_measured_is_one_clear_error() -> None:
    request = Request(HostConfig("a", "qemu:///system"), [], Policy(), Intent.DRAINED, "preflight")
    with pytest.raises(PolicyError, match="measured names z, which is neither node nor"):
        preflight.preflight(request, {}, [Measured("z")])
