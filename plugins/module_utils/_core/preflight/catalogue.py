# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the preflight says of each code: a row each. docs/reasons.md is made from it.

Where a code is of both platforms, these are libvirt's words; KubeVirt has a table of its own.
"""

from __future__ import annotations

from ..reasons.reason import CATALOGUE, Plane, Reason
from .codes import About, Check, CheckInfo, Platform, Severity

_L, _K = (Platform.LIBVIRT,), (Platform.KUBEVIRT,)
_B = (Platform.LIBVIRT, Platform.KUBEVIRT)
_BLOCKER, _WARNING = Severity.BLOCKER, Severity.WARNING
_CLUSTER, _NODE, _VM, _POD = About.CLUSTER, About.NODE, About.VM, About.POD
_XML = "the domain's XML"


def _from_reason(
    reason: Reason,
    platforms: tuple[Platform, ...],
    decides: str,
    about: About = _VM,
    severity: Severity = _BLOCKER,
    also: tuple[About, ...] = (),
) -> CheckInfo:
    """A code that the drain has as a reason too: the same words."""
    info = CATALOGUE[reason]
    texts = (info.sentence, info.remedy, decides)
    return CheckInfo(platforms, about, info.plane, severity, *texts, also)


def _new(
    platforms: tuple[Platform, ...],
    about: About,
    severity: Severity,
    sentence: str,
    remedy: str,
    decides: str,
) -> CheckInfo:
    return CheckInfo(platforms, about, Plane.CONTROL, severity, sentence, remedy, decides)


_MIGRATABLE: dict[Check, CheckInfo] = {
    Check.DISKS: _from_reason(Reason.DISKS, _B, f"{_XML}; the target's pools and paths"),
    Check.INTERFACE: _from_reason(Reason.INTERFACE, _B, f"{_XML}; the target's networks"),
    Check.HOTPLUG: _from_reason(Reason.HOTPLUG, _B, _XML),
    Check.VIRTIOFS: _from_reason(Reason.VIRTIOFS, _B, _XML),
    Check.HOST_DEVICE: _from_reason(Reason.HOST_DEVICE, _B, _XML),
    Check.SEV: _from_reason(Reason.SEV, _B, _XML),
    Check.SECURE_EXECUTION: _from_reason(Reason.SECURE_EXECUTION, _B, _XML),
    Check.TDX: _from_reason(Reason.TDX, _B, _XML),
    Check.HYPERV_PASSTHROUGH: _from_reason(Reason.HYPERV_PASSTHROUGH, _B, _XML),
    Check.PERSISTENT_RESERVATION: _from_reason(Reason.PERSISTENT_RESERVATION, _B, _XML),
    Check.CPU_MODEL: _from_reason(Reason.CPU_MODEL, _B, "libvirt's comparison on the target"),
    Check.MACHINE_TYPE: _from_reason(Reason.MACHINE_TYPE, _L, "the target's capabilities"),
    Check.EMULATOR: _from_reason(Reason.EMULATOR, _L, "the target's domain capabilities"),
    Check.GRAPHICS: _from_reason(Reason.GRAPHICS, _L, "the XML of the domain and of the target's"),
    Check.SHARED_MEMORY: _from_reason(Reason.SHARED_MEMORY, _L, "the domain's XML"),
    Check.LAUNCH_SECURITY: _from_reason(Reason.LAUNCH_SECURITY, _L, "the domain's XML"),
    Check.QEMU_COMMANDLINE: _from_reason(
        Reason.QEMU_COMMANDLINE, _L, "the domain's XML: qemu:commandline, qemu:override, metadata"
    ),
    Check.QEMU_BLOCKS: _from_reason(
        Reason.QEMU_BLOCKS, _L, "query-migrate, where someone else used the domain's monitor"
    ),
    Check.SNAPSHOTS: _from_reason(Reason.SNAPSHOTS, _L, "the domain's list of snapshots"),
    Check.CHECKPOINTS: _from_reason(Reason.CHECKPOINTS, _L, "the domain's list of checkpoints"),
    Check.NAME_TAKEN: _from_reason(Reason.NAME_TAKEN, _L, "the target's list of domains"),
    Check.SECRET: _from_reason(Reason.SECRET, _L, "the target's list of secrets"),
    Check.FILE_MISSING: _from_reason(Reason.FILE_MISSING, _L, "the target's storage pools"),
    Check.HUGEPAGES: _from_reason(Reason.HUGEPAGES, _L, "the target's free huge pages"),
    Check.PINNING: _from_reason(Reason.PINNING, _L, "the domain's XML; the target's CPUs"),
    Check.TPM_STATE: _from_reason(Reason.TPM_STATE, _L, "the domain's XML; libvirt's versions"),
    Check.BLOCK_JOB: _from_reason(Reason.BLOCK_JOB, _L, "the domain's jobs"),
    Check.TRANSIENT: _from_reason(
        Reason.TRANSIENT, _B, "no persistent definition; no VirtualMachine owns the instance"
    ),
    Check.PENDING_CHANGES: _from_reason(
        Reason.PENDING_CHANGES, _L, "the persistent definition beside the live domain XML"
    ),
    Check.RESTARTS: _from_reason(Reason.RESTARTS, _L, "on_poweroff in the domain XML"),
    Check.NOT_RUNNING_NORMALLY: _from_reason(Reason.NOT_RUNNING_NORMALLY, _B, "the domain's state"),
    Check.NOT_KNOWN_YET: _from_reason(Reason.NOT_KNOWN_YET, _B, "the definition could not be read"),
}
_TARGETS: dict[Check, CheckInfo] = {
    Check.NO_TARGET: _from_reason(
        Reason.NO_TARGET, _B, "each target's declared memory less what its VMs and claims take"
    ),
    Check.NO_SELECTOR: _new(
        *(_K, _VM, _BLOCKER),
        "No other node has the labels that the VM, or a volume of it, requires.",
        "Label or uncordon a node, or change the VM's nodeSelector or node affinity.",
        "the launcher pod's node selector and affinity; its volumes' zones; the nodes' labels",
    ),
    Check.NO_VENDOR: _new(
        *(_K, _VM, _BLOCKER),
        "No other node has a CPU of the same vendor: KubeVirt migrates to no other.",
        "Uncordon or add a node of that vendor, or choose on_not_migratable.",
        "the nodes' label cpu-vendor.node.kubevirt.io",
    ),
    Check.NOT_TOLERATED: _new(
        *(_K, _VM, _BLOCKER),
        "Every other node that would fit has a taint that the VM does not tolerate.",
        "Remove the taint from a node, or give the VM a toleration.",
        "the nodes' taints; the launcher pod's tolerations",
    ),
    Check.LAST_NODE: _new(
        *(_B, _NODE, _BLOCKER),
        "No other node takes VMs.",
        "Uncordon or fix another node first; a cordoned or tainted one does not count.",
        "the other hosts: reachable, not cordoned",
    ),
    # Of VMs: those that fit can move.
    Check.FLEET_TOO_FULL: _new(
        *(_B, _VM, _BLOCKER),
        "The other nodes together have less room than the VMs of this one need.",
        "Free memory on the other nodes, add one, or let policy stop some of the VMs.",
        "the sum of the free places on the targets",
    ),
    Check.NEWER_TO_OLDER: _from_reason(
        Reason.NEWER_TO_OLDER,
        _L,
        "the versions that libvirt reports on both hosts",
        _NODE,
        also=(_VM,),
    ),
    Check.COMPRESSION: _new(
        *(_L, _NODE, _BLOCKER),
        "A rule or option sets compression mt, which QEMU on the host no longer has.",
        "Remove mt from migration.compression; xbzrle stays available.",
        "the version of QEMU that libvirt reports: 9.1 removed it",
    ),
    Check.QUOTA: _from_reason(
        Reason.QUOTA, _K, "ResourceQuota: hard less used, against the pod's size"
    ),
    Check.STORAGE_HERE: _new(
        *(_B, _VM, _WARNING),
        "Only this node has storage of the VM. The migration has to copy it: that takes long.",
        "Allow time for the copy, or move the disks to shared storage.",
        "the disks' paths and pools",
    ),
    Check.LOCAL_MEDIUM: _new(
        *(_L, _VM, _BLOCKER),
        "A CD-ROM or floppy holds an image that other hosts do not have.",
        "Eject it (virsh change-media --eject), or put the image on shared storage.",
        "the domain's removable disks and what each target sees",
    ),
    Check.POST_COPY: _new(
        *(_L, _NODE, _BLOCKER),
        "The policy allows post-copy, and the kernel of a host does not permit it.",
        "Set sysctl vm.unprivileged_userfaultfd=1 on that host, or do not allow post-copy.",
        "vm.unprivileged_userfaultfd of the targets; the user that QEMU runs as",
    ),
    Check.IN_THE_CLEAR: _new(
        *(_B, _CLUSTER, _WARNING),
        "Migrations send memory, and disks that are copied, over the network in the clear.",
        "Set migration: {tls: true} (docs/security.md says which certificates QEMU needs), or"
        " ignore this where the network is your own.",
        "migration.tls of the policy and the rules",
    ),
    Check.CERTIFICATES: _new(
        *(_L, _NODE, _BLOCKER),
        "The policy encrypts migrations, and QEMU lacks a certificate for that on a host.",
        "Install it on that host, readable by QEMU's user: see docs/security.md.",
        "the files where qemu.conf says (migrate_tls_x509_cert_dir), listed by the role",
    ),
}
_POLICY: dict[Check, CheckInfo] = {
    Check.STOP_NOT_ALLOWED: _from_reason(
        Reason.STOP_NOT_ALLOWED, _B, "strategy, rules, allow_stop"
    ),
    Check.UNDECIDED: _from_reason(
        Reason.UNDECIDED, _B, "the rule that compares, and the VM's document"
    ),
    Check.SKIPPED: _from_reason(Reason.SKIPPED, _B, "on_not_migratable"),
    Check.EXTERNAL_OWNER: _new(
        *(_B, _VM, _WARNING),
        "The VM's owner moves it (External): the drain waits for the owner, then blocks.",
        "Inform the owner before the drain, or raise external_timeout.",
        "the effective eviction strategy",
    ),
    Check.STAYS_OFF: _new(
        *(_B, _VM, _WARNING),
        "The drain stops this VM, and nothing starts it again before the node is restored.",
        "Run restore after the work, or start it elsewhere by hand.",
        "the strategy; autostart",
    ),
    Check.STARTS_WITH_HOST: _new(
        *(_L, _VM, _WARNING),
        "The VM is off, and its autostart is on: the drain suspends that until the restore.",
        "Nothing: a reboot does not start it, and the restore gives its autostart back.",
        "autostart; drain_move_inactive",
    ),
    Check.DISRUPTION_BUDGET: _from_reason(
        *(Reason.DISRUPTION_BUDGET, _K, "PodDisruptionBudgets that select the pod"), also=(_POD,)
    ),
}
# What kubectl drain refuses keeps the drain from beginning; later it is about the pod alone.
_PODS: dict[Check, CheckInfo] = {
    Check.POD_UNMANAGED: _from_reason(
        *(Reason.POD_UNMANAGED, _K, "the pod's owner references; pods.force", _NODE), also=(_POD,)
    ),
    Check.POD_LOCAL_DATA: _from_reason(
        *(Reason.POD_LOCAL_DATA, _K, "the pod's volumes; pods.delete_emptydir_data", _NODE),
        also=(_POD,),
    ),
    Check.POD_OF_DAEMONSET: _from_reason(
        *(Reason.POD_OF_DAEMONSET, _K, "its DaemonSet; pods.ignore_daemonsets, pods.force", _NODE),
        also=(_POD,),
    ),
    Check.POD_TERMINATING: _from_reason(
        Reason.POD_TERMINATING, _K, "the pod's deletionTimestamp", _POD, _WARNING
    ),
    Check.LAST_REPLICA: _from_reason(
        Reason.LAST_REPLICA, _K, "the pods of its controller on other nodes", _POD
    ),
    Check.BUDGET_NOT_COMPUTED: _from_reason(
        Reason.BUDGET_NOT_COMPUTED, _K, "the eviction as a dry run; the budget's condition", _POD
    ),
    Check.NO_SLOTS: _from_reason(
        Reason.NO_SLOTS, _K, "spec.configuration.migrations of the KubeVirt object", _CLUSTER
    ),
    Check.UNMET_SETTINGS: _new(
        *(_K, _VM, _WARNING),
        "A rule requires migration settings, and KubeVirt migrates the VM with its own.",
        "Create the MigrationPolicy that the message names, or remove the setting from the rule.",
        "the rule's migration; KubeVirt's object and the MigrationPolicy that selects the VM",
    ),
}
_BUSY: dict[Check, CheckInfo] = {
    Check.STARTING: _new(
        *(_K, _VM, _WARNING),
        "The VM is being started on the node.",
        "Wait until it runs; the drain waits too.",
        "the VMI's phase",
    ),
    Check.CRASHED: _from_reason(Reason.CRASHED, _L, "the domain's state and its reason"),
    Check.RUNNING_TWICE: _from_reason(Reason.RUNNING_TWICE, _L, "the domain lists of all hosts"),
    Check.POSTCOPY_BROKEN: _from_reason(
        Reason.POSTCOPY_BROKEN, _L, "the domain's state on either side"
    ),
    Check.BACKUP: _from_reason(
        Reason.BACKUP, _K, "VMI.status.changedBlockTracking; an evacuation aborts the backup"
    ),
    Check.SNAPSHOT: _new(
        *(_K, _VM, _WARNING),
        "A snapshot of the VM is in progress.",
        "Wait until it ends.",
        "VirtualMachine.status.snapshotInProgress",
    ),
    Check.UTILITY_VOLUMES: _from_reason(Reason.UTILITY_VOLUMES, _K, "VMI.spec.utilityVolumes"),
    Check.MANAGED_SAVE: _new(
        *(_L, _VM, _WARNING),
        "The VM is saved to disk on this host: only this host can resume it.",
        "Resume it (virsh start) before the drain if it has to run during the work.",
        "the domain's managed save image",
    ),
    Check.IN_FLIGHT: _new(
        *(_B, _VM, _WARNING),
        "A migration that this maintenance did not start is under way. The drain adopts it.",
        "Wait until it ends, or abort it.",
        "the domain's job",
    ),
    Check.INBOUND: _from_reason(Reason.INBOUND, _B, "claims on the host", _NODE, _WARNING),
    Check.STUCK: _new(
        *(_B, _CLUSTER, _BLOCKER),
        "A migration that no longer continues holds a slot.",
        "Remove the slot volume that the message names (virsh vol-delete).",
        "slots without a job",
    ),
}
_OTHERS: dict[Check, CheckInfo] = {
    Check.LEFT_MARK: _new(
        *(_B, _VM, _WARNING),
        "The VM carries an evacuation mark, and no maintenance of the node is under way.",
        "Run restore, which removes the mark, unless someone evacuates the VM.",
        "the domain's metadata; the host's record",
    ),
    Check.LEFT_CLAIM: _new(
        *(_L, _NODE, _WARNING),
        "A run that is over left claims on a host, and they take room there.",
        "Restore their host, which removes them. Any drain does too, once their owner is proven"
        " dead. By hand: virsh vol-delete NAME --pool virtops on that host.",
        "claims of this host without its record; claims of other hosts that do not answer",
    ),
    Check.RECORD: _new(
        *(_B, _NODE, _WARNING),
        "A maintenance of the node is under way.",
        "Run the drain to continue it, or restore to end it.",
        "the node's record",
    ),
    Check.DRAIN_TAINT: _new(
        *(_K, _NODE, _BLOCKER),
        CATALOGUE[Reason.DRAIN_TAINT].sentence,
        CATALOGUE[Reason.DRAIN_TAINT].remedy,
        "the node's taints; nodeDrainTaintKey",
    ),
    Check.CORDONED: _new(
        *(_B, _NODE, _WARNING),
        "The node is cordoned, and not by this maintenance: restore leaves it cordoned.",
        "Ask who cordoned it. Uncordon it if nobody needs the cordon.",
        "the host's cordon volume",
    ),
    Check.OTHERS: _new(
        *(_K, _NODE, _BLOCKER),
        "Another tool has the node in maintenance.",
        "Wait until that maintenance ends, or end it with that tool.",
        "taints and annotations of other maintenance tools",
    ),
    Check.DESCHEDULER: _new(
        *(_K, _CLUSTER, _WARNING),
        "A descheduler is active: it moves VMs too, and takes slots.",
        "Stop it during the maintenance.",
        "its pods; VMIs marked by it",
    ),
    Check.UPDATER: _new(
        *(_K, _CLUSTER, _WARNING),
        "KubeVirt's workload updater moves VMs now, and takes slots.",
        "Wait until it ends; see workloadUpdateStrategy.",
        "migrations with its annotation; outdated VMIs",
    ),
}
_PLATFORM: dict[Check, CheckInfo] = {
    Check.NODE_NOT_READY: _new(
        *(_K, _NODE, _BLOCKER),
        "The node is not Ready: migrations need its virt-handler.",
        "Restore the node. If it is dead, fence it, then give it the out-of-service taint.",
        "the node's condition Ready",
    ),
    Check.SILENT: _new(
        *(_K, _NODE, _BLOCKER),
        "virt-handler on the node sends no heartbeat.",
        "Check the virt-handler pod on the node.",
        "kubevirt.io/schedulable and the heartbeat, against the other nodes' heartbeats",
    ),
    Check.PEER_UNREACHABLE: _new(
        *(_L, _CLUSTER, _BLOCKER),
        CATALOGUE[Reason.PEER_UNREACHABLE].sentence,
        "Repair the connection to it (see the message). While nothing depends on it, the drain goes"
        " on without it, and this is a warning.",
        "a connection from this host to the peer's URI; the slots, the record of this host",
    ),
    Check.CAPACITY: _new(
        *(_L, _CLUSTER, _WARNING),
        "All memory of a host counts as room for VMs: nothing is kept for the host and for QEMU.",
        "Set how much is for VMs (maintenance_memory), or how much to keep (maintenance_reserve).",
        "what the inventory says of the hosts that take VMs",
    ),
    Check.CLOCK_SKEW: _new(
        *(_L, _CLUSTER, _WARNING),
        "The hosts' clocks differ: logs mislead, certificates may not be valid yet, guests jump.",
        "Start time synchronisation (chrony) on the hosts.",
        "each host's clock against the controller's, read by the role",
    ),
    Check.UPGRADING: _new(
        *(_K, _CLUSTER, _BLOCKER),
        "KubeVirt is being upgraded.",
        "Wait until its phase is Deployed and its observed and target deployments are the same.",
        "KubeVirt.status",
    ),
    Check.UNHEALTHY: _new(
        *(_K, _CLUSTER, _BLOCKER),
        "KubeVirt is not healthy.",
        "See the conditions of the KubeVirt object and the pods in its namespace.",
        "KubeVirt.status: phase, conditions Available and Degraded",
    ),
    Check.NO_CANCEL: _new(
        *(_K, _CLUSTER, _WARNING),
        "This KubeVirt is older than 1.7: an evacuation mark cannot be withdrawn.",
        "Nothing for VMs that the drain moves: it creates its own migrations. After an abort the "
        "mark stays on VMs of strategy External; update KubeVirt to avoid that.",
        "KubeVirt.status.observedKubeVirtVersion",
    ),
    Check.WEBHOOK_UNAVAILABLE: _from_reason(
        Reason.WEBHOOK_UNAVAILABLE, _K, "virt-api's version; evictions as a dry run", _CLUSTER
    ),
    Check.API_ERROR: _from_reason(
        *(Reason.API_ERROR, _K, "the eviction as a dry run on the server"), also=(_POD,)
    ),
    Check.FORBIDDEN: _from_reason(Reason.FORBIDDEN, _K, "SelfSubjectAccessReview", _CLUSTER),
    Check.RUNS_THE_MAINTENANCE: _from_reason(
        Reason.RUNS_THE_MAINTENANCE, _B, "the guest in which Ansible runs", _NODE
    ),
    Check.NOT_CHECKED: _new(
        *(_B, _CLUSTER, _WARNING),
        "The preflight could not check everything.",
        "Grant the right or provide what the message names, then run the preflight again.",
        "what could not be read",
    ),
}

CHECKS: dict[Check, CheckInfo] = {
    **_MIGRATABLE,
    **_TARGETS,
    **_POLICY,
    **_PODS,
    **_BUSY,
    **_OTHERS,
    **_PLATFORM,
}
