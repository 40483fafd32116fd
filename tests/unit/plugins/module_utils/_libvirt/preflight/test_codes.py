"""Each code that a libvirt host can have is planted once and found; a clean fleet has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from integration import test_reasons

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Job,
    Node,
    OnNotMigratable,
    Reservation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings, Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import (
    CHECKED,
    Finding,
    Platform,
    Reason,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.disk_moves import MediumMissing
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight.check import Measured
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.rules import compile_rules
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.hosts import (
    CLOSED,
    PKI,
    POST_COPY,
    UUID,
    Fleet,
    claim,
    record,
    stale,
)

AGENT = (
    "<domain id='1'><devices><channel><target name='org.qemu.guest_agent.0' state='{}'/></channel></devices></domain>"
)

# Planting


def source(reason: Reason) -> Callable[[Fleet], Any]:
    why = (Finding(reason, "because"),)
    return lambda fleet: fleet.vm(migratable=False, findings=why)


def target(reason: Reason) -> Callable[[Fleet], Any]:
    why = (Finding(reason, "because"),)
    return lambda fleet: fleet.vm(refused_by={"b": why, "c": why})


def unreachable(fleet: Fleet) -> None:
    """Most of the quorum hosts."""
    for name in "bc":
        fleet.obs.nodes[name] = Node(name, reachable=False, message="no route to host")


def inbound(fleet: Fleet) -> None:
    fleet.obs.inbound.append(Reservation(UUID(9), "a", "c", 512))


def broken(fleet: Fleet) -> None:
    fleet.vm(state=State.POSTCOPY_FAILED)
    fleet.obs.sightings[UUID(0)] = [Sighting("b", State.POSTCOPY)]


def twice(fleet: Fleet) -> None:
    fleet.obs.sightings[UUID(0)] = [Sighting("c", State.RUNNING)]


def medium(fleet: Fleet) -> None:
    volume = {"target": "sda", "device": "cdrom", "source": "/iso/tools.iso", "shared": False}
    why = (MediumMissing(Reason.DisksNotLiveMigratable, "b does not have it: eject it.", "sda"),)
    fleet.vm(document={"volumes": [volume]}, refused_by={"b": why, "c": why})


def cordon(fleet: Fleet) -> None:
    fleet.obs.nodes["a"].cordoned = True


def a_pool_stopped(fleet: Fleet) -> None:
    fleet.record = NodeRecord("a", "r1", provides=["storage pool nfs", "network lan"])
    fleet.facts["a"] = replace(fleet.facts["a"], pools={}, networks={"lan": ""})


def an_agent_silent(fleet: Fleet) -> None:
    fleet.record = NodeRecord("a", "r1")
    fleet.record.vms[UUID(7)] = VMRecord(UUID(7), "web", agent=True, ending="moved")
    fleet.obs.sightings[UUID(7)] = [Sighting("b", State.RUNNING)]
    fleet.xml = AGENT.format("disconnected")
    fleet.obs.vms.clear()


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


def undeclared(fleet: Fleet) -> None:
    fleet.configs["b"] = replace(fleet.configs["b"], memory_mib=0)


Look = Callable[[Fleet], dict[Reason, dict[str, Any]]]
SKEWED = (Measured("a", 0.2), Measured("b", 0.4), Measured("c", 90.0))

PLANTS: dict[Reason, Callable[[Fleet], Any]] = {
    **{
        Reason(reason.value): source(reason)
        for reason in (
            *(
                Reason.DisksNotLiveMigratable,
                Reason.InterfaceNotLiveMigratable,
                Reason.HotplugNotLiveMigratable,
                Reason.VirtIOFSNotLiveMigratable,
                Reason.HostDeviceNotLiveMigratable,
            ),
            *(
                Reason.SEVNotLiveMigratable,
                Reason.SecureExecutionNotLiveMigratable,
                Reason.TDXNotLiveMigratable,
                Reason.HypervPassthroughNotLiveMigratable,
            ),
            *(
                Reason.PersistentReservationNotLiveMigratable,
                Reason.SnapshotsPresent,
                Reason.BlockJobRunning,
                Reason.TPMStateNotLiveMigratable,
            ),
            *(
                Reason.SharedMemoryNotLiveMigratable,
                Reason.LaunchSecurityNotLiveMigratable,
                Reason.QEMUCommandLineNotDeclared,
            ),
            *(Reason.MigrationBlockedByQEMU, Reason.CheckpointsPresent, Reason.PendingChanges),
        )
    },
    **{
        Reason(reason.value): target(reason)
        for reason in (
            *(Reason.CPUModelNotLiveMigratable, Reason.MachineTypeMissing, Reason.NameTaken, Reason.SecretMissing),
            *(
                Reason.HugepagesMissing,
                Reason.PinningNotLiveMigratable,
                Reason.EmulatorMissing,
                Reason.GraphicsNotLiveMigratable,
            ),
            Reason.FileMissing,
        )
    },
    Reason.StateNotLiveMigratable: lambda fleet: fleet.vm(state=State.PAUSED),
    Reason.MigratableNotKnown: lambda fleet: fleet.vm(
        migratable=None, findings=(Finding(Reason.MigratableNotKnown, "no XML"),)
    ),
    Reason.NoTargetWithCapacity: lambda fleet: fleet.vm(memory_mib=10**6),
    Reason.LastSchedulableNode: all_cordoned,
    Reason.FleetTooFull: too_full,
    Reason.NewerToOlder: older,
    Reason.CapacityNotDeclared: undeclared,
    Reason.StorageOnlyHere: lambda fleet: fleet.copied.update({UUID(0): ("vda",)}),
    Reason.LocalMedium: medium,
    Reason.ExternalOwner: lambda fleet: fleet.vm(declared_strategy="External"),
    Reason.StopNotAllowed: lambda fleet: fleet.vm(declared_strategy="None"),
    Reason.VMCrashed: lambda fleet: fleet.vm(state=State.CRASHED),
    Reason.RunningTwice: twice,
    Reason.PostCopyBroken: broken,
    Reason.Irrecoverable: lambda fleet: fleet.vm(state=State.POSTCOPY_FAILED),
    Reason.StartsWithHost: lambda fleet: fleet.vm(state=State.SHUTOFF, autostart=True),
    Reason.ManagedSavePresent: lambda fleet: fleet.vm(state=State.SHUTOFF, managed_save=True),
    Reason.MigrationInFlight: lambda fleet: fleet.vm(job=Job(elapsed=12.0)),
    Reason.InboundMigration: inbound,
    Reason.StuckMigration: stale,
    Reason.LeftoverMark: lambda fleet: fleet.vm(marked=True),
    Reason.LeftoverClaim: claim,
    Reason.MaintenanceUnderWay: record,
    Reason.NotAsBefore: a_pool_stopped,
    Reason.GuestAgentSilent: an_agent_silent,
    Reason.CordonedByOthers: cordon,
    Reason.PeerUnreachable: unreachable,
    Reason.RunsTheMaintenance: lambda fleet: fleet.vm(
        control_node="It is us.", migratable=False, declared_strategy="None"
    ),
}


def _transient(fleet: Fleet) -> dict[Reason, dict[str, Any]]:
    source(Reason.DisksNotLiveMigratable)(fleet)
    fleet.vm(save_findings=(Finding(Reason.TransientDomain, "It is transient."),))
    return fleet.look(Policy(on_not_migratable=OnNotMigratable.SAVE, allow_stop=True))


def _restarts(fleet: Fleet) -> dict[Reason, dict[str, Any]]:
    source(Reason.DisksNotLiveMigratable)(fleet)
    fleet.vm(shutdown_findings=(Finding(Reason.RestartsOnPowerOff, "on_poweroff is restart."),))
    return fleet.look(Policy(on_not_migratable=OnNotMigratable.SHUTDOWN, allow_stop=True))


def _undecided(fleet: Fleet) -> dict[Reason, dict[str, Any]]:
    fleet.vm(document={"dirty_rate": None})
    fleet.obs.vms.pop(UUID(1))
    raw = [{"name": "writers", "when": "dirty_rate > `100`", "strategy": "External"}]
    return fleet.look(Policy(rules=compile_rules(raw, MigrationSettings())))


def _skipped(fleet: Fleet) -> dict[Reason, dict[str, Any]]:
    source(Reason.DisksNotLiveMigratable)(fleet)
    return fleet.look(Policy(on_not_migratable=OnNotMigratable.SKIP))


def _stopped(fleet: Fleet) -> dict[Reason, dict[str, Any]]:
    fleet.vm(declared_strategy="None")
    return fleet.look(Policy(allow_stop=True))


def _compressed(fleet: Fleet) -> dict[Reason, dict[str, Any]]:
    for name in "abc":
        fleet.facts[name] = HostFacts(libvirt_version=11003000, hypervisor_version=10000000)
    return fleet.look(Policy(migration=MigrationSettings(tls=True, compression=("mt",))))


BARE = tuple(Measured(name, 0.1, None, PKI, ["server-cert.pem"]) for name in "abc")

# These need an option as well.
WITH: dict[Reason, Look] = {
    Reason.TransientDomain: _transient,
    Reason.RestartsOnPowerOff: _restarts,
    Reason.Undecided: _undecided,
    Reason.SkippedByPolicy: _skipped,
    Reason.StaysOff: _stopped,
    Reason.PostCopyNotPermitted: lambda fleet: fleet.look(POST_COPY, CLOSED),
    Reason.MigrationInTheClear: lambda fleet: fleet.look(Policy()),
    Reason.QEMUCertificatesMissing: lambda fleet: fleet.look(measured=BARE),
    Reason.CompressionNotSupported: _compressed,
    Reason.ClockSkew: lambda fleet: fleet.look(measured=SKEWED),
    Reason.NotChecked: lambda fleet: fleet.look(POST_COPY),
}


def test_every_code_of_this_platform_is_planted_here() -> None:
    here = {c for c, info in CHECKED.items() if Platform.LIBVIRT in info.platforms}
    assert here == set(PLANTS) | set(WITH)


@pytest.mark.parametrize("member", [*PLANTS, *WITH], ids=lambda member: member.value)
def test_what_is_planted_is_found(fleet: Fleet, member: Reason) -> None:
    if member in PLANTS:
        PLANTS[member](fleet)
        told = fleet.look()
    else:
        told = WITH[member](fleet)
    assert member in told, sorted(told)
    assert told[member]["severity"] == CHECKED[member].severity.value
    for key in ("subject", "sentence", "remedy", "decided_by", "plane"):
        assert told[member][key], key


def dead(fleet: Fleet, name: str) -> str:
    fleet.obs.nodes[name] = Node(name, reachable=False, message="no route to host")
    found = fleet.look()[Reason.PeerUnreachable]
    return f"{found['severity']} {found['message']}"


def test_a_dead_host_blocks_only_what_depends_on_it(fleet: Fleet) -> None:
    assert dead(fleet, "c") == "warning no route to host"
    fleet.record = NodeRecord("a", "r1", vms={UUID(0): VMRecord(UUID(0), "web", at="c")})
    assert dead(fleet, "c") == "blocker no route to host web may be there."
    fleet.record = None
    assert "No other host takes a VM." in dead(fleet, "b")


def test_a_clean_fleet_has_none(fleet: Fleet) -> None:
    open_ = tuple(Measured(name, 0.1, 1, PKI) for name in "abc")
    assert fleet.look(POST_COPY, open_) == {}


def test_every_code_meets_libvirt_on_real_hosts_or_cannot() -> None:
    codes = {check.value for check, info in CHECKED.items() if Platform.LIBVIRT in info.platforms}
    assert codes - set(test_reasons.TOLD) == test_reasons.NOT_HERE | test_reasons.ELSEWHERE
