"""The facts that a platform reports to the preflight, as plain data. The core's Observation, and more.

An empty text, tuple or mapping: nothing is wrong. Sizes in MiB, times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.observation import Observation
from ..reasons.reason import Finding, Platform, Reason


@dataclass(frozen=True)
class Budget:
    """A disruption budget that selects a VM's pod. `never`: it can allow no eviction at all.

    `left`: evictions that it allows now; None: not known.
    """

    name: str
    never: str = ""
    left: int | None = None


@dataclass(frozen=True)
class QuotaLeft:
    """The rest of one resource in a quota, and the need of one more pod of the VM."""

    quota: str
    resource: str
    left: float
    required: float


@dataclass(frozen=True)
class VMSeen:
    """More of one VM than the drain looks at.

    starting: its phase. paused: why; `paused_soft`: it can be moved so. stays_off: why nothing
    starts it again. local_disks: copied by a migration. local_media: images in its drives that
    are here only. refused: node -> why not to that one, in the platform's own words. tries: what
    the platform answered to its eviction as a dry run. foreign: a migration that is not ours.
    unchecked: what it asks of a target and is not known beforehand. unsupported: settings of its
    rule that the platform migrates it without, in words. foreseen: why its migration will not end well.
    """

    starting: str = ""
    paused: str = ""
    paused_soft: bool = False
    stays_off: str = ""
    backup: str = ""
    snapshot: str = ""
    utility_volumes: str = ""
    local_disks: tuple[str, ...] = ()
    local_media: tuple[str, ...] = ()
    refused: Mapping[str, tuple[Reason, str]] = field(default_factory=dict)
    quotas: tuple[QuotaLeft, ...] = ()
    budgets: tuple[Budget, ...] = ()
    stale_mark: str = ""
    foreign: str = ""
    tried: tuple[Reason, str] | None = None
    pod_mib: int | None = None
    unchecked: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    foreseen: Finding | None = None


@dataclass(frozen=True)
class MovedSeen:
    """A VM that this maintenance moved away, where it runs now. `agent_before`: its guest's agent was connected before;
    `agent`: it is. None: not known."""

    name: str
    host: str
    agent_before: bool
    agent: bool | None


@dataclass(frozen=True)
class PodSeen:
    """Another pod of the node that will not go. `whole`: the drain does not even begin for it."""

    name: str
    reason: Reason
    message: str
    whole: bool = False


@dataclass(frozen=True)
class TLSSeen:
    """QEMU's certificates for migrations. missing: of the names that QEMU gives them. verify: it
    wants a certificate of who calls it."""

    folder: str
    missing: tuple[str, ...] = ()
    verify: bool = True


@dataclass(frozen=True)
class HostSeen:
    """A libvirt host. Versions: major*10^6 + minor*10^3 + release, 0: not known.

    userfaultfd: may QEMU there use it (None: not known). clock: its clock less the asker's, right
    to `clock_within` seconds.
    declared: somebody said how much of its memory is for VMs. tls: None: not known.
    """

    name: str
    hypervisor_version: int = 0
    libvirt_version: int = 0
    userfaultfd: bool | None = None
    clock: float | None = None
    declared: bool = True
    tls: TLSSeen | None = None
    clock_within: float = 0.0


@dataclass(frozen=True)
class NodeSeen:
    """The node itself. `record`: our maintenance that is recorded on it, in words. `provides`: pools and networks
    that are active; `provided`: that were when its maintenance began. None: not known."""

    not_ready: str = ""
    silent: str = ""
    unschedulable: str = ""
    drain_taint: str = ""
    other_maintenance: tuple[str, ...] = ()
    cordoned_by_others: bool = False
    record: str = ""
    control_node: str = ""
    provides: tuple[str, ...] | None = None
    provided: tuple[str, ...] = ()


@dataclass(frozen=True)
class StuckWork:
    """A migration that goes on no more. `holds`: does it take a slot of the cluster?"""

    vm: str
    source: str
    why: str
    holds: bool = True


@dataclass(frozen=True)
class ClusterSeen:
    """The whole cluster. in_the_clear: why memory travels so. `slots`, `outbound`: its limits;
    `no_slots`: which of them lets none begin."""

    upgrading: str = ""
    unhealthy: str = ""
    webhook: str = ""
    no_cancel: str = ""
    descheduler: str = ""
    updater: str = ""
    in_the_clear: str = ""
    slots: int = 5
    outbound: int = 2
    no_slots: str = ""


@dataclass(frozen=True)
class Facts:
    """Everything that one pass read.

    `targets`: names of the nodes that take VMs at all. `room_mib`: what they have free together,
    None: not known; `room_on`: on which of them, empty: on all. missing: rights that the account
    lacks. unread: what could not be looked at. needed: hosts that do not answer and that something
    depends on, with what. stale_claims: volumes of runs that are over. pods:
    those that will not go.
    """

    platform: Platform
    node: str
    observation: Observation
    own: NodeSeen = field(default_factory=NodeSeen)
    vms: Mapping[str, VMSeen] = field(default_factory=dict)
    hosts: tuple[HostSeen, ...] = ()
    cluster: ClusterSeen = field(default_factory=ClusterSeen)
    moved: tuple[MovedSeen, ...] = ()
    targets: tuple[str, ...] = ()
    room_mib: int | None = None
    room_on: tuple[str, ...] = ()
    stuck: tuple[StuckWork, ...] = ()
    missing: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    needed: Mapping[str, str] = field(default_factory=dict)
    stale_claims: tuple[str, ...] = ()
    pods: tuple[PodSeen, ...] = ()
