"""Rows: what the policy makes of a VM; what only the preflight says of VMs and their targets."""

from __future__ import annotations

from .codes import Reason
from .platform import BOTH, KUBEVIRT, LIBVIRT, Platform
from .row import About, Preflight, Row, Severity, on_kubevirt

ROWS: dict[Reason, Row] = {
    Reason.StopNotAllowed: Row(
        "The drain has to stop this VM, and no option or rule allows that.",
        "Set allow_stop, add a rule for the VM that does, or stop it by hand.",
        preflight=Preflight(BOTH, "strategy, rules, allow_stop"),
    ),
    Reason.ExternalOwnerTimedOut: Row(
        "The VM's owner (strategy External) did not move it within external_timeout.",
        "Ask the owner to move the VM, or raise external_timeout.",
    ),
    Reason.MigratableNotKnown: Row(
        "It is not known whether the VM can migrate.",
        "See the message for what could not be read, fix it, then run again.",
        preflight=Preflight(
            BOTH, "the definition could not be read", on={Platform.KUBEVIRT: "the VMI has no condition LiveMigratable"}
        ),
    ),
    Reason.Undecided: Row(
        "A rule compares a value that is not known, so nothing is decided.",
        "Give the rule an 'unknown' answer, or make the value known.",
        preflight=Preflight(BOTH, "the rule that compares, and the VM's document"),
    ),
    Reason.SkippedByPolicy: Row(
        "The policy leaves this VM on the node, so the node is not drained.",
        "Move or stop the VM by hand, or choose another on_not_migratable.",
        preflight=Preflight(BOTH, "on_not_migratable"),
    ),
    Reason.HookPending: Row(
        "A hook of the VM's rule has no answer yet.",
        "Use the roles drain and restore, which run it; or run its tasks and pass hooks_done.",
    ),
    Reason.CompressionNotSupported: Row(
        "A rule or option sets compression mt, which QEMU on the host no longer has.",
        "Remove mt from migration.compression; xbzrle stays available.",
        preflight=Preflight(
            LIBVIRT, "the version of QEMU that libvirt reports: 9.1 removed it", about=About.NODE, only=True
        ),
    ),
    Reason.StorageOnlyHere: Row(
        "Only this node has storage of the VM. The migration has to copy it: that takes long.",
        "Allow time for the copy, or move the disks to shared storage.",
        preflight=Preflight(
            BOTH,
            "the disks' paths and pools",
            severity=Severity.WARNING,
            on={Platform.KUBEVIRT: "VMI.status.migrationMethod"},
            only=True,
        ),
    ),
    Reason.LocalMedium: Row(
        "A CD-ROM or floppy holds an image that other hosts do not have.",
        "Eject it (virsh change-media --eject), or put the image on shared storage.",
        preflight=Preflight(LIBVIRT, "the domain's removable disks and what each target sees", only=True),
    ),
    Reason.PostCopyNotPermitted: Row(
        "The policy allows post-copy, but a host does not permit it, or could not resume one that breaks.",
        "See the message: set sysctl vm.unprivileged_userfaultfd=1 there, update libvirt, or do not allow post-copy.",
        preflight=Preflight(
            LIBVIRT,
            "vm.unprivileged_userfaultfd of the targets, the user that QEMU runs as; libvirt's version on both sides",
            about=About.NODE,
            only=True,
        ),
    ),
    Reason.MigrationInTheClear: Row(
        "Migrations send memory, and disks that are copied, over the network in the clear.",
        (
            "Set migration: {tls: true} (in a playbook drain_migration; docs/security.md says which "
            "certificates QEMU needs), "
            "or ignore this where the network is your own."
        ),
        on=on_kubevirt(
            "Migrations send memory, and disks that are copied, over the network in the clear.",
            (
                "Remove disableTLS from KubeVirt's migration configuration, or ignore this where "
                "the network is your own."
            ),
        ),
        preflight=Preflight(
            BOTH,
            "migration.tls of the policy and the rules",
            about=About.CLUSTER,
            severity=Severity.WARNING,
            on={Platform.KUBEVIRT: "KubeVirt's migrations.disableTLS"},
            only=True,
        ),
    ),
    Reason.QEMUCertificatesMissing: Row(
        "The policy encrypts migrations, but QEMU on a host lacks a certificate for that.",
        "Install it on that host, readable by QEMU's user: see docs/security.md.",
        preflight=Preflight(
            LIBVIRT,
            "the files where qemu.conf says (migrate_tls_x509_cert_dir), listed by the role",
            about=About.NODE,
            only=True,
        ),
    ),
    Reason.ExternalOwner: Row(
        "The VM's owner moves it (External): the drain waits for the owner, then blocks.",
        "Inform the owner before the drain, or raise external_timeout.",
        preflight=Preflight(BOTH, "the effective eviction strategy", severity=Severity.WARNING),
    ),
    Reason.StaysOff: Row(
        "The drain stops this VM, and nothing starts it again before the node is restored.",
        "Run restore after the work; a roll does that itself. If it has to run meanwhile, start it elsewhere by hand.",
        preflight=Preflight(
            BOTH,
            "the strategy; autostart",
            severity=Severity.WARNING,
            on={Platform.KUBEVIRT: "the strategy; runStrategy"},
            only=True,
        ),
    ),
    Reason.StartsWithHost: Row(
        "The VM is off, and its autostart is on: the drain turns autostart off until the restore.",
        "Nothing: a reboot does not start it, and the restore turns its autostart on again.",
        preflight=Preflight(LIBVIRT, "autostart; drain_move_inactive", severity=Severity.WARNING, only=True),
    ),
    Reason.RuleSettingsNotApplied: Row(
        "A rule requires migration settings, but KubeVirt migrates the VM with its own.",
        ("Create the MigrationPolicy that the message names, or remove the setting from the rule."),
        preflight=Preflight(
            KUBEVIRT,
            "the rule's migration; KubeVirt's object and the MigrationPolicy that selects the VM",
            severity=Severity.WARNING,
            only=True,
        ),
    ),
}
