# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The words of the preflight: what may stand in the way of a drain, and how bad that is.

A code that is also a reason of the drain (reasons/codes.py) has the same name, so that what is told
beforehand and what is told afterwards can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ..reasons.reason import Plane, Reason


class Severity(str, Enum):
    """BLOCKER: the drain will not end as wanted. WARNING: it may, but know this first."""

    BLOCKER = "blocker"
    WARNING = "warning"
    IGNORE = "ignore"


LISTED = 5  # names in one sentence


class Platform(str, Enum):
    LIBVIRT = "libvirt"
    KUBEVIRT = "kubevirt"


class About(str, Enum):
    """What a finding is about. One VM or pod that cannot go does not keep the others."""

    CLUSTER = "cluster"
    NODE = "node"
    VM = "vm"
    POD = "pod"


class Check(str, Enum):
    """Everything that the preflight can find. The value is what a user reads and names."""

    # Why a VM cannot migrate: reasons of the drain.
    DISKS = Reason.DISKS.value
    INTERFACE = Reason.INTERFACE.value
    HOTPLUG = Reason.HOTPLUG.value
    VIRTIOFS = Reason.VIRTIOFS.value
    HOST_DEVICE = Reason.HOST_DEVICE.value
    SEV = Reason.SEV.value
    SECURE_EXECUTION = Reason.SECURE_EXECUTION.value
    TDX = Reason.TDX.value
    HYPERV_PASSTHROUGH = Reason.HYPERV_PASSTHROUGH.value
    PERSISTENT_RESERVATION = Reason.PERSISTENT_RESERVATION.value
    CPU_MODEL = Reason.CPU_MODEL.value
    MACHINE_TYPE = Reason.MACHINE_TYPE.value
    EMULATOR = Reason.EMULATOR.value
    GRAPHICS = Reason.GRAPHICS.value
    SHARED_MEMORY = Reason.SHARED_MEMORY.value
    LAUNCH_SECURITY = Reason.LAUNCH_SECURITY.value
    QEMU_COMMANDLINE = Reason.QEMU_COMMANDLINE.value
    QEMU_BLOCKS = Reason.QEMU_BLOCKS.value
    SNAPSHOTS = Reason.SNAPSHOTS.value
    CHECKPOINTS = Reason.CHECKPOINTS.value
    NAME_TAKEN = Reason.NAME_TAKEN.value
    SECRET = Reason.SECRET.value
    FILE_MISSING = Reason.FILE_MISSING.value
    HUGEPAGES = Reason.HUGEPAGES.value
    PINNING = Reason.PINNING.value
    TPM_STATE = Reason.TPM_STATE.value
    PENDING_CHANGES = Reason.PENDING_CHANGES.value
    BLOCK_JOB = Reason.BLOCK_JOB.value
    TRANSIENT = Reason.TRANSIENT.value
    RESTARTS = Reason.RESTARTS.value
    NOT_RUNNING_NORMALLY = Reason.NOT_RUNNING_NORMALLY.value
    NOT_KNOWN_YET = Reason.NOT_KNOWN_YET.value
    # Where to
    NO_TARGET = Reason.NO_TARGET.value
    NO_SELECTOR = "NoTargetForSelector"
    NO_VENDOR = "NoTargetForCPUVendor"
    NOT_TOLERATED = "NoTargetTolerated"
    LAST_NODE = "LastSchedulableNode"
    FLEET_TOO_FULL = "FleetTooFull"
    NEWER_TO_OLDER = Reason.NEWER_TO_OLDER.value
    COMPRESSION = "CompressionNotSupported"
    QUOTA = Reason.QUOTA.value
    STORAGE_HERE = "StorageOnlyHere"
    LOCAL_MEDIUM = "LocalMedium"
    POST_COPY = "PostCopyNotPermitted"
    IN_THE_CLEAR = "MigrationInTheClear"
    CERTIFICATES = "QEMUCertificatesMissing"
    # What the policy makes of it
    STOP_NOT_ALLOWED = Reason.STOP_NOT_ALLOWED.value
    UNDECIDED = Reason.UNDECIDED.value
    SKIPPED = Reason.SKIPPED.value
    EXTERNAL_OWNER = "ExternalOwner"
    STAYS_OFF = "StaysOff"
    STARTS_WITH_HOST = "StartsWithHost"
    DISRUPTION_BUDGET = Reason.DISRUPTION_BUDGET.value
    # Other pods of the node: reasons of the drain.
    POD_UNMANAGED = Reason.POD_UNMANAGED.value
    POD_LOCAL_DATA = Reason.POD_LOCAL_DATA.value
    POD_OF_DAEMONSET = Reason.POD_OF_DAEMONSET.value
    POD_TERMINATING = Reason.POD_TERMINATING.value
    LAST_REPLICA = Reason.LAST_REPLICA.value
    BUDGET_NOT_COMPUTED = Reason.BUDGET_NOT_COMPUTED.value
    UNMET_SETTINGS = "RuleSettingsNotApplied"
    NO_SLOTS = Reason.NO_SLOTS.value
    # What a VM is busy with
    STARTING = "VMStarting"
    CRASHED = Reason.CRASHED.value
    RUNNING_TWICE = Reason.RUNNING_TWICE.value
    POSTCOPY_BROKEN = Reason.POSTCOPY_BROKEN.value
    BACKUP = Reason.BACKUP.value
    SNAPSHOT = "SnapshotInProgress"
    UTILITY_VOLUMES = Reason.UTILITY_VOLUMES.value
    MANAGED_SAVE = "ManagedSavePresent"
    IN_FLIGHT = "MigrationInFlight"
    INBOUND = Reason.INBOUND.value
    STUCK = "StuckMigration"
    # What others left, or do now
    LEFT_MARK = "LeftoverMark"
    LEFT_CLAIM = "LeftoverClaim"
    RECORD = "MaintenanceUnderWay"
    DRAIN_TAINT = "DrainTaint"
    CORDONED = "CordonedByOthers"
    OTHERS = "OthersMaintenance"
    DESCHEDULER = "DeschedulerAtWork"
    UPDATER = "WorkloadUpdaterAtWork"
    # The node, its peers, the cluster
    NODE_NOT_READY = "NodeNotReady"
    SILENT = "VirtHandlerSilent"
    PEER_UNREACHABLE = Reason.PEER_UNREACHABLE.value
    CAPACITY = "CapacityNotDeclared"
    CLOCK_SKEW = "ClockSkew"
    UPGRADING = "KubeVirtUpgrading"
    UNHEALTHY = "KubeVirtUnhealthy"
    NO_CANCEL = "EvacuationCannotBeCancelled"
    WEBHOOK_UNAVAILABLE = Reason.WEBHOOK_UNAVAILABLE.value
    API_ERROR = Reason.API_ERROR.value
    # Who runs it
    FORBIDDEN = Reason.FORBIDDEN.value
    RUNS_THE_MAINTENANCE = Reason.RUNS_THE_MAINTENANCE.value
    NOT_CHECKED = "NotChecked"


@dataclass(frozen=True)
class CheckInfo:
    """What the catalogue says of a code.

    `decides`: the fact that it hangs on. `severity`: by default; a finding that the drain gets
    over by itself is a warning at most. `also`: what else than `about` a finding may be about.
    """

    platforms: tuple[Platform, ...]
    about: About
    plane: Plane
    severity: Severity
    sentence: str
    remedy: str
    decides: str
    also: tuple[About, ...] = ()


@dataclass(frozen=True)
class Found:
    """One finding. `message`: the particulars. `soft`: the drain gets over it by itself.

    `decided_by`: what made it so for this subject (a rule, a declaration); empty: the fact alone.
    `about`: one of the catalogue's others; None: the catalogue's.
    """

    check: Check
    subject: str
    message: str = ""
    soft: bool = False
    decided_by: str = ""
    about: About | None = None


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
