"""Rows: while it runs."""

from __future__ import annotations

from .codes import Reason
from .platform import KUBEVIRT, LIBVIRT
from .row import About, Plane, Preflight, Row, Severity, on_kubevirt

ROWS: dict[Reason, Row] = {
    Reason.MigrationFailed: Row(
        "The migration failed; the VM keeps running on the source.",
        "See the message and the logs of libvirtd on both hosts.",
        on=on_kubevirt(
            "The migration failed; the VM keeps running on the source.",
            "See the message, the events of the migration, and virt-handler's logs on both nodes.",
        ),
        plane=Plane.DATA,
    ),
    Reason.NotConverging: Row(
        "The guest writes memory faster than the link can carry: its migration would never finish.",
        "Allow post-copy, auto-converge or a longer max_downtime_ms, or give the migration more bandwidth.",
        on=on_kubevirt(
            "The guest writes memory faster than KubeVirt lets its migration send: it would never finish.",
            "Apply a MigrationPolicy that allows auto-converge, post-copy or more bandwidth.",
        ),
        plane=Plane.DATA,
        lasting=True,
        of_the_vm=True,
        preflight=Preflight(
            KUBEVIRT,
            "the dirty rate of the metrics; KubeVirt's object and the MigrationPolicy that selects the VM",
            severity=Severity.WARNING,
        ),
    ),
    Reason.CompletionTimeout: Row(
        "The migration took longer than completion_timeout_per_gib allows.",
        "Allow post-copy or auto-converge, or give the migration more bandwidth or more time.",
        on=on_kubevirt(
            "The migration took longer than completionTimeoutPerGiB allows.",
            "Allow post-copy or auto-converge in a MigrationPolicy, or give the migration more bandwidth or more time.",
        ),
        plane=Plane.DATA,
        preflight=Preflight(
            KUBEVIRT,
            "the VM's memory; KubeVirt's object and the MigrationPolicy that selects the VM",
            severity=Severity.WARNING,
        ),
    ),
    Reason.ProgressTimeout: Row(
        "The migration made no progress for progress_timeout.",
        "Allow post-copy or auto-converge; check the link between the hosts.",
        on=on_kubevirt(
            "The migration made no progress for progressTimeout.",
            ("Allow post-copy or auto-converge in a MigrationPolicy; check the link between the nodes."),
        ),
        plane=Plane.DATA,
    ),
    Reason.AbortRequested: Row("The migration was aborted on request.", "Run the drain again when the VM may move."),
    Reason.OutcomeLost: Row(
        "The process that watched the migration died; it is known where the VM runs.",
        "Nothing, if the VM runs. libvirtd's log names the cause.",
        on=on_kubevirt(
            "The migration object disappeared before its outcome was read; it is known where the VM runs.",
            "Nothing, if the VM runs. Its events and virt-controller's log name the cause.",
        ),
    ),
    Reason.PostCopyBroken: Row(
        "The link broke in post-copy. The VM's memory is on both hosts.",
        "Fix the link and wait. Never destroy either domain: both are needed.",
        on=on_kubevirt(
            "The link broke in post-copy. The VM's memory is on both nodes.",
            "Fix the link and wait. Delete neither of its pods: both are needed.",
        ),
        plane=Plane.DATA,
        preflight=Preflight(LIBVIRT, "the domain's state on either side"),
    ),
    Reason.Irrecoverable: Row(
        "The VM was in post-copy, and one of its two processes has ended: memory that only it had is lost.",
        (
            "Destroy what is left of it (virsh destroy), then start it where it is defined (virsh start; a transient "
            "one: virsh create). Its disks are as after a power failure."
        ),
        on=on_kubevirt(
            "Its migration failed in post-copy, and KubeVirt has ended its instance: the memory is lost.",
            'KubeVirt reports "VMI is irrecoverable due to failed post-copy migration". Its disks are as after a '
            "power failure. It is restarted if its runStrategy says so; otherwise start it (virtctl start).",
        ),
        plane=Plane.DATA,
        preflight=Preflight(LIBVIRT, "the domain's state on either side"),
    ),
    Reason.PeerUnreachable: Row(
        "A host does not answer. No VM moves to it, and VMs that may run on it wait.",
        "Repair the connection to the host (see the message), then run again.",
        on=on_kubevirt("It could not be read where the VM runs.", "See the message, fix the cause, then run again."),
        preflight=Preflight(
            LIBVIRT,
            "a connection from this host to the peer's URI; the slots, the record of this host",
            about=About.CLUSTER,
            remedy=(
                "Repair the connection to it (see the message). While nothing depends on it, the "
                "drain goes on without it, and this is a warning."
            ),
        ),
    ),
    Reason.TargetStoreFull: Row(
        ("A target has no space or inodes left where the maintenance records incoming VMs."),
        "Free some there (pool virtops, /var/lib/libvirt/virtops), or choose another target.",
        on=on_kubevirt("A node has no space left for the maintenance's records.", "Free some, then run again."),
    ),
    Reason.AttemptsUsedUp: Row(
        "All attempts to migrate failed.",
        "See the message of the last attempt, fix the cause, then run again.",
        plane=Plane.DATA,
    ),
    Reason.DeadlineExceeded: Row(
        "The node was not drained or restored within drain_timeout.", "Run again to continue, or raise drain_timeout."
    ),
    Reason.ShutdownTimedOut: Row(
        "The guest did not shut down within shutdown_timeout.",
        "Shut it down from inside, raise shutdown_timeout, or allow force_stop.",
        plane=Plane.DATA,
    ),
    Reason.StopFailed: Row(
        "The VM could not be stopped, saved or moved while off.",
        "See the message, fix the cause, then run again.",
        plane=Plane.DATA,
    ),
    Reason.StoppedByItself: Row(
        "The guest or someone else stopped the VM during the run.",
        "Start it on the host that defines it, if it should run.",
        on=on_kubevirt(
            "The guest or someone else stopped the VM during the run.", "Start it (virtctl start) if it should run."
        ),
    ),
    Reason.RestartedByOthers: Row(
        ("Someone else ended the VM's instance during the run, and the platform restarts it."),
        ("Nothing, if that was intended. Its guest was shut down or killed, and has booted again."),
    ),
    Reason.ArrivedPaused: Row(
        "The VM has moved, and is paused where it is now.",
        "Nothing, if its owner suspended it. Otherwise repair what paused it, then resume it (virsh resume).",
        on=on_kubevirt(
            "The VM has moved, and is paused where it is now.",
            "Nothing, if its owner paused it. Otherwise unpause it (virtctl unpause vmi).",
        ),
    ),
    Reason.VMVanished: Row(
        "Someone else undefined or destroyed the VM, or a transient VM ended.",
        (
            "Nothing, if that was intended. Otherwise libvirtd's logs on its hosts show when it "
            "went; define it again from a definition of your own."
        ),
        on=on_kubevirt(
            "Someone else deleted the VM during the run.",
            "Nothing, if that was intended. The API server's audit log says who did it.",
        ),
    ),
    Reason.DefinitionLeft: Row(
        "Someone else moved the VM, and its definition is still on the host that it left.",
        (
            "Define it where it runs (virsh dumpxml --migratable, virsh define), then undefine "
            "it (virsh undefine --keep-nvram) on the host that it left."
        ),
        on=on_kubevirt(
            "Someone else moved the VM, and something of it is left on the node that it left.",
            "Check the VM's VirtualMachineInstance and its virt-launcher pods on both nodes.",
        ),
    ),
    Reason.AutostartSuspended: Row(
        ("The VM is off, and its autostart is off until the restore: a reboot does not start it."),
        "Nothing: the restore undoes that.",
        on=on_kubevirt("The VM is off, and nothing starts it before the restore.", "Nothing: the restore undoes that."),
    ),
    Reason.VMLost: Row(
        "The VM is on no host, in two full reads of all hosts.",
        "See libvirtd's logs. The last definition is in the host's record and its copies. If it was deleted on purpose,"
        " restore the host twice: the second restore forgets it.",
        on=on_kubevirt(
            "The VM should run, and two full reads of the cluster find no instance of it.",
            "Check the events of its VirtualMachine and virt-controller's log. If it should no longer run, restore the"
            " node twice: the second restore forgets it.",
        ),
        plane=Plane.DATA,
    ),
    Reason.RunningTwice: Row(
        "The VM runs on two hosts, in two full reads.",
        "Check which of the two is right, and stop the other by hand. Nothing was touched.",
        on=on_kubevirt(
            "The VM runs on two nodes, in two full reads.",
            "Check which of the two is right, and stop the other by hand. Nothing was touched.",
        ),
        plane=Plane.DATA,
        preflight=Preflight(LIBVIRT, "the domain lists of all hosts"),
    ),
    Reason.VMCrashed: Row(
        "The VM crashed.",
        "Check the guest's console and QEMU's log.",
        on=on_kubevirt("The VM crashed.", "Check the guest's console and its virt-launcher's log."),
        plane=Plane.DATA,
        preflight=Preflight(LIBVIRT, "the domain's state and its reason"),
    ),
    Reason.CannotStart: Row(
        "A VM that was stopped for the maintenance cannot be started again.",
        "See the message, fix the cause, then run restore again.",
        plane=Plane.DATA,
    ),
}
