# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reason means on KubeVirt and what to do there, where the catalogue speaks of hosts.

A row each: sentence, remedy. The reasons themselves are the same on both platforms.
"""

from __future__ import annotations

from typing import Any

from ..._core.reasons.reason import CATALOGUE, Reason

WORDS: dict[Reason, tuple[str, str]] = {
    Reason.DISKS: (
        "A volume of the VM cannot be used by two nodes at a time.",
        "Put it on a claim with ReadWriteMany, or choose on_not_migratable.",
    ),
    Reason.INTERFACE: (
        "An interface of the VM has a binding that cannot migrate.",
        "Give the interface a binding that can migrate (masquerade), or choose on_not_migratable.",
    ),
    Reason.HOTPLUG: (
        "A hotplugged volume or interface keeps the VM on its node.",
        "Unplug it, or choose on_not_migratable.",
    ),
    Reason.VIRTIOFS: (
        "A filesystem is shared into the VM by virtiofs.",
        "Enable its live migration in KubeVirt, remove the share, or choose on_not_migratable.",
    ),
    Reason.HOST_DEVICE: (
        "A device of the node is passed through to the VM.",
        "Remove the device from the VM, or choose on_not_migratable.",
    ),
    Reason.PERSISTENT_RESERVATION: (
        "A disk uses SCSI persistent reservations, which stay with the node.",
        "Release the reservation, or choose on_not_migratable.",
    ),
    Reason.CPU_MODEL: (
        "The VM's CPU cannot run on another node.",
        "Give the VM a named CPU model that several nodes have.",
    ),
    Reason.MACHINE_TYPE: (
        "No other node emulates the VM's machine type.",
        "Give the VM a machine type that KubeVirt's configuration names.",
    ),
    Reason.SNAPSHOTS: (
        "A snapshot of the VM is in progress.",
        "Wait until it ends, then run again.",
    ),
    Reason.NAME_TAKEN: ("Another object has the name that is needed.", "Remove or rename it."),
    Reason.SECRET: (
        "A Secret that a volume of the VM needs is missing.",
        "Create the Secret in the VM's namespace.",
    ),
    Reason.PENDING_CHANGES: (
        "The VM was changed, and starts with that next.",
        "Restart the VM, or undo the change.",
    ),
    Reason.TPM_STATE: (
        "The state of the VM's persistent TPM is on a volume that cannot move.",
        "Put it on a storage class with ReadWriteMany (vmStateStorageClass).",
    ),
    Reason.BLOCK_JOB: (
        "A disk of the VM is being copied.",
        "Wait until the copy ends, or cancel it.",
    ),
    Reason.TRANSIENT: (
        "The VM has no VirtualMachine: once stopped, nothing keeps its definition or starts it.",
        "Create a VirtualMachine for it; or keep its definition (kubectl get vmi NAME -o yaml),"
        " delete it by hand, and create it again after the work.",
    ),
    Reason.NO_TARGET: (
        "No other node takes this VM: none that is schedulable has room and meets its needs.",
        "Free memory on another node, uncordon one, add one, or choose on_not_migratable.",
    ),
    Reason.NEWER_TO_OLDER: (
        "Every other node runs an older hypervisor: a migration to it is not supported.",
        "Update another node first, or choose on_not_migratable.",
    ),
    Reason.MIGRATION_FAILED: (
        "The migration failed; the VM runs on at the source.",
        "See the message, the events of the migration, and virt-handler's logs on both nodes.",
    ),
    Reason.COMPLETION_TIMEOUT: (
        "The migration took longer than completionTimeoutPerGiB allows.",
        "Allow post-copy or auto-converge in a MigrationPolicy, give the migration more bandwidth, "
        "or more time.",
    ),
    Reason.NO_PROGRESS: (
        "The migration made no progress for progressTimeout.",
        "Allow post-copy or auto-converge in a MigrationPolicy; check the link between the nodes.",
    ),
    Reason.OUTCOME_LOST: (
        "The migration object is gone before its end was read; where the VM runs is known.",
        "Nothing, if the VM runs. Its events and virt-controller's log name the cause.",
    ),
    Reason.POSTCOPY_BROKEN: (
        "The link broke in post-copy. The VM's memory is on both nodes.",
        "Fix the link and wait. Delete neither of its pods: both are needed.",
    ),
    Reason.PEER_UNREACHABLE: (
        "Where the VM runs could not be read.",
        "See the message, fix the cause, then run again.",
    ),
    Reason.STORE_FULL: (
        "A node has no space left for what is written down there.",
        "Free some, then run again.",
    ),
    Reason.STOPPED_BY_ITSELF: (
        "The guest or someone else stopped the VM during the run.",
        "Start it (virtctl start) if it should run.",
    ),
    Reason.RESTARTS: (
        "The VM starts again when its guest powers off, so it cannot be shut down.",
        "Choose another on_not_migratable.",
    ),
    Reason.DEFINITION_LEFT: (
        "Someone else moved the VM, and something of it is left on the node that it left.",
        "Check the VM's VirtualMachineInstance and its virt-launcher pods on both nodes.",
    ),
    Reason.AUTOSTART_SUSPENDED: (
        "The VM is off, and nothing starts it before the restore.",
        "Nothing: the restore gives it back.",
    ),
    Reason.VANISHED: (
        "Someone else deleted the VM during the run.",
        "Nothing, if that was intended. The API server's audit log says who did it.",
    ),
    Reason.VM_LOST: (
        "The VM should run, and two full reads of the cluster find no instance of it.",
        "Check the events of its VirtualMachine and virt-controller's log.",
    ),
    Reason.RUNNING_TWICE: (
        "The VM runs on two nodes, in two full reads.",
        "Check which of the two is right, and stop the other by hand. Nothing was touched.",
    ),
    Reason.CRASHED: ("The VM crashed.", "Check the guest's console and its virt-launcher's log."),
}


def on_kubevirt(found: Any) -> Any:
    """A result with these words: of every part of it that has a reason."""
    if isinstance(found, list):
        return [on_kubevirt(part) for part in found]
    if not isinstance(found, dict):
        return found
    new = {key: on_kubevirt(part) for key, part in found.items()}
    reason = _reason(new)
    if reason is not None:
        general, (sentence, remedy) = CATALOGUE[reason], WORDS[reason]
        new["message"] = sentence if new["message"] == general.sentence else new["message"]
        new["remedy"] = remedy if new["remedy"] == general.remedy else new["remedy"]
    return new


def _reason(found: dict[str, Any]) -> Reason | None:
    if not {"reason", "message", "remedy"} <= found.keys():
        return None
    return next((reason for reason in WORDS if reason.value == found["reason"]), None)
