# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said of each reason: a row each. docs/reasons.md is made from it."""

from __future__ import annotations

from .codes import Reason
from .info import ReasonInfo
from .info import control as _c
from .info import data as _d
from .of_the_cluster import OF_THE_CLUSTER

CATALOGUE: dict[Reason, ReasonInfo] = {
    Reason.DISKS: _c(
        "A disk is local and cannot be copied, or the target has different data at its path.",
        "Move the disk and its backing files to shared storage, or choose on_not_migratable.",
    ),
    Reason.INTERFACE: _c(
        "A network or bridge of the VM does not exist on the target.",
        "Create or start the network on the target, or choose another target.",
    ),
    Reason.HOTPLUG: _c(
        "A hotplugged device keeps the VM on its host.",
        "Unplug the device, or choose on_not_migratable.",
    ),
    Reason.VIRTIOFS: _c(
        "A host directory is shared into the VM (virtiofs or 9p).",
        "Unmount and detach the share, or choose on_not_migratable.",
    ),
    Reason.HOST_DEVICE: _c(
        "A device of the host is passed through to the VM.",
        "Detach the device, or choose on_not_migratable.",
    ),
    Reason.SEV: _c(
        "The VM's memory is encrypted by AMD SEV.",
        "Such a VM cannot migrate: choose on_not_migratable (shutdown or cold_migrate).",
    ),
    Reason.SECURE_EXECUTION: _c(
        "The VM runs with IBM Secure Execution.",
        "Such a VM cannot migrate: choose on_not_migratable (shutdown or cold_migrate).",
    ),
    Reason.TDX: _c(
        "The VM is an Intel TDX guest.",
        "Such a VM cannot migrate: choose on_not_migratable (shutdown or cold_migrate).",
    ),
    Reason.HYPERV_PASSTHROUGH: _c(
        "The VM uses Hyper-V features in passthrough mode.",
        "Name the features that the VM needs instead of passthrough.",
    ),
    Reason.PERSISTENT_RESERVATION: _c(
        "A disk uses SCSI persistent reservations, which stay with the host.",
        "Release the reservation, or choose on_not_migratable.",
    ),
    Reason.CPU_MODEL: _c(
        "The VM's CPU cannot run on the target.",
        "Give the VM a CPU model that both hosts have, or choose another target.",
    ),
    Reason.MACHINE_TYPE: _c(
        "The target's QEMU does not know the VM's machine type.",
        "Update QEMU on the target, or choose another target.",
    ),
    Reason.EMULATOR: _c(
        "The target does not have the emulator that the VM's definition names.",
        "Install it at the same path on the target, or choose another target.",
    ),
    Reason.GRAPHICS: _c(
        "The VM's VNC or SPICE cannot listen on the target as it does on its host.",
        "Let it listen on 0.0.0.0 or a libvirt network, with autoport, or choose another target.",
    ),
    Reason.SHARED_MEMORY: _c(
        "A shared memory device (ivshmem) keeps the VM on its host.",
        "Detach the device or give it role='master', or choose on_not_migratable.",
    ),
    Reason.LAUNCH_SECURITY: _c(
        "The VM has a type of launch security that is not known to migrate.",
        "Such a VM cannot migrate: choose on_not_migratable (shutdown or cold_migrate).",
    ),
    Reason.QEMU_COMMANDLINE: _c(
        "The VM has its own QEMU arguments, and libvirt cannot check them.",
        "If what they name is the same on every host, declare qemuCommandLine portable.",
    ),
    Reason.QEMU_BLOCKS: _c(
        "QEMU refuses to migrate the VM as it runs now.",
        "Detach the device or end the use that the message names, or choose on_not_migratable.",
    ),
    Reason.SNAPSHOTS: _c(
        "libvirt does not migrate a domain that has snapshots.",
        "Delete the snapshots (virsh snapshot-delete), or choose on_not_migratable.",
    ),
    Reason.CHECKPOINTS: _c(
        "The VM has checkpoints: a migration loses them, and the next backup fails.",
        "Delete them (virsh checkpoint-delete); make a full backup after the migration.",
    ),
    Reason.NAME_TAKEN: _c(
        "The target has another domain with the same name.",
        "Rename one of the two, or choose another target.",
    ),
    Reason.SECRET: _c(
        "A libvirt secret that a disk or device needs is missing on the target.",
        "Define the secret on the target (virsh secret-define, secret-set-value).",
    ),
    Reason.FILE_MISSING: _c(
        "A file that the VM needs beside its disks (kernel, loader ...) is missing on the target.",
        "Put the file at the same path on the target, or choose another target.",
    ),
    Reason.HUGEPAGES: _c(
        "The target has too few free huge pages of the size that the VM needs.",
        "Reserve huge pages on the target, or choose another target.",
    ),
    Reason.PINNING: _c(
        "The VM is pinned to CPUs or NUMA nodes that the target does not have.",
        "Remove or change the pinning, or choose another target.",
    ),
    Reason.PENDING_CHANGES: _c(
        "What the VM starts with next differs from what runs, and could not be started elsewhere.",
        "See virsh dumpxml --inactive: undo the change, restart the VM so that it runs with it, or"
        " choose another on_not_migratable.",
    ),
    Reason.TPM_STATE: _c(
        "The state of the VM's emulated TPM cannot be moved to the target.",
        "Put the TPM state on shared storage or use a newer libvirt, or choose on_not_migratable.",
    ),
    Reason.BLOCK_JOB: _c(
        "A block job (copy, commit, backup) is running on a disk of the VM.",
        "Wait until the block job ends, or cancel it (virsh blockjob --abort).",
    ),
    Reason.TRANSIENT: _c(
        "The VM is transient: libvirt can neither save it nor keep its definition when it stops.",
        "Define the VM persistently, or choose another on_not_migratable.",
    ),
    Reason.RESTARTS: _c(
        "The VM starts again when its guest powers off, so it cannot be shut down.",
        "virsh set-lifecycle-action NAME poweroff destroy --live --config, or choose another"
        " on_not_migratable.",
    ),
    Reason.DEFINITION_LEFT: _c(
        "Others moved the VM, and its definition is still on the host that it left.",
        "Define it where it runs (virsh dumpxml --migratable, virsh define), then undefine it"
        " (virsh undefine --keep-nvram) on the host that it left.",
    ),
    Reason.AUTOSTART_SUSPENDED: _c(
        "The VM is off, and its autostart is off until the restore: a reboot does not start it.",
        "Nothing: the restore gives it back.",
    ),
    Reason.NO_TARGET: _c(
        "No target takes this VM: no uncordoned, reachable host has room and meets its needs.",
        "Free memory on another host, uncordon one, add one, or choose on_not_migratable.",
    ),
    Reason.NEWER_TO_OLDER: _c(
        "A target runs an older QEMU or libvirt: a migration to it is not supported.",
        "Update the target first, or keep a host of the same version as a target.",
    ),
    Reason.NOT_RUNNING_NORMALLY: _c(
        "The VM is paused, crashed or in another state that cannot migrate live.",
        "Resume or stop the VM by hand, then run again.",
    ),
    Reason.STOP_NOT_ALLOWED: _c(
        "The drain has to stop this VM, and no option or rule allows that.",
        "Set allow_stop for this VM (option or rule), or stop it by hand.",
    ),
    Reason.EXTERNAL_TIMED_OUT: _c(
        "The VM's owner (strategy External) did not move it within external_timeout.",
        "Ask the owner to move the VM, or raise external_timeout.",
    ),
    Reason.NOT_KNOWN_YET: _c(
        "Whether the VM can migrate is not known.",
        "See the message for what could not be read, fix it, then run again.",
    ),
    Reason.UNDECIDED: _c(
        "A rule compares a value that is not known, so nothing is decided.",
        "Give the rule an 'unknown' answer, or make the value known.",
    ),
    Reason.SKIPPED: _c(
        "The policy leaves this VM on the node, so the node is not drained.",
        "Move or stop the VM by hand, or choose another on_not_migratable.",
    ),
    Reason.HOOK_PENDING: _c(
        "A hook of the VM's rule has no answer yet.",
        "Use the roles drain and restore, which run it; or run its tasks and pass hooks_done.",
    ),
    Reason.MIGRATION_FAILED: _d(
        "The migration failed; the VM runs on at the source.",
        "See the message and the logs of libvirtd on both hosts.",
    ),
    Reason.COMPLETION_TIMEOUT: _d(
        "The migration took longer than completion_timeout_per_gib allows.",
        "Allow post-copy or auto-converge, give it more bandwidth, or more time.",
    ),
    Reason.NO_PROGRESS: _d(
        "The migration made no progress for progress_timeout.",
        "Allow post-copy or auto-converge; check the link between the hosts.",
    ),
    Reason.ABORTED: _c(
        "The migration was aborted on request.",
        "Run the drain again when the VM may move.",
    ),
    Reason.OUTCOME_LOST: _c(
        "The process that watched the migration died; where the VM runs is known.",
        "Nothing, if the VM runs. libvirtd's log names the cause.",
    ),
    Reason.POSTCOPY_BROKEN: _d(
        "The link broke in post-copy. The VM's memory is on both hosts.",
        "Fix the link and wait. Never destroy either domain: both are needed.",
    ),
    Reason.PEER_UNREACHABLE: _c(
        "A host does not answer. No VM moves to it, and VMs that may run on it wait.",
        "Repair the connection to the host (see the message), then run again.",
    ),
    Reason.STORE_FULL: _c(
        "A target has no space or no inodes left where the maintenance writes down what comes.",
        "Free some there (pool virtops, /var/lib/libvirt/virtops), or give another target.",
    ),
    Reason.ATTEMPTS_USED_UP: _d(
        "All attempts to migrate failed.",
        "See the message of the last attempt, fix the cause, then run again.",
    ),
    Reason.DEADLINE: _c(
        "The node was not drained or restored within drain_timeout.",
        "Run again to continue, or raise drain_timeout.",
    ),
    Reason.SHUTDOWN_TIMED_OUT: _d(
        "The guest did not shut down within shutdown_timeout.",
        "Shut it down from inside, raise shutdown_timeout, or allow force_stop.",
    ),
    Reason.STOP_FAILED: _d(
        "The VM could not be stopped, saved or moved while off.",
        "See the message, fix the cause, then run again.",
    ),
    Reason.STOPPED_BY_ITSELF: _c(
        "The guest or someone else stopped the VM during the run.",
        "Start it on the host that defines it, if it should run.",
    ),
    Reason.RESTARTED: _c(
        "Someone else ended the VM's instance during the run, and the platform starts it anew.",
        "Nothing, if that was intended. Its guest was shut down or killed, and has booted again.",
    ),
    Reason.VANISHED: _c(
        "Someone else undefined or destroyed the VM, or a transient VM ended.",
        "Nothing, if that was intended. Otherwise libvirtd's logs on its hosts say when"
        " it went; define it again from a definition of your own.",
    ),
    Reason.VM_LOST: _d(
        "The VM is on no host, in two full reads of all hosts.",
        "See libvirtd's logs. The last definition is in the host's record and its copies.",
    ),
    Reason.RUNNING_TWICE: _d(
        "The VM runs on two hosts, in two full reads.",
        "Check which of the two is right, and stop the other by hand. Nothing was touched.",
    ),
    Reason.CRASHED: _d(
        "The VM crashed.",
        "Check the guest's console and QEMU's log.",
    ),
    Reason.CANNOT_START: _d(
        "A VM that was stopped for the maintenance cannot be started again.",
        "See the message, fix the cause, then run restore again.",
    ),
    **OF_THE_CLUSTER,
    Reason.INBOUND: _c(
        "A migration to this node is under way or holds a reservation on it.",
        "Wait until it ends, or abort it on its source.",
    ),
    Reason.STARTS_HERE: _c(
        "A VM is starting on the node: its pod was put there before the cordon.",
        "Check the pod's events. Delete the pod to have the VM started on another node.",
    ),
    Reason.NODE_UNREADABLE: _c(
        "The node or its record could not be read.",
        "See the message, fix the cause, then run again.",
    ),
    Reason.RUNS_THE_MAINTENANCE: _c(
        "The maintenance itself runs in this VM or on this node.",
        "Run the maintenance from a machine that is not on the node.",
    ),
}
