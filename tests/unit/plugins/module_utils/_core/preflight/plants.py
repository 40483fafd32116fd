# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight's plants: a clean cluster of facts, and for each code what is wrong in it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    EvictionStrategy,
    Node,
    Observation,
    OnNotMigratable,
    Reservation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    MigrationSettings,
    Policy,
    Rule,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import check, result
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.facts import (
    Budget,
    ClusterSeen,
    Facts,
    HostSeen,
    MovedSeen,
    NodeSeen,
    PodSeen,
    QuotaLeft,
    StuckWork,
    TLSSeen,
    VMSeen,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Platform, Reason

GIB = 1024
PKI = "/etc/pki/qemu"
POLICY = Policy(migration=MigrationSettings(tls=True))
MT = Policy(migration=MigrationSettings(tls=True, compression=("mt",)))
STOPS = Policy(default_strategy=EvictionStrategy.NONE, allow_stop=True)


def clean(platform: Platform = Platform.LIBVIRT, seed: int | None = None) -> Facts:
    """A cluster in which nothing stands in the way. Without a seed a small one."""
    dice = random.Random(seed)
    many = 2 if seed is None else dice.randint(1, 40)
    vms = {f"u{n}": VM(f"u{n}", f"vm{n}", "a", memory_mib=dice.choice([256, GIB, 8 * GIB])) for n in range(many)}
    others = ("b", "c") if seed is None else tuple(f"h{n}" for n in range(dice.randint(1, 9)))
    need = sum(vm.memory_mib for vm in vms.values())
    kube = platform is Platform.KUBEVIRT
    names = ("",) if kube else others
    nodes = {name: Node(name, capacity_mib=need + dice.randint(0, 64) * GIB) for name in names}
    nodes["a"] = Node("a", capacity_mib=2 * need)
    seen = {
        uuid: VMSeen(
            stays_off="Its autostart is off." if dice.random() < 0.5 else "",
            refused={others[0]: (Reason.NoTargetWithCapacity, "")} if kube and len(others) > 1 else {},
            quotas=(QuotaLeft("q", "pods", 1, 1), QuotaLeft("q", "memory", 2**33, 2**32)) if kube else (),
            budgets=(Budget("b", left=dice.choice([0, 1])),) if kube else (),
            pod_mib=vm.memory_mib if kube else None,
        )
        for uuid, vm in vms.items()
    }
    hosts = [HostSeen("a", 7002000, 9000000, True, 0.3, tls=TLSSeen(PKI))]
    hosts += [
        HostSeen(
            n,
            7002000 + dice.choice([0, 1000]),
            9000000,
            True,
            dice.uniform(-1, 1),
            tls=TLSSeen(PKI, verify=dice.random() < 0.9),
        )
        for n in others
    ]
    return Facts(
        platform=platform,
        node="a",
        observation=Observation(nodes=nodes, vms=vms),
        vms=seen,
        hosts=() if kube else tuple(hosts),
        targets=others,
        room_mib=need + dice.randint(0, 64) * GIB,
    )


def found(facts: Facts, policy: Policy = POLICY) -> dict[Reason, dict[str, Any]]:
    rows = result(facts, check(facts, policy), {})["findings"]
    return {Reason(row["code"]): row for row in rows}


# Planting. Each gives the facts, and the policy under which it is a fault.

Plant = Callable[[], tuple[Facts, Policy]]
L, K = Platform.LIBVIRT, Platform.KUBEVIRT


def vm(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    def plant() -> tuple[Facts, Policy]:
        facts = clean(platform)
        facts.observation.vms["u0"] = replace(facts.observation.vms["u0"], **changes)
        return facts, policy

    return plant


def broken() -> tuple[Facts, Policy]:
    facts, policy = vm(L, state=State.POSTCOPY_FAILED)()
    facts.observation.sightings["u0"] = [Sighting("n1", State.POSTCOPY)]
    return facts, policy


def seen(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    def plant() -> tuple[Facts, Policy]:
        facts = clean(platform)
        return replace(facts, vms={**facts.vms, "u0": replace(facts.vms["u0"], **changes)}), policy

    return plant


def whole(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    return lambda: (replace(clean(platform), **changes), policy)


def an_agent_silent() -> tuple[Facts, Policy]:
    """And nothing is left on the host."""
    facts = replace(clean(K), moved=(MovedSeen("web", "b", agent_before=True, agent=False),))
    facts.observation.vms.clear()
    return facts, POLICY


def cannot(reason: Reason) -> Plant:
    return vm(K, migratable=False, findings=(Finding(reason, "because"),))


def refused(reason: Reason) -> Plant:
    why = (Finding(reason, "because"),)
    return vm(L, refused_by={"b": why, "c": why})


def every_target(check: Reason) -> Plant:
    return seen(K, refused={"b": (check, "no"), "c": (check, "no")})


def hosts(policy: Policy = POLICY, **changes: Any) -> Plant:
    """Both peers are changed."""

    def plant() -> tuple[Facts, Policy]:
        facts = clean(L)
        return replace(facts, hosts=(facts.hosts[0], *(replace(h, **changes) for h in facts.hosts[1:]))), policy

    return plant


def unreachable() -> tuple[Facts, Policy]:
    facts = clean(L)
    facts.observation.nodes["c"] = Node("c", reachable=False, message="no route to host")
    return replace(facts, targets=("b",), needed={"c": "It keeps the slots."}), POLICY


def inbound() -> tuple[Facts, Policy]:
    facts = clean(K)
    facts.observation.inbound.append(Reservation("other/vm", "a", "b", 0))
    return facts, POLICY


def twice() -> tuple[Facts, Policy]:
    facts = clean(L)
    facts.observation.sightings["u0"] = [Sighting("b", State.RUNNING)]
    return facts, POLICY


def a_clock_ahead() -> tuple[Facts, Policy]:
    facts = clean(L)
    return replace(facts, hosts=(*facts.hosts[:2], replace(facts.hosts[2], clock=60.0))), POLICY


def undeclared() -> tuple[Facts, Policy]:
    facts = clean(L)
    return replace(facts, hosts=(*facts.hosts[:2], replace(facts.hosts[2], declared=False))), POLICY


def a_medium() -> tuple[Facts, Policy]:
    facts, policy = refused(Reason.DisksNotLiveMigratable)()
    media = replace(facts.vms["u0"], local_media=("sda (/iso/tools.iso)",))
    return replace(facts, vms={**facts.vms, "u0": media}), policy


SHUTDOWN = Policy(on_not_migratable=OnNotMigratable.SHUTDOWN, allow_stop=True)
SAVE = Policy(on_not_migratable=OnNotMigratable.SAVE, allow_stop=True)
UNKNOWN = Policy(rules=(Rule("rate", lambda _document: None),))
POST_COPY = Policy(migration=MigrationSettings(post_copy=True))
STUCK = StuckWork("x/y", "a", "it is TargetReady since 2000 s.")

PLANTS: dict[Reason, Plant] = {
    Reason.DisksNotLiveMigratable: cannot(Reason.DisksNotLiveMigratable),
    Reason.InterfaceNotLiveMigratable: cannot(Reason.InterfaceNotLiveMigratable),
    Reason.HotplugNotLiveMigratable: cannot(Reason.HotplugNotLiveMigratable),
    Reason.VirtIOFSNotLiveMigratable: cannot(Reason.VirtIOFSNotLiveMigratable),
    Reason.HostDeviceNotLiveMigratable: cannot(Reason.HostDeviceNotLiveMigratable),
    Reason.SEVNotLiveMigratable: cannot(Reason.SEVNotLiveMigratable),
    Reason.SecureExecutionNotLiveMigratable: cannot(Reason.SecureExecutionNotLiveMigratable),
    Reason.TDXNotLiveMigratable: cannot(Reason.TDXNotLiveMigratable),
    Reason.HypervPassthroughNotLiveMigratable: cannot(Reason.HypervPassthroughNotLiveMigratable),
    Reason.PersistentReservationNotLiveMigratable: cannot(Reason.PersistentReservationNotLiveMigratable),
    Reason.CPUModelNotLiveMigratable: refused(Reason.CPUModelNotLiveMigratable),
    Reason.MachineTypeMissing: refused(Reason.MachineTypeMissing),
    Reason.SnapshotsPresent: vm(L, migratable=False, findings=(Finding(Reason.SnapshotsPresent),)),
    Reason.CheckpointsPresent: vm(L, migratable=False, findings=(Finding(Reason.CheckpointsPresent),)),
    Reason.QEMUCommandLineNotDeclared: vm(L, migratable=False, findings=(Finding(Reason.QEMUCommandLineNotDeclared),)),
    Reason.MigrationBlockedByQEMU: vm(L, migratable=False, findings=(Finding(Reason.MigrationBlockedByQEMU),)),
    Reason.SharedMemoryNotLiveMigratable: vm(
        L, migratable=False, findings=(Finding(Reason.SharedMemoryNotLiveMigratable),)
    ),
    Reason.LaunchSecurityNotLiveMigratable: vm(
        L, migratable=False, findings=(Finding(Reason.LaunchSecurityNotLiveMigratable),)
    ),
    Reason.EmulatorMissing: refused(Reason.EmulatorMissing),
    Reason.GraphicsNotLiveMigratable: refused(Reason.GraphicsNotLiveMigratable),
    Reason.NameTaken: refused(Reason.NameTaken),
    Reason.SecretMissing: refused(Reason.SecretMissing),
    Reason.FileMissing: refused(Reason.FileMissing),
    Reason.HugepagesMissing: refused(Reason.HugepagesMissing),
    Reason.PinningNotLiveMigratable: refused(Reason.PinningNotLiveMigratable),
    Reason.TPMStateNotLiveMigratable: refused(Reason.TPMStateNotLiveMigratable),
    Reason.BlockJobRunning: vm(L, migratable=False, findings=(Finding(Reason.BlockJobRunning),)),
    Reason.TransientDomain: vm(
        L,
        SAVE,
        migratable=False,
        findings=(Finding(Reason.DisksNotLiveMigratable),),
        save_findings=(Finding(Reason.TransientDomain),),
    ),
    Reason.PendingChanges: vm(L, migratable=False, findings=(Finding(Reason.PendingChanges),), next_start="disk vdb"),
    Reason.RestartsOnPowerOff: vm(
        L, SHUTDOWN, migratable=False, shutdown_findings=(Finding(Reason.RestartsOnPowerOff),)
    ),
    Reason.StateNotLiveMigratable: vm(L, state=State.PAUSED),
    Reason.MigratableNotKnown: vm(L, migratable=None),
    Reason.NoTargetWithCapacity: vm(L, memory_mib=10**6),
    Reason.NoTargetForSelector: every_target(Reason.NoTargetForSelector),
    Reason.NoTargetForCPUVendor: every_target(Reason.NoTargetForCPUVendor),
    Reason.NoTargetTolerated: every_target(Reason.NoTargetTolerated),
    Reason.LastSchedulableNode: whole(K, targets=()),
    Reason.FleetTooFull: whole(L, room_mib=100),
    Reason.NewerToOlder: hosts(hypervisor_version=6000000),
    Reason.CompressionNotSupported: hosts(MT, hypervisor_version=10000000),
    Reason.QuotaExceeded: seen(K, quotas=(QuotaLeft("q", "pods", 0, 1),)),
    Reason.StorageOnlyHere: seen(L, local_disks=("vda (/images/a)",)),
    Reason.LocalMedium: a_medium,
    Reason.PostCopyNotPermitted: hosts(POST_COPY, userfaultfd=False),
    Reason.MigrationInTheClear: whole(L, Policy()),
    Reason.QEMUCertificatesMissing: hosts(POLICY, tls=TLSSeen(PKI, ("server-key.pem",))),
    Reason.StopNotAllowed: vm(K, declared_strategy="None"),
    Reason.Undecided: whole(L, UNKNOWN),
    Reason.SkippedByPolicy: vm(
        L,
        Policy(on_not_migratable=OnNotMigratable.SKIP),
        migratable=False,
        findings=(Finding(Reason.DisksNotLiveMigratable),),
    ),
    Reason.ExternalOwner: vm(K, declared_strategy="External"),
    Reason.StaysOff: seen(K, STOPS, stays_off="Its runStrategy is Manual."),
    Reason.StartsWithHost: vm(L, state=State.SHUTOFF, autostart=True),
    Reason.NotConverging: seen(K, foreseen=Finding(Reason.NotConverging, "It writes much.")),
    Reason.CompletionTimeout: seen(K, foreseen=Finding(Reason.CompletionTimeout, "It is large.")),
    Reason.RuleSettingsNotApplied: seen(K, unsupported=("auto_converge is wanted as true.",)),
    Reason.DisruptionBudget: seen(K, STOPS, budgets=(Budget("b", "a percentage"),)),
    **{
        member: whole(K, pods=(PodSeen("shop/odd", member, "because", whole=True),))
        for member in (Reason.PodNotManaged, Reason.PodHasLocalData, Reason.PodOfDaemonSet)
    },
    **{
        member: whole(K, pods=(PodSeen("shop/held", member, "because"),))
        for member in (Reason.PodStillTerminating, Reason.LastReadyReplica, Reason.DisruptionBudgetNotComputed)
    },
    Reason.VMStarting: seen(K, starting="Scheduling"),
    Reason.VMCrashed: vm(L, state=State.CRASHED),
    Reason.RunningTwice: twice,
    Reason.PostCopyBroken: broken,
    Reason.Irrecoverable: vm(L, state=State.POSTCOPY_FAILED),
    Reason.BackupInProgress: seen(K, backup="Backup b runs."),
    Reason.SnapshotInProgress: seen(K, snapshot="Snapshot s."),
    Reason.UtilityVolumesPresent: seen(K, utility_volumes="v"),
    Reason.ManagedSavePresent: vm(L, state=State.SHUTOFF, managed_save=True),
    Reason.MigrationInFlight: seen(K, foreign="Migration m is Running."),
    Reason.InboundMigration: inbound,
    Reason.StuckMigration: whole(K, stuck=(STUCK, STUCK)),
    Reason.LeftoverMark: seen(K, stale_mark="evacuationNodeName is a."),
    Reason.LeftoverClaim: whole(L, stale_claims=("resv.u9.512.a on b",)),
    Reason.MaintenanceUnderWay: whole(L, own=NodeSeen(record="Run r1.")),
    Reason.NotAsBefore: whole(L, own=NodeSeen(provides=("network lan",), provided=("network lan", "storage pool nfs"))),
    Reason.GuestAgentSilent: an_agent_silent,
    Reason.DrainTaint: whole(K, own=NodeSeen(drain_taint="Taint kubevirt.io/drain.")),
    Reason.CordonedByOthers: whole(L, own=NodeSeen(cordoned_by_others=True)),
    Reason.OthersMaintenance: whole(K, own=NodeSeen(other_maintenance=("Taint medik8s.io/drain.",))),
    Reason.DeschedulerAtWork: whole(K, cluster=ClusterSeen(descheduler="Pod d.")),
    Reason.WorkloadUpdaterAtWork: whole(K, cluster=ClusterSeen(updater="Migration m.")),
    Reason.NodeNotReady: whole(K, own=NodeSeen(not_ready="Ready is Unknown.")),
    Reason.VirtHandlerSilent: whole(K, own=NodeSeen(silent="Its last heartbeat is old.")),
    Reason.NodeNotSchedulable: whole(K, own=NodeSeen(unschedulable="Its label is false.")),
    Reason.PeerUnreachable: unreachable,
    Reason.CapacityNotDeclared: undeclared,
    Reason.ClockSkew: a_clock_ahead,
    Reason.MigrationLimitZero: whole(K, cluster=ClusterSeen(no_slots="The limit is 0.")),
    Reason.KubeVirtUpgrading: whole(K, cluster=ClusterSeen(upgrading="From 1.8 to 1.9.")),
    Reason.KubeVirtUnhealthy: whole(K, cluster=ClusterSeen(unhealthy="Its phase is Deploying.")),
    Reason.EvacuationCannotBeCancelled: whole(K, cluster=ClusterSeen(no_cancel="It is 1.6.")),
    Reason.WebhookUnavailable: whole(K, cluster=ClusterSeen(webhook="connection refused")),
    Reason.APIError: seen(K, tried=(Reason.APIError, "500")),
    Reason.Forbidden: whole(K, missing=("create pods/eviction",)),
    Reason.RunsTheMaintenance: whole(K, own=NodeSeen(control_node="This runs in pod x.")),
    Reason.NotChecked: whole(K, unread=("The quotas: forbidden",)),
}
