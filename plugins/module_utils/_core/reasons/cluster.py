"""Rows: the cluster, its API, the other pods of a node, a withdrawal."""

from __future__ import annotations

from .codes import Reason
from .platform import KUBEVIRT
from .row import About, Plane, Preflight, Row, Severity

ROWS: dict[Reason, Row] = {
    Reason.QuotaExceeded: Row(
        "A ResourceQuota of the namespace leaves no room for the target pod.",
        "Raise the quota by one pod of this size, or remove something from the namespace.",
        preflight=Preflight(KUBEVIRT, "ResourceQuota: hard less used, against the pod's size"),
    ),
    Reason.TargetUnschedulable: Row(
        "No node can take the target pod.",
        "See which predicate fails; uncordon or add a node that fits, or change the selector.",
    ),
    Reason.TargetPreparation: Row(
        "The target pod runs, but the target is not ready to receive.",
        "Check the virt-handler that the message names. Deleting the target pod ends this attempt.",
    ),
    Reason.WaitingForSlot: Row(
        "The migration waits for a slot within the cluster's limits.",
        "Wait, or raise the limits; a stuck migration holds its slot until it is ended.",
        in_a_queue=True,
    ),
    Reason.MigrationLimitZero: Row(
        "KubeVirt's own limit of parallel migrations allows none.",
        "Set the limit that the message names, in the KubeVirt object, to 1 or more.",
        preflight=Preflight(KUBEVIRT, "spec.configuration.migrations of the KubeVirt object", about=About.CLUSTER),
    ),
    Reason.MigrationBackoff: Row(
        "The platform waits before it tries again.",
        "Wait, or fix what made the earlier attempts fail.",
        in_a_queue=True,
    ),
    Reason.BackupInProgress: Row(
        "A backup of the VM is under way.",
        "Wait until the backup ends, or abort it.",
        preflight=Preflight(KUBEVIRT, "VMI.status.changedBlockTracking; an evacuation aborts the backup"),
    ),
    Reason.UtilityVolumesPresent: Row(
        "Utility volumes are attached to the VM.",
        "Detach them, or wait until what uses them ends.",
        preflight=Preflight(KUBEVIRT, "VMI.spec.utilityVolumes"),
    ),
    Reason.DisruptionBudget: Row(
        "A PodDisruptionBudget does not allow the eviction.",
        "Give the budget an integer minAvailable that leaves room for one eviction.",
        preflight=Preflight(KUBEVIRT, "PodDisruptionBudgets that select the pod", also=(About.POD,)),
    ),
    Reason.WebhookUnavailable: Row(
        "virt-api does not answer, so the API refuses what needs its webhooks.",
        "Repair virt-api, then run again.",
        preflight=Preflight(KUBEVIRT, "virt-api's version; evictions as a dry run", about=About.CLUSTER),
    ),
    Reason.DisruptionBudgetNotComputed: Row(
        "A PodDisruptionBudget cannot be computed, so it never allows an eviction.",
        "Give the budget an integer minAvailable; VMIs have no scale for the other forms.",
        preflight=Preflight(KUBEVIRT, "the eviction as a dry run; the budget's condition", about=About.POD),
    ),
    Reason.HostModelNotElsewhere: Row(
        "The VM has the CPU model of its node (host-model), and no other node has it.",
        "Add a node with this CPU model, or give the VM a named model.",
    ),
    Reason.AdoptedMigration: Row(
        "A migration that someone else requested is under way. The drain waits for it.",
        "Nothing. It belongs to its requester: an abort of the drain does not end it.",
        in_a_queue=True,
    ),
    Reason.TwoLoops: Row(
        "Something else requests migrations of this VM too.",
        "Pause it during the maintenance. The message names it.",
        in_a_queue=True,
    ),
    Reason.Forbidden: Row(
        "The account is not allowed to do this.",
        "Grant the verb on the resource that the message names; renew credentials that are not accepted.",
        preflight=Preflight(KUBEVIRT, "SelfSubjectAccessReview", about=About.CLUSTER),
    ),
    Reason.AdmissionRefused: Row(
        "A webhook or policy of the cluster refuses the request.",
        "Satisfy what the message names, or have it let the maintenance pass; then run again.",
    ),
    Reason.APIError: Row(
        "The API refused the request.",
        "Fix what the message names, then run again.",
        preflight=Preflight(KUBEVIRT, "the eviction as a dry run on the server", also=(About.POD,)),
    ),
    Reason.PodNotManaged: Row(
        "A pod has no controller, so nothing creates it again.",
        "Set pods.force if the pod may be lost for good, or remove it by hand.",
        preflight=Preflight(KUBEVIRT, "the pod's owner references; pods.force", about=About.NODE, also=(About.POD,)),
    ),
    Reason.PodHasLocalData: Row(
        "A pod has data in an emptyDir, which is lost when the pod goes.",
        "Set pods.delete_emptydir_data if the data may be lost.",
        preflight=Preflight(
            KUBEVIRT, "the pod's volumes; pods.delete_emptydir_data", about=About.NODE, also=(About.POD,)
        ),
    ),
    Reason.PodOfDaemonSet: Row(
        "A pod belongs to a DaemonSet, which creates it again at once.",
        "Set pods.ignore_daemonsets to leave it; set pods.force if its DaemonSet is gone.",
        preflight=Preflight(
            KUBEVIRT, "its DaemonSet; pods.ignore_daemonsets, pods.force", about=About.NODE, also=(About.POD,)
        ),
    ),
    Reason.PodStillTerminating: Row(
        "A pod is terminating and has not ended yet.",
        "Wait for its grace period; then check its finalizers and the kubelet.",
        preflight=Preflight(KUBEVIRT, "the pod's deletionTimestamp", about=About.POD, severity=Severity.WARNING),
    ),
    Reason.PodNotCompleted: Row(
        "A pod has the label cluster.x-k8s.io/drain=wait-completed and still runs, so the drain waits for it.",
        "Wait until it has completed; or remove the label, and the pod is evicted.",
        preflight=Preflight(
            KUBEVIRT, "the pod's label cluster.x-k8s.io/drain", about=About.POD, severity=Severity.WARNING
        ),
    ),
    Reason.VolumeStillAttached: Row(
        "Its pods have left the node, and a volume of theirs is still attached to it.",
        "Wait for the attach-detach controller; then look at the VolumeAttachment and the CSI driver. A node that is "
        "powered off now keeps the volume from its new pod for six minutes.",
    ),
    Reason.LastReadyReplica: Row(
        "The VMs or the API need this pod, and no other replica is Ready elsewhere.",
        "Scale its controller up, or restore the other replica; then run again.",
        preflight=Preflight(KUBEVIRT, "the pods of its controller on other nodes", about=About.POD),
    ),
    Reason.EvacuationNotStarted: Row(
        "The VM is marked for evacuation, and it has no migration.",
        "Wait some minutes: KubeVirt continues when the Node changes. To end it, abort it.",
    ),
    Reason.VirtControllerSilent: Row(
        "virt-controller does not act on what its objects report, so no migration starts or ends.",
        "Check the virt-controller pods: one of them must lead. It then continues by itself; guests keep running.",
    ),
    Reason.TargetPodNotReady: Row(
        "The target pod has a node but does not start.",
        "Check the events of the pod: image, init container, or the node's kubelet.",
    ),
    Reason.TargetPodRefused: Row(
        "KubeVirt cannot create a target pod: the API server refuses it.",
        "Change what the message names: the namespace's PodSecurity level, a LimitRange or a webhook.",
    ),
    Reason.StorageNotReady: Row(
        "A volume of the target pod cannot be bound, attached or mounted.",
        "Check the claim and its storage; a volume for two nodes needs ReadWriteMany.",
    ),
    Reason.DrainTaint: Row(
        ("The node has KubeVirt's drain taint: KubeVirt moves the VMs itself, and refuses an abort."),
        ("Remove it: kubectl taint nodes NODE kubevirt.io/drain- (or the key that is configured)."),
        preflight=Preflight(KUBEVIRT, "the node's taints; nodeDrainTaintKey", about=About.NODE),
    ),
    Reason.MigrationObjectStays: Row(
        "The VM has moved; KubeVirt keeps the migration object open.",
        "Nothing for the VM. The object holds a slot until the condition it names is gone.",
    ),
    Reason.TooLateToAbort: Row(
        "The VM runs on the target or is in post-copy: the migration cannot be aborted.",
        "Wait until it ends, then migrate the VM to where it should run.",
    ),
    Reason.AbortUnanswered: Row(
        "The abort of the migration is requested, and the migration has not ended.",
        "Check virt-handler and virt-launcher on the source; the VM keeps running.",
        plane=Plane.DATA,
    ),
    Reason.EvacuationMarkStays: Row(
        "The request to move the VM could not be withdrawn; the VM still carries it.",
        "See the message. On KubeVirt a migration that succeeds removes it.",
    ),
}
