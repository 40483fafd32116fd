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
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import (
    check,
    result,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.codes import (
    Check,
    Platform,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.facts import (
    Budget,
    ClusterSeen,
    Facts,
    HostSeen,
    NodeSeen,
    PodSeen,
    QuotaLeft,
    StuckWork,
    TLSSeen,
    VMSeen,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import (
    Finding,
    Reason,
)

GIB = 1024
PKI = "/etc/pki/qemu"
POLICY = Policy(migration=MigrationSettings(tls=True))
MT = Policy(migration=MigrationSettings(tls=True, compression=("mt",)))
STOPS = Policy(default_strategy=EvictionStrategy.NONE, allow_stop=True)


def clean(platform: Platform = Platform.LIBVIRT, seed: int | None = None) -> Facts:
    """A cluster in which nothing stands in the way. Without a seed a small one."""
    dice = random.Random(seed)
    many = 2 if seed is None else dice.randint(1, 40)
    vms = {
        f"u{n}": VM(f"u{n}", f"vm{n}", "a", memory_mib=dice.choice([256, GIB, 8 * GIB]))
        for n in range(many)
    }
    others = ("b", "c") if seed is None else tuple(f"h{n}" for n in range(dice.randint(1, 9)))
    need = sum(vm.memory_mib for vm in vms.values())
    kube = platform is Platform.KUBEVIRT
    names = ("",) if kube else others
    nodes = {name: Node(name, capacity_mib=need + dice.randint(0, 64) * GIB) for name in names}
    nodes["a"] = Node("a", capacity_mib=2 * need)
    seen = {
        uuid: VMSeen(
            stays_off="Its autostart is off." if dice.random() < 0.5 else "",
            refused={others[0]: (Check.NO_TARGET, "")} if kube and len(others) > 1 else {},
            quotas=(QuotaLeft("q", "pods", 1, 1), QuotaLeft("q", "memory", 2**33, 2**32))
            if kube
            else (),
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


def found(facts: Facts, policy: Policy = POLICY) -> dict[Check, dict[str, Any]]:
    rows = result(facts, check(facts, policy), {})["findings"]
    return {Check(row["code"]): row for row in rows}


# Planting. Each gives the facts, and the policy under which it is a fault.

Plant = Callable[[], tuple[Facts, Policy]]
L, K = Platform.LIBVIRT, Platform.KUBEVIRT


def vm(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    def plant() -> tuple[Facts, Policy]:
        facts = clean(platform)
        facts.observation.vms["u0"] = replace(facts.observation.vms["u0"], **changes)
        return facts, policy

    return plant


def seen(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    def plant() -> tuple[Facts, Policy]:
        facts = clean(platform)
        return replace(facts, vms={**facts.vms, "u0": replace(facts.vms["u0"], **changes)}), policy

    return plant


def whole(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    return lambda: (replace(clean(platform), **changes), policy)


def cannot(reason: Reason) -> Plant:
    return vm(K, migratable=False, findings=(Finding(reason, "because"),))


def refused(reason: Reason) -> Plant:
    why = (Finding(reason, "because"),)
    return vm(L, refused_by={"b": why, "c": why})


def every_target(check: Check) -> Plant:
    return seen(K, refused={"b": (check, "no"), "c": (check, "no")})


def hosts(policy: Policy = POLICY, **changes: Any) -> Plant:
    """Both peers are changed."""

    def plant() -> tuple[Facts, Policy]:
        facts = clean(L)
        return replace(
            facts, hosts=(facts.hosts[0], *(replace(h, **changes) for h in facts.hosts[1:]))
        ), policy

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
    facts, policy = refused(Reason.DISKS)()
    media = replace(facts.vms["u0"], local_media=("sda (/iso/tools.iso)",))
    return replace(facts, vms={**facts.vms, "u0": media}), policy


SHUTDOWN = Policy(on_not_migratable=OnNotMigratable.SHUTDOWN, allow_stop=True)
SAVE = Policy(on_not_migratable=OnNotMigratable.SAVE, allow_stop=True)
UNKNOWN = Policy(rules=(Rule("rate", lambda _document: None),))
POST_COPY = Policy(migration=MigrationSettings(post_copy=True))
STUCK = StuckWork("x/y", "a", "it is TargetReady since 2000 s.")

PLANTS: dict[Check, Plant] = {
    Check.DISKS: cannot(Reason.DISKS),
    Check.INTERFACE: cannot(Reason.INTERFACE),
    Check.HOTPLUG: cannot(Reason.HOTPLUG),
    Check.VIRTIOFS: cannot(Reason.VIRTIOFS),
    Check.HOST_DEVICE: cannot(Reason.HOST_DEVICE),
    Check.SEV: cannot(Reason.SEV),
    Check.SECURE_EXECUTION: cannot(Reason.SECURE_EXECUTION),
    Check.TDX: cannot(Reason.TDX),
    Check.HYPERV_PASSTHROUGH: cannot(Reason.HYPERV_PASSTHROUGH),
    Check.PERSISTENT_RESERVATION: cannot(Reason.PERSISTENT_RESERVATION),
    Check.CPU_MODEL: refused(Reason.CPU_MODEL),
    Check.MACHINE_TYPE: refused(Reason.MACHINE_TYPE),
    Check.SNAPSHOTS: vm(L, migratable=False, findings=(Finding(Reason.SNAPSHOTS),)),
    Check.CHECKPOINTS: vm(L, migratable=False, findings=(Finding(Reason.CHECKPOINTS),)),
    Check.QEMU_COMMANDLINE: vm(L, migratable=False, findings=(Finding(Reason.QEMU_COMMANDLINE),)),
    Check.QEMU_BLOCKS: vm(L, migratable=False, findings=(Finding(Reason.QEMU_BLOCKS),)),
    Check.SHARED_MEMORY: vm(L, migratable=False, findings=(Finding(Reason.SHARED_MEMORY),)),
    Check.LAUNCH_SECURITY: vm(L, migratable=False, findings=(Finding(Reason.LAUNCH_SECURITY),)),
    Check.EMULATOR: refused(Reason.EMULATOR),
    Check.GRAPHICS: refused(Reason.GRAPHICS),
    Check.NAME_TAKEN: refused(Reason.NAME_TAKEN),
    Check.SECRET: refused(Reason.SECRET),
    Check.FILE_MISSING: refused(Reason.FILE_MISSING),
    Check.HUGEPAGES: refused(Reason.HUGEPAGES),
    Check.PINNING: refused(Reason.PINNING),
    Check.TPM_STATE: refused(Reason.TPM_STATE),
    Check.BLOCK_JOB: vm(L, migratable=False, findings=(Finding(Reason.BLOCK_JOB),)),
    Check.TRANSIENT: vm(
        L,
        SAVE,
        migratable=False,
        findings=(Finding(Reason.DISKS),),
        save_findings=(Finding(Reason.TRANSIENT),),
    ),
    Check.PENDING_CHANGES: vm(
        L, migratable=False, findings=(Finding(Reason.PENDING_CHANGES),), next_start="disk vdb"
    ),
    Check.RESTARTS: vm(
        L, SHUTDOWN, migratable=False, shutdown_findings=(Finding(Reason.RESTARTS),)
    ),
    Check.NOT_RUNNING_NORMALLY: vm(L, state=State.PAUSED),
    Check.NOT_KNOWN_YET: vm(L, migratable=None),
    Check.NO_TARGET: vm(L, memory_mib=10**6),
    Check.NO_SELECTOR: every_target(Check.NO_SELECTOR),
    Check.NO_VENDOR: every_target(Check.NO_VENDOR),
    Check.NOT_TOLERATED: every_target(Check.NOT_TOLERATED),
    Check.LAST_NODE: whole(K, targets=()),
    Check.FLEET_TOO_FULL: whole(L, room_mib=100),
    Check.NEWER_TO_OLDER: hosts(hypervisor_version=6000000),
    Check.COMPRESSION: hosts(MT, hypervisor_version=10000000),
    Check.QUOTA: seen(K, quotas=(QuotaLeft("q", "pods", 0, 1),)),
    Check.STORAGE_HERE: seen(L, local_disks=("vda (/images/a)",)),
    Check.LOCAL_MEDIUM: a_medium,
    Check.POST_COPY: hosts(POST_COPY, userfaultfd=False),
    Check.IN_THE_CLEAR: whole(L, Policy()),
    Check.CERTIFICATES: hosts(POLICY, tls=TLSSeen(PKI, ("server-key.pem",))),
    Check.STOP_NOT_ALLOWED: vm(K, declared_strategy="None"),
    Check.UNDECIDED: whole(L, UNKNOWN),
    Check.SKIPPED: vm(
        L,
        Policy(on_not_migratable=OnNotMigratable.SKIP),
        migratable=False,
        findings=(Finding(Reason.DISKS),),
    ),
    Check.EXTERNAL_OWNER: vm(K, declared_strategy="External"),
    Check.STAYS_OFF: seen(K, STOPS, stays_off="Its runStrategy is Manual."),
    Check.STARTS_WITH_HOST: vm(L, state=State.SHUTOFF, autostart=True),
    Check.UNMET_SETTINGS: seen(K, unsupported=("auto_converge is wanted as true.",)),
    Check.DISRUPTION_BUDGET: seen(K, STOPS, budgets=(Budget("b", "a percentage"),)),
    **{
        member: whole(K, pods=(PodSeen("shop/odd", member, "because", whole=True),))
        for member in (Check.POD_UNMANAGED, Check.POD_LOCAL_DATA, Check.POD_OF_DAEMONSET)
    },
    **{
        member: whole(K, pods=(PodSeen("shop/held", member, "because"),))
        for member in (Check.POD_TERMINATING, Check.LAST_REPLICA, Check.BUDGET_NOT_COMPUTED)
    },
    Check.STARTING: seen(K, starting="Scheduling"),
    Check.CRASHED: vm(L, state=State.CRASHED),
    Check.RUNNING_TWICE: twice,
    Check.POSTCOPY_BROKEN: vm(L, state=State.POSTCOPY_FAILED),
    Check.BACKUP: seen(K, backup="Backup b runs."),
    Check.SNAPSHOT: seen(K, snapshot="Snapshot s."),
    Check.UTILITY_VOLUMES: seen(K, utility_volumes="v"),
    Check.MANAGED_SAVE: vm(L, state=State.SHUTOFF, managed_save=True),
    Check.IN_FLIGHT: seen(K, foreign="Migration m is Running."),
    Check.INBOUND: inbound,
    Check.STUCK: whole(K, stuck=(STUCK, STUCK)),
    Check.LEFT_MARK: seen(K, stale_mark="evacuationNodeName is a."),
    Check.LEFT_CLAIM: whole(L, stale_claims=("resv.u9.512.a on b",)),
    Check.RECORD: whole(L, own=NodeSeen(record="Run r1.")),
    Check.DRAIN_TAINT: whole(K, own=NodeSeen(drain_taint="Taint kubevirt.io/drain.")),
    Check.CORDONED: whole(L, own=NodeSeen(cordoned_by_others=True)),
    Check.OTHERS: whole(K, own=NodeSeen(other_maintenance=("Taint medik8s.io/drain.",))),
    Check.DESCHEDULER: whole(K, cluster=ClusterSeen(descheduler="Pod d.")),
    Check.UPDATER: whole(K, cluster=ClusterSeen(updater="Migration m.")),
    Check.NODE_NOT_READY: whole(K, own=NodeSeen(not_ready="Ready is Unknown.")),
    Check.SILENT: whole(K, own=NodeSeen(silent="Its last heartbeat is old.")),
    Check.PEER_UNREACHABLE: unreachable,
    Check.CAPACITY: undeclared,
    Check.CLOCK_SKEW: a_clock_ahead,
    Check.NO_SLOTS: whole(K, cluster=ClusterSeen(no_slots="The limit is 0.")),
    Check.UPGRADING: whole(K, cluster=ClusterSeen(upgrading="From 1.8 to 1.9.")),
    Check.UNHEALTHY: whole(K, cluster=ClusterSeen(unhealthy="Its phase is Deploying.")),
    Check.NO_CANCEL: whole(K, cluster=ClusterSeen(no_cancel="It is 1.6.")),
    Check.WEBHOOK_UNAVAILABLE: whole(K, cluster=ClusterSeen(webhook="connection refused")),
    Check.API_ERROR: seen(K, tried=(Check.API_ERROR, "500")),
    Check.FORBIDDEN: whole(K, missing=("create pods/eviction",)),
    Check.RUNS_THE_MAINTENANCE: whole(K, own=NodeSeen(control_node="This runs in pod x.")),
    Check.NOT_CHECKED: whole(K, unread=("The quotas: forbidden",)),
}
