# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The words: every reason there is, by its code. What each one means: catalogue.

The names of the first group are the reasons of KubeVirt's LiveMigratable condition
(kubevirt.io/api/core/v1, VirtualMachineInstanceReason*).
"""

from __future__ import annotations

from enum import Enum


class Plane(str, Enum):
    """Where a failure belongs: in deciding and admitting, or in moving the bytes."""

    CONTROL = "control"
    DATA = "data"


class Reason(str, Enum):
    """Typed reasons. The value is what a user reads in a result."""

    # Known in advance, names as in KubeVirt.
    DISKS = "DisksNotLiveMigratable"
    INTERFACE = "InterfaceNotLiveMigratable"
    HOTPLUG = "HotplugNotLiveMigratable"
    VIRTIOFS = "VirtIOFSNotLiveMigratable"
    HOST_DEVICE = "HostDeviceNotLiveMigratable"
    SEV = "SEVNotLiveMigratable"
    SECURE_EXECUTION = "SecureExecutionNotLiveMigratable"
    TDX = "TDXNotLiveMigratable"
    HYPERV_PASSTHROUGH = "HypervPassthroughNotLiveMigratable"
    PERSISTENT_RESERVATION = "PersistentReservationNotLiveMigratable"
    # Known in advance, ours.
    CPU_MODEL = "CPUModelNotLiveMigratable"
    MACHINE_TYPE = "MachineTypeMissing"
    EMULATOR = "EmulatorMissing"
    GRAPHICS = "GraphicsNotLiveMigratable"
    SHARED_MEMORY = "SharedMemoryNotLiveMigratable"
    LAUNCH_SECURITY = "LaunchSecurityNotLiveMigratable"
    QEMU_COMMANDLINE = "QEMUCommandLineNotDeclared"
    QEMU_BLOCKS = "MigrationBlockedByQEMU"
    SNAPSHOTS = "SnapshotsPresent"
    CHECKPOINTS = "CheckpointsPresent"
    NAME_TAKEN = "NameTaken"
    SECRET = "SecretMissing"
    FILE_MISSING = "FileMissing"
    HUGEPAGES = "HugepagesMissing"
    PINNING = "PinningNotLiveMigratable"
    PENDING_CHANGES = "PendingChanges"
    TPM_STATE = "TPMStateNotLiveMigratable"
    BLOCK_JOB = "BlockJobRunning"
    TRANSIENT = "TransientDomain"
    RESTARTS = "RestartsOnPowerOff"
    NO_TARGET = "NoTargetWithCapacity"
    NEWER_TO_OLDER = "NewerToOlder"
    NOT_RUNNING_NORMALLY = "StateNotLiveMigratable"
    # Policy.
    STOP_NOT_ALLOWED = "StopNotAllowed"
    EXTERNAL_TIMED_OUT = "ExternalOwnerTimedOut"
    NOT_KNOWN_YET = "MigratableNotKnown"
    UNDECIDED = "Undecided"
    SKIPPED = "SkippedByPolicy"
    HOOK_PENDING = "HookPending"
    # While it runs.
    MIGRATION_FAILED = "MigrationFailed"
    COMPLETION_TIMEOUT = "CompletionTimeout"
    NO_PROGRESS = "ProgressTimeout"
    ABORTED = "AbortRequested"
    OUTCOME_LOST = "OutcomeLost"
    POSTCOPY_BROKEN = "PostCopyBroken"
    PEER_UNREACHABLE = "PeerUnreachable"
    STORE_FULL = "TargetStoreFull"
    ATTEMPTS_USED_UP = "AttemptsUsedUp"
    DEADLINE = "DeadlineExceeded"
    SHUTDOWN_TIMED_OUT = "ShutdownTimedOut"
    STOP_FAILED = "StopFailed"
    STOPPED_BY_ITSELF = "StoppedByItself"
    RESTARTED = "RestartedByOthers"
    VANISHED = "VMVanished"
    DEFINITION_LEFT = "DefinitionLeft"
    AUTOSTART_SUSPENDED = "AutostartSuspended"
    VM_LOST = "VMLost"
    RUNNING_TWICE = "RunningTwice"
    CRASHED = "VMCrashed"
    CANNOT_START = "CannotStart"
    # Of the cluster.
    QUOTA = "QuotaExceeded"
    TARGET_UNSCHEDULABLE = "TargetUnschedulable"
    TARGET_PREPARATION = "TargetPreparation"
    WAITING_FOR_SLOT = "WaitingForSlot"
    NO_SLOTS = "MigrationLimitZero"
    RETRY_BACKOFF = "MigrationBackoff"
    BACKUP = "BackupInProgress"
    UTILITY_VOLUMES = "UtilityVolumesPresent"
    DISRUPTION_BUDGET = "DisruptionBudget"
    WEBHOOK_UNAVAILABLE = "WebhookUnavailable"
    BUDGET_NOT_COMPUTED = "DisruptionBudgetNotComputed"
    HOST_MODEL = "HostModelNotElsewhere"
    ADOPTED = "AdoptedMigration"
    TWO_LOOPS = "TwoLoops"
    FORBIDDEN = "Forbidden"
    ADMISSION = "AdmissionRefused"
    API_ERROR = "APIError"
    # Other pods of the node.
    POD_UNMANAGED = "PodNotManaged"
    POD_LOCAL_DATA = "PodHasLocalData"
    POD_OF_DAEMONSET = "PodOfDaemonSet"
    POD_TERMINATING = "PodStillTerminating"
    LAST_REPLICA = "LastReadyReplica"
    EVACUATION_NOT_STARTED = "EvacuationNotStarted"
    TARGET_POD_NOT_READY = "TargetPodNotReady"
    TARGET_POD_REFUSED = "TargetPodRefused"
    STORAGE_NOT_READY = "StorageNotReady"
    DRAIN_TAINT = "DrainTaint"
    OBJECT_STAYS = "MigrationObjectStays"
    TOO_LATE = "TooLateToAbort"
    ABORT_UNANSWERED = "AbortUnanswered"
    MARK_STAYS = "EvacuationMarkStays"
    # The node.
    INBOUND = "InboundMigration"
    STARTS_HERE = "VMStartsHere"
    NODE_UNREADABLE = "NodeUnreadable"
    RUNS_THE_MAINTENANCE = "RunsTheMaintenance"


# A target that refused a VM for one of these refuses it again, however often it is asked.
LASTING = frozenset(
    {
        Reason.DISKS,
        Reason.INTERFACE,
        Reason.HOTPLUG,
        Reason.VIRTIOFS,
        Reason.HOST_DEVICE,
        Reason.SEV,
        Reason.SECURE_EXECUTION,
        Reason.TDX,
        Reason.HYPERV_PASSTHROUGH,
        Reason.PERSISTENT_RESERVATION,
        Reason.CPU_MODEL,
        Reason.MACHINE_TYPE,
        Reason.EMULATOR,
        Reason.GRAPHICS,
        Reason.SHARED_MEMORY,
        Reason.LAUNCH_SECURITY,
        Reason.QEMU_COMMANDLINE,
        Reason.QEMU_BLOCKS,
        Reason.SNAPSHOTS,
        Reason.CHECKPOINTS,
        Reason.NAME_TAKEN,
        Reason.SECRET,
        Reason.FILE_MISSING,
        Reason.HUGEPAGES,
        Reason.PINNING,
        Reason.TPM_STATE,
    }
)

# Of the VM itself: the attempt at one target answers for all the others.
OF_THE_VM = frozenset({Reason.QEMU_BLOCKS})


# A migration that waits for one of these is in a queue: only the node's deadline ends it.
PATIENT = frozenset(
    {Reason.WAITING_FOR_SLOT, Reason.RETRY_BACKOFF, Reason.ADOPTED, Reason.TWO_LOOPS}
)
