"""Why no other host takes a VM, and what can be done about it."""

from __future__ import annotations

from .codes import Reason
from .platform import BOTH, KUBEVIRT, LIBVIRT, Platform
from .row import About, Preflight, Row, on_kubevirt

ROWS: dict[Reason, Row] = {
    Reason.NoTargetWithCapacity: Row(
        "No target takes this VM: no uncordoned, reachable host has room and meets its needs.",
        "Free memory on another host, uncordon one, add one, or choose on_not_migratable.",
        on=on_kubevirt(
            "No other node takes this VM: none that is schedulable has room and meets its needs.",
            "Free memory on another node, uncordon one, add one, or choose on_not_migratable.",
        ),
        preflight=Preflight(
            BOTH,
            "each target's declared memory less what its VMs and reservations take",
            on={Platform.KUBEVIRT: "the nodes' allocatable resources less what their pods request; affinity"},
        ),
    ),
    Reason.NewerToOlder: Row(
        "A target runs an older QEMU or libvirt: a migration to it is not supported.",
        "Update the target first, keep a host of the same version as a target, or see allow_older_hypervisor of rules.",
        on=on_kubevirt(
            "Every other node runs an older hypervisor: a migration to it is not supported.",
            "Update another node first, or choose on_not_migratable.",
        ),
        preflight=Preflight(
            LIBVIRT, "the versions that libvirt reports on both hosts", about=About.NODE, also=(About.VM,)
        ),
    ),
    Reason.NoTargetForSelector: Row(
        "No other node has the labels that the VM, or a volume of it, requires.",
        "Label or uncordon a node, or change the VM's nodeSelector or node affinity.",
        preflight=Preflight(
            KUBEVIRT, "the launcher pod's node selector and affinity; its volumes' zones; the nodes' labels", only=True
        ),
    ),
    Reason.NoTargetForCPUVendor: Row(
        "No other node has a CPU of the same vendor: KubeVirt migrates to no other.",
        "Uncordon or add a node of that vendor, or choose on_not_migratable.",
        preflight=Preflight(KUBEVIRT, "the nodes' label cpu-vendor.node.kubevirt.io", only=True),
    ),
    Reason.NoTargetTolerated: Row(
        "Every other node that would fit has a taint that the VM does not tolerate.",
        "Remove the taint from a node, or give the VM a toleration.",
        preflight=Preflight(KUBEVIRT, "the nodes' taints; the launcher pod's tolerations", only=True),
    ),
    Reason.LastSchedulableNode: Row(
        "No other node takes VMs.",
        "Uncordon or fix another node first; a cordoned or tainted one does not count.",
        preflight=Preflight(
            BOTH,
            "the other hosts: reachable, not cordoned",
            about=About.NODE,
            on={Platform.KUBEVIRT: "the other nodes: Ready, kubevirt.io/schedulable, cordon, taints"},
            only=True,
        ),
    ),
    Reason.FleetTooFull: Row(
        "The other nodes together have less room than the VMs of this one need.",
        "Free memory on the other nodes, add one, or let policy stop some of the VMs.",
        preflight=Preflight(BOTH, "the sum of the free places on the targets", only=True),
    ),
}
