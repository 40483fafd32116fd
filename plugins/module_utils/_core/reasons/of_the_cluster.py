# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rows of the catalogue: the cluster, its API, the other pods of a node, a withdrawal."""

from __future__ import annotations

from .codes import Reason
from .info import ReasonInfo
from .info import control as _c
from .info import data as _d

OF_THE_CLUSTER: dict[Reason, ReasonInfo] = {
    Reason.QUOTA: _c(
        "A ResourceQuota of the namespace leaves no room for the target pod.",
        "Raise the quota by one pod of this size, or remove something from the namespace.",
    ),
    Reason.TARGET_UNSCHEDULABLE: _c(
        "No node takes the target pod.",
        "See which predicate fails; uncordon or add a node that fits, or change the selector.",
    ),
    Reason.TARGET_PREPARATION: _c(
        "The target pod runs, but the target is not ready to receive.",
        "Check virt-handler on the target; deleting the target pod ends this attempt.",
    ),
    Reason.WAITING_FOR_SLOT: _c(
        "The migration waits for a slot within the cluster's limits.",
        "Wait, or raise the limits; a stuck migration holds its slot until it is ended.",
    ),
    Reason.NO_SLOTS: _c(
        "KubeVirt's own limit of parallel migrations lets none begin.",
        "Set the limit that the message names, in the KubeVirt object, to 1 or more.",
    ),
    Reason.RETRY_BACKOFF: _c(
        "The platform waits before it tries again.",
        "Wait, or fix what made the earlier attempts fail.",
    ),
    Reason.BACKUP: _c(
        "A backup of the VM is under way.",
        "Wait until the backup ends, or abort it.",
    ),
    Reason.UTILITY_VOLUMES: _c(
        "Utility volumes are attached to the VM.",
        "Detach them, or wait until what uses them ends.",
    ),
    Reason.DISRUPTION_BUDGET: _c(
        "A PodDisruptionBudget does not allow the eviction.",
        "Give the budget an integer minAvailable that leaves room for one eviction.",
    ),
    Reason.WEBHOOK_UNAVAILABLE: _c(
        "virt-api does not answer, so the API refuses what needs its webhooks.",
        "Restore virt-api, then run again.",
    ),
    Reason.BUDGET_NOT_COMPUTED: _c(
        "A PodDisruptionBudget cannot be computed, so it never allows an eviction.",
        "Give the budget an integer minAvailable; VMIs have no scale for the other forms.",
    ),
    Reason.HOST_MODEL: _c(
        "The VM has the CPU model of its node (host-model), and no other node has it.",
        "Add a node with this CPU model, or give the VM a named model.",
    ),
    Reason.ADOPTED: _c(
        "A migration that someone else requested is under way. The drain waits for it.",
        "Nothing. It belongs to its requester: an abort of the drain does not end it.",
    ),
    Reason.TWO_LOOPS: _c(
        "Something else requests migrations of this VM too.",
        "Pause it during the maintenance. The message names it.",
    ),
    Reason.POD_UNMANAGED: _c(
        "A pod has no controller, so nothing creates it again.",
        "Set pods.force if the pod may be lost for good, or remove it by hand.",
    ),
    Reason.POD_LOCAL_DATA: _c(
        "A pod has data in an emptyDir, which is lost when the pod goes.",
        "Set pods.delete_emptydir_data if the data may be lost.",
    ),
    Reason.POD_OF_DAEMONSET: _c(
        "A pod belongs to a DaemonSet, which creates it again at once.",
        "Set pods.ignore_daemonsets to leave it; set pods.force if its DaemonSet is gone.",
    ),
    Reason.POD_TERMINATING: _c(
        "A pod is terminating and has not ended yet.",
        "Wait for its grace period; then check its finalizers and the kubelet.",
    ),
    Reason.LAST_REPLICA: _c(
        "The VMs or the API need this pod, and no other replica is Ready elsewhere.",
        "Scale its controller up, or restore the other replica; then run again.",
    ),
    Reason.FORBIDDEN: _c(
        "The account is not allowed to do this.",
        "Grant the verb on the resource that the message names.",
    ),
    Reason.ADMISSION: _c(
        "A webhook or policy of the cluster refuses the request.",
        "Satisfy what the message names, or have it let the maintenance pass; then run again.",
    ),
    Reason.API_ERROR: _c(
        "The API refused the request.",
        "Fix what the message names, then run again.",
    ),
    Reason.EVACUATION_NOT_STARTED: _c(
        "The VM is marked for evacuation, and it has no migration.",
        "Wait some minutes: KubeVirt continues when the Node changes. To end it, abort it.",
    ),
    Reason.TARGET_POD_NOT_READY: _c(
        "The target pod has a node and does not start.",
        "Check the events of the pod: image, init container, or the node's kubelet.",
    ),
    Reason.TARGET_POD_REFUSED: _c(
        "The API server refuses the target pod that KubeVirt creates.",
        "Change what the message names: the namespace's PodSecurity level, or a webhook.",
    ),
    Reason.STORAGE_NOT_READY: _c(
        "A volume of the target pod cannot be bound, attached or mounted.",
        "Check the claim and its storage; a volume for two nodes needs ReadWriteMany.",
    ),
    Reason.DRAIN_TAINT: _c(
        "The node has KubeVirt's drain taint: KubeVirt moves the VMs itself, and refuses an abort.",
        "Remove it: kubectl taint nodes NODE kubevirt.io/drain- (or the key that is configured).",
    ),
    Reason.OBJECT_STAYS: _c(
        "The VM has moved; KubeVirt keeps the migration object open.",
        "Nothing for the VM. The object holds a slot until the condition it names is gone.",
    ),
    Reason.TOO_LATE: _c(
        "The VM runs on the target or is in post-copy: the migration cannot be aborted.",
        "Wait until it ends, then migrate the VM to where it should run.",
    ),
    Reason.ABORT_UNANSWERED: _d(
        "The abort of the migration is requested, and the migration has not ended.",
        "Check virt-handler and virt-launcher on the source; the VM runs on meanwhile.",
    ),
    Reason.MARK_STAYS: _c(
        "The request to move the VM could not be withdrawn; the VM still carries it.",
        "See the message. On KubeVirt a migration that succeeds removes it.",
    ),
}
