"""The copy that peers have of a host, should it die: its VMs' definitions, and who takes each of them (volume
`protect.HOST.N`).

Made while the host lives, by `protect`; a dead host can be asked nothing. There is nobody left who could sign it
either: whoever may write to the store of a peer may have a definition started there (docs/security.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..._core.model.observation import VM, State
from ..._core.model.policy import PolicyError
from ..._core.model.record import RecordError
from ..._core.reasons.reason import Finding, Reason
from ..domain.metadata import needs_of
from ..domain.untrusted import digest_of, load_json
from ..domain.xml import parse_domain
from ..host.connection import HostUnreachable, libvirt
from ..observe.host import Host
from ..store.volumes import StoreError, VolumeTorn

SCHEMA = 2


@dataclass
class Kept:
    """`at`: since when it is so, UTC. `hosts`: peers that were asked who takes the VMs. `keepers`: the quorum hosts,
    which a host with a guard asks. `lock`: its libvirt's lock manager, empty for none. `files`: by UUID the VM's
    files on shared storage, each with its `identity`; `volumes`: its other disks, each with its kind and identity.
    `nvram`: its path and content, of VMs whose host has it alone. `priorities`: by the rules of then. `addresses`: by
    MAC, as the host knew them. `locked`: files on which it has seen the lock of another host's QEMU. `maintenance`:
    when the drain of the host began that was not restored then, UTC."""

    host: str
    at: str
    boot_id: str
    hosts: list[str]
    keepers: list[str]
    guard: bool = False
    lock: str = ""
    vms: list[VM] = field(default_factory=list)
    definitions: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    nvram: dict[str, tuple[str, str]] = field(default_factory=dict)
    volumes: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, list[str]] = field(default_factory=dict)
    locked: list[str] = field(default_factory=list)
    maintenance: str = ""

    def refuse(self, refused: Mapping[str, Mapping[str, tuple[Finding, ...]]]) -> None:
        """Add hosts that cannot take a VM. `refused`: UUID -> host -> why."""
        self.vms = [
            replace(vm, cold_refused_by={**(vm.cold_refused_by or {}), **refused.get(vm.uuid, {})}) for vm in self.vms
        ]

    def to_json(self) -> str:
        """The text of the volume. Two with the same content differ in `at` alone."""
        plain = {k: v for k, v in vars(self).items() if k not in ("vms", "at")}
        return json.dumps({"schema": SCHEMA, "at": self.at, **plain, "vms": [_vm_to_dict(vm) for vm in self.vms]})

    @classmethod
    def from_json(cls, text: str) -> Kept:
        """Raises RecordError."""
        try:
            raw = load_json(text)
            if raw.pop("schema") != SCHEMA:
                raise RecordError("what was kept for the host was written by another version: run protect again")
            vms = raw.pop("vms")
            kept = cls(**raw)
            kept.nvram = {uuid: (str(path), str(packed)) for uuid, (path, packed) in kept.nvram.items()}
            kept.vms = [_vm_from_dict(vm, kept) for vm in vms]
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise RecordError(f"what was kept for the host cannot be read: {exc!r}") from exc
        return kept


def _vm_to_dict(vm: VM) -> dict[str, Any]:
    refused = vm.refused_by if vm.cold_refused_by is None else vm.cold_refused_by
    return {
        **{key: getattr(vm, key) for key in ("uuid", "name", "memory_mib", "persistent", "autostart", "known")},
        "active": vm.active,
        "document": dict(vm.document),
        "stays": [_finding(one) for one in vm.cold_findings],
        "refused": {node: [_finding(one) for one in found] for node, found in refused.items()},
    }


def _vm_from_dict(raw: Mapping[str, Any], kept: Kept) -> VM:
    """The VM as it was on its host when it was protected. What its definition says is read from `kept.definitions`."""
    uuid, name = str(raw["uuid"]), str(raw["name"])
    stays = tuple(_found(one) for one in raw["stays"])
    refused = {node: tuple(_found(one) for one in found) for node, found in raw["refused"].items()}
    about: dict[str, Any] = {}
    try:
        spec = parse_domain(kept.definitions[uuid])
        declared = spec.declared
        about = {"group": declared.anti_affinity_group or None, "labels": declared.labels}
        about |= {"declared_strategy": declared.eviction_strategy or None, "constraints": needs_of(declared.other)}
    except (KeyError, ValueError, PolicyError) as exc:
        stays = stays or (Finding(Reason.MigratableNotKnown, f"{name}: its definition cannot be read: {exc}"),)
    if not raw["persistent"]:
        stays = (Finding(Reason.TransientDomain, "It is transient: whoever created it must start it again."), *stays)
    return VM(
        uuid,
        name,
        kept.host,
        State.RUNNING if raw["active"] else State.SHUTOFF,
        int(raw["memory_mib"]),
        persistent=bool(raw["persistent"]),
        autostart=bool(raw["autostart"]),
        known=bool(raw["known"]),
        document=raw["document"],
        findings=stays,
        cold_findings=stays,
        cold_refused_by=refused,
        **about,
    )


def _finding(one: Finding) -> dict[str, str]:
    return {"reason": one.reason.value, "message": one.message}


def _found(raw: Mapping[str, str]) -> Finding:
    return Finding(Reason(raw["reason"]), str(raw["message"]))


def write(kept: Kept, quorum_hosts: Iterable[Host], acts: bool = True) -> tuple[list[str], list[str], bool]:
    """Write `kept` to these peers. A peer that has the same content already is left alone.

    Gives (peers that have it now, peers that took none, with why, whether anything was written or, with `acts` False,
    would be).
    """
    have, failed, changed, text = [], [], False, kept.to_json()
    for peer in quorum_hosts:
        try:
            before = _read_whole(peer, kept.host)
            if before is None or _without_time(before) != _without_time(text):
                changed = True
                if not acts:
                    continue
                peer.store.write_record(f"protect.{kept.host}", text)
            have.append(peer.name)
        except (HostUnreachable, StoreError, libvirt.libvirtError) as exc:
            failed.append(f"{peer.name} ({exc})")
    return have, failed, changed


def _read_whole(peer: Host, host: str) -> str | None:
    """None: there is no copy, or its writer was killed."""
    try:
        return peer.store.read_record(f"protect.{host}")
    except VolumeTorn:
        return None


def _without_time(text: str) -> Any:
    try:
        return {key: value for key, value in load_json(text).items() if key != "at"}
    except (ValueError, AttributeError):
        return None


def read(host: str, quorum_hosts: Sequence[Host]) -> tuple[Kept | None, list[str]]:
    """(the newest that any of these peers has, or None; peers that could not be read, with why).

    Raises RecordError where one is unreadable, or two of the same time differ: somebody has changed one of them.
    """
    found: dict[str, str] = {}
    unread = []
    for peer in quorum_hosts:
        try:
            text = peer.store.read_record(f"protect.{host}")
        except (HostUnreachable, StoreError, libvirt.libvirtError) as exc:
            unread.append(f"{peer.name} ({exc})")
            continue
        if text is not None:
            found[peer.name] = text
    kept = {name: Kept.from_json(text) for name, text in found.items()}
    if not kept:
        return None, unread
    newest = max(one.at for one in kept.values())
    same = {name: digest_of(found[name]) for name, one in kept.items() if one.at == newest}
    if len(set(same.values())) > 1:
        raise RecordError(
            f"what {' and '.join(sorted(same))} keep of {host} differs, though both were written at {newest}: remove"
            f" the volume protect.{host}.N in pool virtops that somebody has changed"
        )
    return kept[next(iter(same))], unread
