"""Rows: why a VM cannot migrate, known in advance."""

from __future__ import annotations

from .codes import Reason
from .platform import BOTH, LIBVIRT, Platform
from .row import CONDITION, XML, Preflight, Row, on_kubevirt

ROWS: dict[Reason, Row] = {
    Reason.DisksNotLiveMigratable: Row(
        "A disk is local and cannot be copied, or the target has different data at its path.",
        "Move the disk and its backing files to shared storage, or choose on_not_migratable.",
        on=on_kubevirt(
            "A volume of the VM cannot be used by two nodes at a time.",
            "Put it on a claim with ReadWriteMany, or choose on_not_migratable.",
        ),
        lasting=True,
        preflight=Preflight(BOTH, "the domain's XML; the target's pools and paths", on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.InterfaceNotLiveMigratable: Row(
        "A network, bridge or network filter of the VM does not exist on the target, or differs there.",
        "Create or start it on the target as it is here, or choose another target.",
        on=on_kubevirt(
            "An interface of the VM has a binding that cannot migrate.",
            ("Give the interface a binding that can migrate (masquerade), or choose on_not_migratable."),
        ),
        lasting=True,
        preflight=Preflight(BOTH, "the domain's XML; the target's networks", on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.HotplugNotLiveMigratable: Row(
        "A hotplugged device keeps the VM on its host.",
        "Unplug the device, or choose on_not_migratable.",
        on=on_kubevirt(
            "A hotplugged volume or interface keeps the VM on its node.", "Unplug it, or choose on_not_migratable."
        ),
        lasting=True,
        preflight=Preflight(BOTH, XML, on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.VirtIOFSNotLiveMigratable: Row(
        "A host directory is shared into the VM (virtiofs or 9p).",
        "Unmount and detach the share, or choose on_not_migratable.",
        on=on_kubevirt(
            "A filesystem is shared into the VM by virtiofs.",
            ("Enable its live migration in KubeVirt, remove the share, or choose on_not_migratable."),
        ),
        lasting=True,
        preflight=Preflight(BOTH, XML, on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.HostDeviceNotLiveMigratable: Row(
        "A device of the host is passed through to the VM.",
        "Detach the device, or choose on_not_migratable.",
        on=on_kubevirt(
            "A device of the node is passed through to the VM.",
            "Remove the device from the VM, or choose on_not_migratable.",
        ),
        lasting=True,
        preflight=Preflight(BOTH, XML, on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.SEVNotLiveMigratable: Row(
        "The VM's memory is encrypted by AMD SEV.",
        "Such a VM cannot migrate: choose shutdown or cold_migrate as on_not_migratable.",
        lasting=True,
        preflight=Preflight(BOTH, XML, on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.SecureExecutionNotLiveMigratable: Row(
        "The VM runs with IBM Secure Execution.",
        "Such a VM cannot migrate: choose shutdown or cold_migrate as on_not_migratable.",
        lasting=True,
        preflight=Preflight(BOTH, XML, on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.TDXNotLiveMigratable: Row(
        "The VM is an Intel TDX guest.",
        "Such a VM cannot migrate: choose shutdown or cold_migrate as on_not_migratable.",
        lasting=True,
        preflight=Preflight(BOTH, XML, on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.HypervPassthroughNotLiveMigratable: Row(
        "The VM uses Hyper-V features in passthrough mode.",
        "Name the features that the VM needs instead of passthrough.",
        lasting=True,
        preflight=Preflight(BOTH, XML, on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.PersistentReservationNotLiveMigratable: Row(
        "A disk uses SCSI persistent reservations, which stay with the host.",
        "Release the reservation, or choose on_not_migratable.",
        on=on_kubevirt(
            "A disk uses SCSI persistent reservations, which stay with the node.",
            "Release the reservation, or choose on_not_migratable.",
        ),
        lasting=True,
        preflight=Preflight(BOTH, XML, on={Platform.KUBEVIRT: CONDITION}),
    ),
    Reason.CPUModelNotLiveMigratable: Row(
        "The VM's CPU cannot run on the target.",
        "Give the VM a CPU model that both hosts have, or choose another target.",
        on=on_kubevirt(
            "The VM's CPU cannot run on another node.", "Give the VM a named CPU model that several nodes have."
        ),
        lasting=True,
        preflight=Preflight(
            BOTH, "libvirt's comparison on the target", on={Platform.KUBEVIRT: "the nodes' CPU model labels"}
        ),
    ),
    Reason.MachineTypeMissing: Row(
        "The target's QEMU does not know the VM's machine type.",
        "Update QEMU on the target, or choose another target.",
        on=on_kubevirt(
            "No other node emulates the VM's machine type.",
            "Give the VM a machine type that KubeVirt's configuration names.",
        ),
        lasting=True,
        preflight=Preflight(LIBVIRT, "the target's capabilities"),
    ),
    Reason.EmulatorMissing: Row(
        "The target does not have the emulator that the VM's definition names.",
        "Install it at the same path on the target, or choose another target.",
        lasting=True,
        preflight=Preflight(LIBVIRT, "the target's domain capabilities"),
    ),
    Reason.GraphicsNotLiveMigratable: Row(
        "The VM's VNC or SPICE cannot listen on the target as it does on its host.",
        ("Let it listen on 0.0.0.0 or a libvirt network, with autoport, or choose another target."),
        lasting=True,
        preflight=Preflight(LIBVIRT, "the XML of the domain and of the target's"),
    ),
    Reason.SharedMemoryNotLiveMigratable: Row(
        "A shared memory device (ivshmem) keeps the VM on its host.",
        "Detach the device or give it role='master', or choose on_not_migratable.",
        lasting=True,
        preflight=Preflight(LIBVIRT, XML),
    ),
    Reason.LaunchSecurityNotLiveMigratable: Row(
        "The VM has a type of launch security that is not known to migrate.",
        "Such a VM cannot migrate: choose shutdown or cold_migrate as on_not_migratable.",
        lasting=True,
        preflight=Preflight(LIBVIRT, XML),
    ),
    Reason.QEMUCommandLineNotDeclared: Row(
        "The VM has its own QEMU arguments, and libvirt cannot check them.",
        "If what they name is the same on every host, declare qemuCommandLine portable.",
        lasting=True,
        preflight=Preflight(LIBVIRT, "the domain's XML: qemu:commandline, qemu:override, metadata"),
    ),
    Reason.MigrationBlockedByQEMU: Row(
        "QEMU refuses to migrate the VM as it runs now.",
        ("Detach the device or end the use that the message names, or choose on_not_migratable."),
        lasting=True,
        of_the_vm=True,
        preflight=Preflight(LIBVIRT, "query-migrate, where someone else used the domain's monitor"),
    ),
    Reason.SnapshotsPresent: Row(
        "libvirt does not migrate a domain that has snapshots.",
        "Delete the snapshots (virsh snapshot-delete), or choose on_not_migratable.",
        on=on_kubevirt("A snapshot of the VM is in progress.", "Wait until it ends, then run again."),
        lasting=True,
        preflight=Preflight(LIBVIRT, "the domain's list of snapshots"),
    ),
    Reason.CheckpointsPresent: Row(
        "The VM has checkpoints: a migration loses them, and the next backup fails.",
        "Delete them (virsh checkpoint-delete); make a full backup after the migration.",
        lasting=True,
        preflight=Preflight(LIBVIRT, "the domain's list of checkpoints"),
    ),
    Reason.NameTaken: Row(
        "The target has another domain with the same name.",
        "Rename one of the two, or choose another target.",
        on=on_kubevirt("Another object has the name that is needed.", "Remove or rename it."),
        lasting=True,
        preflight=Preflight(LIBVIRT, "the target's list of domains"),
    ),
    Reason.SecretMissing: Row(
        "A libvirt secret that a disk or device needs is missing on the target, or has no value there.",
        "Define the secret on the target (virsh secret-define, secret-set-value).",
        on=on_kubevirt(
            "A Secret that a volume of the VM needs is missing.", "Create the Secret in the VM's namespace."
        ),
        lasting=True,
        preflight=Preflight(LIBVIRT, "the target's list of secrets"),
    ),
    Reason.FileMissing: Row(
        ("A file that the VM needs beside its disks (kernel, loader ...) is missing on the target."),
        "Put the file at the same path on the target, or choose another target.",
        lasting=True,
        preflight=Preflight(LIBVIRT, "the target's storage pools"),
    ),
    Reason.HugepagesMissing: Row(
        "The target has too few free huge pages of the size that the VM needs.",
        "Reserve huge pages on the target, or choose another target.",
        lasting=True,
        preflight=Preflight(LIBVIRT, "the target's free huge pages"),
    ),
    Reason.PinningNotLiveMigratable: Row(
        "The VM is pinned to CPUs or NUMA nodes that the target does not have.",
        "Remove or change the pinning, or choose another target.",
        lasting=True,
        preflight=Preflight(LIBVIRT, "the domain's XML; the target's CPUs"),
    ),
    Reason.PendingChanges: Row(
        ("The configuration for the VM's next start differs from the running one, and could not be started elsewhere."),
        (
            "See virsh dumpxml --inactive: undo the change, restart the VM so that it runs with"
            " it, or choose another on_not_migratable."
        ),
        on=on_kubevirt(
            "The VM was changed, and the change takes effect at its next start.", "Restart the VM, or undo the change."
        ),
        preflight=Preflight(LIBVIRT, "the persistent definition beside the live domain XML"),
    ),
    Reason.TPMStateNotLiveMigratable: Row(
        "The state of the VM's emulated TPM cannot be moved to the target.",
        ("Put the TPM state on shared storage or use a newer libvirt, or choose on_not_migratable."),
        on=on_kubevirt(
            "The state of the VM's persistent TPM is on a volume that cannot move.",
            "Put it on a storage class with ReadWriteMany (vmStateStorageClass).",
        ),
        lasting=True,
        preflight=Preflight(LIBVIRT, "the domain's XML; libvirt's versions"),
    ),
    Reason.BlockJobRunning: Row(
        "A block job (copy, commit, backup) is running on a disk of the VM.",
        "Wait until the block job ends, or cancel it (virsh blockjob --abort).",
        on=on_kubevirt("A disk of the VM is being copied.", "Wait until the copy ends, or cancel it."),
        preflight=Preflight(LIBVIRT, "the domain's jobs"),
    ),
    Reason.TransientDomain: Row(
        ("The VM is transient: libvirt can neither save it nor keep its definition when it stops."),
        "Define the VM persistently, or choose another on_not_migratable.",
        on=on_kubevirt(
            ("The VM has no VirtualMachine: once stopped, nothing keeps its definition or starts it."),
            (
                "Create a VirtualMachine for it; or keep its definition (kubectl get vmi NAME -o "
                "yaml), delete it by hand, and create it again after the work."
            ),
        ),
        preflight=Preflight(BOTH, "no persistent definition; no VirtualMachine owns the instance"),
    ),
    Reason.RestartsOnPowerOff: Row(
        "The VM starts again when its guest powers off, so it cannot be shut down.",
        ("Run virsh set-lifecycle-action NAME poweroff destroy --live --config, or choose another on_not_migratable."),
        on=on_kubevirt(
            "The VM starts again when its guest powers off, so it cannot be shut down.",
            "Choose another on_not_migratable.",
        ),
        preflight=Preflight(LIBVIRT, "on_poweroff in the domain XML"),
    ),
    Reason.StateNotLiveMigratable: Row(
        "The VM is paused, crashed or in another state that cannot migrate live.",
        "Resume or stop the VM by hand, then run again.",
        preflight=Preflight(BOTH, "the domain's state", on={Platform.KUBEVIRT: "the VMI's condition Paused"}),
    ),
}
