"""The VM's document, field by field: the words that rules, filters and info modules share.

Null has one of two meanings. `unknown`: there is a value, and nobody has told it; a rule that
compares it cannot be decided. `none`: it is known that there is none, so it compares as null.
A key that is missing in a mapping (labels, annotations) is known not to be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .._core.model.observation import EvictionStrategy, MigrationMethod

UNKNOWN_IF_NULL = "unknown"
NONE_IF_NULL = "none"


@dataclass(frozen=True)
class Kind:
    """A type. name: number, string, boolean, null, array, object, mapping, any.

    `items`: of an array and of a mapping. `fields`: of an object, which has no others.
    """

    name: str
    items: Kind | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text for messages."""
        return {"array": "a list", "any": "any value", "null": "null"}.get(
            self.name, f"{'an' if self.name == 'object' else 'a'} {self.name}"
        )


@dataclass(frozen=True)
class Field:
    """One field. `null` empty: it is never null. `choices` empty: any value."""

    kind: Kind
    text: str
    null: str = ""
    choices: tuple[str, ...] = ()


ANY = Kind("any")
NUMBER = Kind("number")
STRING = Kind("string")
BOOLEAN = Kind("boolean")
NULL = Kind("null")
TEXTS = Kind("mapping", STRING)


def array(items: Kind) -> Kind:
    return Kind("array", items)


VOLUME: dict[str, Field] = {
    "target": Field(STRING, "The disk as the VM sees it, for example C(vda)."),
    "kind": Field(
        STRING,
        "Where it comes from. libvirt's disk types (C(file), C(block), C(network), C(volume)), or "
        "the type of the volume on KubeVirt (C(persistentVolumeClaim), C(containerDisk)).",
    ),
    "device": Field(STRING, "V(disk), V(cdrom), V(floppy) or V(lun)."),
    "source": Field(STRING, "Path, pool and volume, URL, or name of the claim.", NONE_IF_NULL),
    "format": Field(STRING, "Image format, for example V(qcow2).", NONE_IF_NULL),
    "shared": Field(BOOLEAN, "Whether other nodes see the same data (on KubeVirt RWX).", UNKNOWN_IF_NULL),
    "read_only": Field(BOOLEAN, "Whether the VM cannot write to it."),
}

HOST_DEVICE: dict[str, Field] = {
    "kind": Field(STRING, "C(pci), C(usb), C(mdev), C(interface) (SR-IOV), C(gpu) and others."),
    "source": Field(STRING, "Which one, for example its address or resource name.", NONE_IF_NULL),
}

FIELDS: dict[str, Field] = {
    "name": Field(STRING, "Name of the VM."),
    "namespace": Field(STRING, "Its namespace. libvirt has none.", NONE_IF_NULL),
    "uuid": Field(STRING, "Its UUID; on KubeVirt the UID of the VirtualMachineInstance."),
    "node": Field(STRING, "Node it runs on."),
    "labels": Field(TEXTS, "Labels, name to text. On libvirt those that its metadata declares."),
    "annotations": Field(TEXTS, "Annotations, name to text. On libvirt those that its metadata declares."),
    "owner": Field(
        STRING,
        "Owner of the VM. On KubeVirt kind and name of the controlling owner, on libvirt what the metadata declares.",
        NONE_IF_NULL,
    ),
    "anti_affinity_group": Field(
        STRING,
        "VMs of one group are kept on different nodes. Empty if it is in none. On KubeVirt it is "
        "made of a required pod anti-affinity by host name that selects the VM itself; null if "
        "the VM has other rules about pods, which make no group.",
        UNKNOWN_IF_NULL,
    ),
    "eviction_strategy": Field(
        STRING, "What the VM itself declares.", NONE_IF_NULL, tuple(strategy.value for strategy in EvictionStrategy)
    ),
    "memory_mib": Field(NUMBER, "Maximum memory, in MiB."),
    "vcpus": Field(NUMBER, "Its virtual CPUs."),
    "migratable": Field(BOOLEAN, "Whether it can migrate from its node.", UNKNOWN_IF_NULL),
    "reasons": Field(array(STRING), "Why it cannot, see docs/reasons.md. Empty if it can."),
    "migration_method": Field(
        STRING,
        "V(LiveMigration) with shared storage, V(BlockMigration) with copied storage.",
        UNKNOWN_IF_NULL,
        tuple(method.value for method in MigrationMethod),
    ),
    "volumes": Field(array(Kind("object", fields=VOLUME)), "Its disks."),
    "networks": Field(array(STRING), "Names of the networks or bridges that it is connected to."),
    "host_devices": Field(array(Kind("object", fields=HOST_DEVICE)), "Devices of the node that are passed to it."),
    "launch_security": Field(
        STRING, "Kind of memory encryption (C(sev), C(sev-snp), C(tdx), C(s390-pv)).", NONE_IF_NULL
    ),
    "autostart": Field(
        BOOLEAN,
        "Whether it is started again by itself: libvirt's autostart, or a run strategy of KubeVirt that does so.",
    ),
    "run_strategy": Field(STRING, "KubeVirt's run strategy. libvirt has none.", NONE_IF_NULL),
    "persistent": Field(
        BOOLEAN, "Whether its definition outlives it: a persistent domain, or a VirtualMachine behind the instance."
    ),
    "agent_connected": Field(BOOLEAN, "Whether the guest's agent answers.", UNKNOWN_IF_NULL),
    "dirty_rate": Field(
        NUMBER,
        "MiB/s that the guest writes to its memory, if it was measured. On libvirt the option "
        "C(measure_dirty_rate) has QEMU measure it. "
        "On KubeVirt a Prometheus reports it, if the option C(metrics) names one; else it is null.",
        UNKNOWN_IF_NULL,
    ),
}

DOCUMENT = Kind("object", fields=FIELDS)
