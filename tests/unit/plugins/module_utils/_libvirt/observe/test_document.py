"""The document that rules see."""

from __future__ import annotations

import json

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import MigrationMethod
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.running import Runtime
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.shared_storage import DiskView
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import (
    Declared,
    DiskSpec,
    DomainSpec,
    HostDeviceSpec,
    InterfaceSpec,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.document import vm_document
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.schema import FIELDS, HOST_DEVICE, VOLUME

SPEC = DomainSpec(
    uuid="u-1",
    name="web-1",
    memory_mib=1024,
    max_memory_mib=2048,
    vcpus=2,
    launch_security="sev",
    disks=(
        DiskSpec("vda", source="/images/a", path="/images/a", format="qcow2"),
        DiskSpec("sda", device="cdrom", read_only=True),
    ),
    interfaces=(InterfaceSpec("network", network="lan"), InterfaceSpec("user")),
    host_devices=(HostDeviceSpec("pci", "0000:3b:02.1"),),
    agent_connected=False,
    declared=Declared("LiveMigrate", {"tier": "gold"}, {"team": "a"}, "shop", anti_affinity_group="web"),
)


def test_a_full_one() -> None:
    document = vm_document(
        SPEC,
        "host-a",
        Runtime(autostart=True),
        migratable=False,
        findings=(
            Finding(Reason.SEVNotLiveMigratable),
            Finding(Reason.HostDeviceNotLiveMigratable),
            Finding(Reason.SEVNotLiveMigratable),
        ),
        method=MigrationMethod.BLOCK,
        views={"vda": DiskView(False)},
        dirty_rate_mib=12.5,
    )
    assert json.loads(json.dumps(document)) == {
        "name": "web-1",
        "namespace": None,
        "uuid": "u-1",
        "node": "host-a",
        "labels": {"tier": "gold"},
        "annotations": {"team": "a"},
        "owner": "shop",
        "anti_affinity_group": "web",
        "eviction_strategy": "LiveMigrate",
        "memory_mib": 2048,
        "vcpus": 2,
        "migratable": False,
        "reasons": ["HostDeviceNotLiveMigratable", "SEVNotLiveMigratable"],
        "migration_method": "BlockMigration",
        "volumes": [
            {
                "target": "vda",
                "kind": "file",
                "device": "disk",
                "source": "/images/a",
                "format": "qcow2",
                "shared": False,
                "read_only": False,
            },
            {
                "target": "sda",
                "kind": "file",
                "device": "cdrom",
                "source": None,
                "format": "raw",
                "shared": None,
                "read_only": True,
            },
        ],
        "networks": ["lan"],
        "host_devices": [{"kind": "pci", "source": "0000:3b:02.1"}],
        "launch_security": "sev",
        "autostart": True,
        "run_strategy": None,
        "persistent": True,
        "agent_connected": False,
        "dirty_rate": 12.5,
    }


def test_it_has_the_fields_that_rules_know() -> None:
    """In their order too: it is the order of the documentation."""
    document = vm_document(SPEC, "host-a", Runtime(), migratable=True)
    assert list(document) == list(FIELDS)
    assert set(document["volumes"][0]) == set(VOLUME)
    assert set(document["host_devices"][0]) == set(HOST_DEVICE)


def test_null_is_only_where_the_schema_says_what_it_means() -> None:
    document = vm_document(DomainSpec("u", "t"), "host-a", Runtime(), migratable=None)
    assert {key for key, value in document.items() if value is None} == {
        name for name, field in FIELDS.items() if field.null
    } - {"anti_affinity_group"}  # only on KubeVirt it may be not known
    assert document["anti_affinity_group"] == ""


def test_what_is_not_known_is_null() -> None:
    document = vm_document(DomainSpec("u", "t"), "host-a", Runtime(), migratable=None)
    nulls = {key for key, value in document.items() if value is None}
    assert nulls == {
        "namespace",
        "owner",
        "run_strategy",
        "eviction_strategy",
        "migratable",
        "migration_method",
        "launch_security",
        "agent_connected",
        "dirty_rate",
    }
