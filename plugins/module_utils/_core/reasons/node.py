"""Rows: the node, what others do there, and the fleet."""

from __future__ import annotations

from .codes import Reason
from .platform import BOTH, KUBEVIRT, LIBVIRT, Platform
from .row import About, Preflight, Row, Severity, on_kubevirt

ROWS: dict[Reason, Row] = {
    Reason.InboundMigration: Row(
        "A migration to this node is under way or holds a reservation on it.",
        "Wait until it ends, or abort it on its source.",
        preflight=Preflight(
            BOTH,
            "reservations on the host",
            about=About.NODE,
            severity=Severity.WARNING,
            on={Platform.KUBEVIRT: "target pods on the node"},
        ),
    ),
    Reason.MayStartTwice: Row(
        "The VM of a dead host is not started elsewhere: it could be started twice.",
        (
            "Let the playbook protect install the guard on each host (maintenance_guard), use a lock manager"
            " (virtlockd, sanlock), or declare that this host will not come back (maintenance_stays_off)."
        ),
    ),
    Reason.VMStartsHere: Row(
        "A VM is starting on the node: its pod was scheduled there before the cordon.",
        "Check the pod's events. Delete the pod to have the VM started on another node.",
    ),
    Reason.NodeUnreadable: Row(
        "The node or its record could not be read.", "See the message, fix the cause, then run again."
    ),
    Reason.RunsTheMaintenance: Row(
        "The maintenance itself runs in this VM or on this node.",
        "Run the maintenance from a machine that is not on the node.",
        preflight=Preflight(
            BOTH,
            "the guest in which Ansible runs",
            about=About.NODE,
            on={Platform.KUBEVIRT: "the pod and the guest in which Ansible runs"},
        ),
    ),
    Reason.VMStarting: Row(
        "The VM is being started on the node.",
        "Wait until it runs; the drain waits too.",
        preflight=Preflight(KUBEVIRT, "the VMI's phase", severity=Severity.WARNING, only=True),
    ),
    Reason.SnapshotInProgress: Row(
        "A snapshot of the VM is in progress.",
        "Wait until it ends.",
        preflight=Preflight(KUBEVIRT, "VirtualMachine.status.snapshotInProgress", severity=Severity.WARNING, only=True),
    ),
    Reason.ManagedSavePresent: Row(
        "The VM is saved to disk on this host: only this host can resume it.",
        "Resume it (virsh start) before the drain if it has to run during the work.",
        preflight=Preflight(LIBVIRT, "the domain's managed save image", severity=Severity.WARNING, only=True),
    ),
    Reason.MigrationInFlight: Row(
        "A migration that this maintenance did not start is under way. The drain adopts it.",
        "Wait until it ends, or abort it.",
        preflight=Preflight(
            BOTH,
            "the domain's job",
            severity=Severity.WARNING,
            on={Platform.KUBEVIRT: "unfinished migration objects"},
            only=True,
        ),
    ),
    Reason.StuckMigration: Row(
        "A migration that has stalled holds a slot.",
        "Remove the slot volume that the message names (virsh vol-delete).",
        on=on_kubevirt("A migration that has stalled holds a slot.", "Delete the migration (and its target pod)."),
        preflight=Preflight(
            BOTH,
            "slots without a job",
            about=About.CLUSTER,
            on={Platform.KUBEVIRT: "the age of the migration's phase and the state of its nodes"},
            only=True,
        ),
    ),
    Reason.LeftoverMark: Row(
        "The VM carries an evacuation mark, and no maintenance of the node is under way.",
        "Run restore, which removes the mark, unless someone evacuates the VM.",
        on=on_kubevirt(
            "The VM carries an evacuation mark, and no maintenance of the node is under way.",
            (
                "Cancel it (PUT evacuate/cancel of the VirtualMachineInstance, with its "
                "evacuationNodeName), unless someone evacuates the VM."
            ),
        ),
        preflight=Preflight(
            BOTH,
            "the domain's metadata; the host's record",
            severity=Severity.WARNING,
            on={Platform.KUBEVIRT: "VMI.status.evacuationNodeName; the node's record"},
            only=True,
        ),
    ),
    Reason.LeftoverClaim: Row(
        "A finished run left reservations on a host, which take up room there.",
        (
            "Restore their host, which removes them. Any drain does too, once their owner is "
            "proven dead. By hand: virsh vol-delete NAME --pool virtops on that host."
        ),
        preflight=Preflight(
            LIBVIRT,
            "reservations of this host without its record; reservations of other hosts that do not answer",
            about=About.NODE,
            severity=Severity.WARNING,
            only=True,
        ),
    ),
    Reason.MaintenanceUnderWay: Row(
        "A maintenance of the node is under way.",
        "Run the drain to continue it, or restore to end it.",
        preflight=Preflight(BOTH, "the node's record", about=About.NODE, severity=Severity.WARNING, only=True),
    ),
    Reason.NotAsBefore: Row(
        "A storage pool or network that was active before the maintenance of the host is not.",
        "Start it (virsh pool-start, virsh net-start) and let it start with the host (pool-autostart, net-autostart).",
        preflight=Preflight(LIBVIRT, "the host's record; its pools and networks", about=About.NODE, only=True),
    ),
    Reason.GuestAgentSilent: Row(
        "The guest agent of a VM that was moved away was connected before, and is not now.",
        (
            "Look at the guest's console: it may have crashed or hung since its move. If it is fine, start its agent, "
            "or make this a warning (maintenance_preflight_severity)."
        ),
        preflight=Preflight(
            BOTH,
            "the host's record; the agent's channel in the VM's live XML, where it runs now",
            about=About.NODE,
            on={Platform.KUBEVIRT: "the node's record; the condition AgentConnected of the VMI"},
            only=True,
        ),
    ),
    Reason.CordonedByOthers: Row(
        "Someone else cordoned the node: restore leaves it cordoned.",
        "Ask who cordoned it. Uncordon it if nobody needs the cordon.",
        preflight=Preflight(
            BOTH,
            "the host's cordon volume",
            about=About.NODE,
            severity=Severity.WARNING,
            on={Platform.KUBEVIRT: "spec.unschedulable; the annotation that a drain writes"},
            only=True,
        ),
    ),
    Reason.OthersMaintenance: Row(
        "Another tool has the node in maintenance.",
        "Wait until that maintenance ends, or end it with that tool.",
        preflight=Preflight(KUBEVIRT, "taints and annotations of other maintenance tools", about=About.NODE, only=True),
    ),
    Reason.DeschedulerAtWork: Row(
        "A descheduler is active: it also moves VMs, and takes slots.",
        "Stop it during the maintenance.",
        preflight=Preflight(
            KUBEVIRT, "its pods; VMIs marked by it", about=About.CLUSTER, severity=Severity.WARNING, only=True
        ),
    ),
    Reason.WorkloadUpdaterAtWork: Row(
        "KubeVirt's workload updater moves VMs now, and takes slots.",
        "Wait until it ends; see workloadUpdateStrategy.",
        preflight=Preflight(
            KUBEVIRT,
            "migrations with its annotation; outdated VMIs",
            about=About.CLUSTER,
            severity=Severity.WARNING,
            only=True,
        ),
    ),
    Reason.NodeNotReady: Row(
        "The node is not Ready: migrations need its virt-handler.",
        "Repair the node. If it is dead, fence it, then set its out-of-service taint; the playbook recover does both.",
        preflight=Preflight(KUBEVIRT, "the node's condition Ready", about=About.NODE, only=True),
    ),
    Reason.VirtHandlerSilent: Row(
        "virt-handler on the node sends no heartbeat.",
        "Check the virt-handler pod on the node.",
        preflight=Preflight(
            KUBEVIRT,
            "the heartbeat, against the other nodes' heartbeats, and after a reboot against Ready",
            about=About.NODE,
            only=True,
        ),
    ),
    Reason.NodeNotSchedulable: Row(
        "KubeVirt places no VM on the node: its label kubevirt.io/schedulable is not true.",
        (
            "Wait after a start of virt-handler: its second heartbeat sets the label, up to 140 s later. If it stays,"
            " check virt-handler's log: its device plugins may not have started."
        ),
        preflight=Preflight(KUBEVIRT, "the label kubevirt.io/schedulable", about=About.NODE, only=True),
    ),
    Reason.CapacityNotDeclared: Row(
        ("All memory of a host counts as room for VMs: none is kept for the host and for QEMU."),
        ("Set how much is for VMs (maintenance_memory), or how much to keep (maintenance_reserve)."),
        preflight=Preflight(
            LIBVIRT,
            "what the inventory says about the hosts that take VMs",
            about=About.CLUSTER,
            severity=Severity.WARNING,
            only=True,
        ),
    ),
    Reason.ClockSkew: Row(
        ("The hosts' clocks differ: logs mislead, certificates may not be valid yet, guests jump."),
        "Start time synchronisation (chrony) on the hosts.",
        preflight=Preflight(
            LIBVIRT,
            "each host's clock against the controller's, read by the role",
            about=About.CLUSTER,
            severity=Severity.WARNING,
            only=True,
        ),
    ),
    Reason.KubeVirtUpgrading: Row(
        "KubeVirt is being upgraded.",
        ("Wait until its phase is Deployed and its observed and target deployments are the same."),
        preflight=Preflight(KUBEVIRT, "KubeVirt.status", about=About.CLUSTER, only=True),
    ),
    Reason.KubeVirtUnhealthy: Row(
        "KubeVirt is not healthy.",
        "See the conditions of the KubeVirt object and the pods in its namespace.",
        preflight=Preflight(
            KUBEVIRT, "KubeVirt.status: phase, conditions Available and Degraded", about=About.CLUSTER, only=True
        ),
    ),
    Reason.EvacuationCannotBeCancelled: Row(
        "This KubeVirt is older than 1.7: an evacuation mark cannot be withdrawn.",
        (
            "Nothing for VMs that the drain moves: it creates its own migrations. After an "
            "abort, VMs of strategy External keep the mark; update KubeVirt to avoid that."
        ),
        preflight=Preflight(
            KUBEVIRT,
            "KubeVirt.status.observedKubeVirtVersion",
            about=About.CLUSTER,
            severity=Severity.WARNING,
            only=True,
        ),
    ),
    Reason.NotChecked: Row(
        "The preflight could not check everything.",
        "Grant the right or provide what the message names, then run the preflight again.",
        preflight=Preflight(BOTH, "what could not be read", about=About.CLUSTER, severity=Severity.WARNING, only=True),
    ),
}
