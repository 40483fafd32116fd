"""One VM: find it, then run the ordinary slice for it alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .._core.decision.actions import NodePhase
from .._core.decision.restore import too_late
from .._core.model.observation import Observation
from .._core.model.policy import PolicyError
from .._core.model.record import Ending, Intent, VMRecord
from .._core.run.engine import SliceEnd
from .._core.run.rows import accounted, vm_row
from .host.connection import HostUnreachable, libvirt
from .host.errors import VMNotHere
from .observe.host import Host
from .run.check_mode import plan
from .run.platform import record_prefix
from .run.service import Request, run_slice

# As libvirt takes it: with or without hyphens.
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){4}[0-9a-fA-F]{8}")


@dataclass(frozen=True)
class MigrationRequest(Request):
    """`name`: name or UUID of the VM. `check`: only report what would be done."""

    name: str = ""
    check: bool = False


def run_migration(request: MigrationRequest) -> dict[str, Any]:
    """Raises what `run_slice` raises, PolicyError for a wrong target, VMNotHere."""
    peers = {config.name for config in request.peers}
    if not request.name.strip():
        raise PolicyError("name is empty: expected the name or UUID of a VM (virsh list --all)")
    if request.to and request.to not in peers:
        raise PolicyError(f"target {request.to} is not one of the peers: {', '.join(sorted(peers))}")
    found, elsewhere = _find(request)
    if elsewhere and not _has_record(request, found.uuid):
        return _already(request, found, elsewhere)
    asked = replace(request, only=found.uuid)
    result = plan(asked) if request.check else run_slice(asked)
    result.pop("needs", None)  # rules' hooks are left aside here
    if elsewhere and result["ended"] == SliceEnd.FINAL.value:
        _check_target(request, elsewhere)
    return {**result, "vm": found.name}


def _has_record(request: MigrationRequest, uuid: str) -> bool:
    """Was a run of this VM killed while it moved? Its claim, slot and marks are still there."""
    own = Host(request.own, acts=not request.check)
    try:
        prefix = record_prefix(uuid)
        return any(name.startswith(f"{prefix}record.") for name in own.store.names())
    finally:
        own.close()


class Found(NamedTuple):
    """A VM, whether it was asked for by its name or by its UUID."""

    uuid: str
    name: str


def _find(request: MigrationRequest) -> tuple[Found, str]:
    """(VM, "") when it is here; (VM, peer) when it is on a peer. Raises VMNotHere."""
    own = Host(request.own, acts=not request.check)
    try:
        dom = _lookup(own, request.name)
    finally:
        own.close()
    if dom:
        return dom, ""
    unread: list[str] = []
    for config in request.peers:
        peer = Host(config, acts=not request.check)
        try:
            dom = _lookup(peer, request.name)
        except (HostUnreachable, libvirt.libvirtError) as exc:
            unread.append(f"{config.name} ({exc})")
            continue
        finally:
            peer.close()
        if dom:
            return dom, config.name
    raise VMNotHere(_not_found(request, unread))


def _not_found(request: MigrationRequest, unread: Sequence[str]) -> str:
    hint = "check the name (virsh list --all) and the list of peers"
    if not unread:
        return f"no VM {request.name!r} on {request.own.name} nor on its peers: {hint}"
    return (
        f"no VM {request.name!r} on {request.own.name}, but it may be on a peer that could not"
        f" be read: {', '.join(unread)}. Bring that back, or {hint}"
    )


def _lookup(host: Host, name: str) -> Found | None:
    """None: it is not there. Raises HostUnreachable, libvirtError: not known."""
    conn = host.conn
    calls = [conn.lookupByName]
    if _UUID.fullmatch(name):
        calls.append(conn.lookupByUUIDString)
    for call in calls:
        try:
            dom = call(name)
            return Found(str(dom.UUIDString()), str(dom.name()))
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
    return None


def _already(request: MigrationRequest, found: Found, node: str) -> dict[str, Any]:
    """It is on a peer already: nothing to do, unless another target was asked for.

    An abort came too late then, whoever moved it. Begun: this run brought it there, and its last
    answer was lost on its way.
    """
    _check_target(request, node)
    entry = VMRecord(found.uuid, found.name, ending=Ending.MOVED.value, at=node)
    aborted = request.intent is Intent.ACTIVE
    if aborted:
        entry.note(too_late(node))
    row = vm_row(entry, Observation({}, {}), request.own.name)
    row.update(target=node, abort_status="Failed" if aborted else "")
    phase = NodePhase.BLOCKED if aborted else NodePhase.MIGRATED
    return {
        "ended": SliceEnd.FINAL.value,
        "phase": phase.value,
        "node": request.own.name,
        "vm": found.name,
        "run_id": request.run_id,
        "changed": request.begun,
        **accounted([row]),
        "findings": [],
        "msg": f"{found.name} ({found.uuid}) is on {node}",
    }


def _check_target(request: MigrationRequest, node: str) -> None:
    if request.intent is Intent.MIGRATED and request.to not in ("", node):
        raise VMNotHere(
            f"{request.name} is on {node}, not on {request.own.name}: "
            f"to move it to {request.to}, run the module on {node}"
        )
