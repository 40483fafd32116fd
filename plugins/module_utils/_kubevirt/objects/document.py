"""The document that rules see: one VMI as plain JSON-like data. Pure.

Keys are the same on both platforms, those of _policy/schema.py. What is not known is null (None),
never left out, so that a rule that compares it is not taken for one that is false.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import facts
from .affinity import pod_affinity

Obj = dict[str, Any]
# Run strategies with which KubeVirt starts a VM again by itself.
_AUTOSTART = frozenset({"Always", "RerunOnFailure"})
# The keys of spec.domain.launchSecurity, in libvirt's words.
_SECURITY = {"sev": "sev", "snp": "sev-snp", "tdx": "tdx"}
_DEVICES = ("disk", "cdrom", "floppy", "lun")
# kubectl's copy of the whole object: with the user data of cloud-init, and what else is in it.
_COPIES = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_CLAIMS = ("persistentVolumeClaim", "dataVolume")


def vmi_document(vmi: Obj, machine: Obj | None, dirty_rate: float | None = None) -> dict[str, Any]:
    """`machine`: its VirtualMachine; None for a bare instance. Memory in MiB, `dirty_rate` in
    MiB/s; None where no metrics tell it."""
    namespace, name = facts.key(vmi)
    able, found = facts.migratable(vmi)
    domain = vmi["spec"].get("domain") or {}
    strategy = facts.run_strategy(machine.get("spec") or {}) if machine is not None else None
    return {
        "name": name,
        "namespace": namespace,
        "uuid": vmi["metadata"]["uid"],
        "node": str(facts.status(vmi).get("nodeName") or ""),
        "labels": dict(facts.labels(vmi)),
        "annotations": {k: v for k, v in facts.annotations(vmi).items() if k not in _COPIES},
        "owner": _owner(vmi),
        "anti_affinity_group": pod_affinity(vmi).rules_group,
        "eviction_strategy": vmi["spec"].get("evictionStrategy") or None,
        "memory_mib": _most_memory(vmi),
        "vcpus": _vcpus(domain),
        "migratable": able,
        "reasons": sorted({finding.reason.value for finding in found}),
        "migration_method": facts.status(vmi).get("migrationMethod") or None,
        "volumes": _volumes(vmi, domain),
        "networks": sorted(_networks(vmi)),
        "host_devices": _host_devices(vmi, domain),
        "launch_security": _launch_security(domain),
        "autostart": strategy in _AUTOSTART,
        "run_strategy": strategy,
        "persistent": facts.owner(vmi) is not None,
        "agent_connected": facts.is_true(vmi, "AgentConnected"),
        "dirty_rate": dirty_rate,
    }


def _owner(vmi: Obj) -> str | None:
    for found in vmi["metadata"].get("ownerReferences") or []:
        if found.get("controller") or found.get("kind") == "VirtualMachine":
            return f"{found['kind']}/{found['name']}"
    return None


def _most_memory(vmi: Obj) -> int:
    domain = vmi["spec"].get("domain") or {}
    return max(facts.mib((domain.get("memory") or {}).get("maxGuest")), facts.memory_mib(vmi))


def _vcpus(domain: Mapping[str, Any]) -> int:
    cpu = domain.get("cpu") or {}
    parts = [int(cpu.get(key) or 1) for key in ("cores", "sockets", "threads")]
    return parts[0] * parts[1] * parts[2]


def _volumes(vmi: Obj, domain: Mapping[str, Any]) -> list[dict[str, Any]]:
    disks = (domain.get("devices") or {}).get("disks") or []
    sources = {v["name"]: v for v in vmi["spec"].get("volumes") or []}
    states = {v["name"]: v for v in facts.status(vmi).get("volumeStatus") or []}
    return [_volume(d, sources.get(d["name"], {}), states.get(d["name"], {})) for d in disks]


def _volume(disk: Mapping[str, Any], source: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    kind = next((key for key in source if key != "name"), "")
    what = source.get(kind) or {}
    device = next((key for key in _DEVICES if key in disk), "disk")
    read_only = bool((disk.get(device) or {}).get("readonly", device == "cdrom"))
    return {
        "target": str(state.get("target") or disk["name"]),
        "kind": kind,
        "device": device,
        "source": _source(kind, what),
        "format": None,
        "shared": _shared(kind, what, state),
        "read_only": read_only,
    }


def _source(kind: str, what: Mapping[str, Any]) -> str | None:
    key = {
        "persistentVolumeClaim": "claimName",
        "containerDisk": "image",
        "hostDisk": "path",
        "configMap": "name",
        "secret": "secretName",
        "serviceAccount": "serviceAccountName",
    }.get(kind, "name")
    return str(what[key]) if what.get(key) else None


def _shared(kind: str, what: Mapping[str, Any], state: Mapping[str, Any]) -> bool | None:
    """ReadWriteMany. A claim that KubeVirt has not read yet is not known."""
    claim = state.get("persistentVolumeClaimInfo")
    if claim is not None:
        return "ReadWriteMany" in (claim.get("accessModes") or [])
    if kind in _CLAIMS:
        return None
    return bool(what.get("shared")) if kind == "hostDisk" else False


def _networks(vmi: Obj) -> set[str]:
    found = set()
    for network in vmi["spec"].get("networks") or []:
        multus = network.get("multus")
        found.add(str(multus["networkName"]) if multus else "pod")
    return found


def _host_devices(vmi: Obj, domain: Mapping[str, Any]) -> list[dict[str, Any]]:
    devices = domain.get("devices") or {}
    found = [
        {"kind": kind, "source": device.get("deviceName")}
        for key, kind in (("hostDevices", "hostDevice"), ("gpus", "gpu"))
        for device in devices.get(key) or []
    ]
    networks = {n["name"]: n for n in vmi["spec"].get("networks") or []}
    for interface in devices.get("interfaces") or []:
        if "sriov" in interface:
            multus = (networks.get(interface["name"]) or {}).get("multus") or {}
            found.append({"kind": "interface", "source": multus.get("networkName")})
    return found


def _launch_security(domain: Mapping[str, Any]) -> str | None:
    security = domain.get("launchSecurity")
    if security is None:
        return None
    return next((word for key, word in _SECURITY.items() if key in security), "s390-pv")
