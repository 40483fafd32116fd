"""Orders to the holder, and the outcomes that it reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ..._core.model.observation import MigrationMethod, Mode
from ..._core.model.policy import MigrationSettings, PolicyError
from ..._core.reasons.reason import Finding, Platform, Reason


class OrderError(ValueError):
    """An order that cannot be understood. The text names the field."""


@dataclass(frozen=True)
class MoveOrder:
    """Migrate a VM, or (`watch`) look after a migration that is under way without a holder.

    target_uri: as the source's libvirtd dials it. migrate_uri: for the memory; empty: libvirt's.
    disks: target devices (vda ...) to copy; None with BlockMigration: those with local storage.
    claim: the volume in the target's store without which it must not begin; empty: none is asked.
    writes: bytes in a second, what an attempt before this one learnt; 0: nothing.
    may_write: the same, or what one learnt of a VM of the same rule.
    foreign: somebody else asked for it (a watch order without settings). It is looked at until
    its end: no bandwidth is set, and no deadline is enforced.
    """

    uuid: str
    name: str
    attempt: int
    node: str
    target: str
    target_uri: str
    watch: bool = False
    foreign: bool = False
    migrate_uri: str = ""
    method: MigrationMethod = MigrationMethod.LIVE
    disks: tuple[str, ...] | None = None
    persistent: bool = True
    autostart: bool = False
    settings: MigrationSettings = field(default_factory=MigrationSettings)
    memory_mib: int = 0
    priority: int = 0
    run_id: str = ""
    claim: str = ""
    writes: float = 0.0
    may_write: float = 0.0


def parse_order(raw: Mapping[str, Any]) -> MoveOrder:
    """A `migrate` or `watch` order from its JSON form. Raises OrderError."""
    try:
        disks = raw.get("disks")
        order = MoveOrder(
            uuid=_text(raw, "uuid"),
            name=_text(raw, "name"),
            attempt=int(raw["attempt"]),
            node=_text(raw, "node"),
            target=_text(raw, "target"),
            target_uri=_text(raw, "target_uri"),
            watch=raw.get("order") == "watch",
            foreign=raw.get("order") == "watch" and raw.get("settings") is None,
            migrate_uri=str(raw.get("migrate_uri") or ""),
            method=MigrationMethod(raw.get("method") or MigrationMethod.LIVE.value),
            disks=None if disks is None else tuple(str(d) for d in disks),
            persistent=bool(raw.get("persistent", True)),
            autostart=bool(raw.get("autostart", False)),
            settings=_settings(raw.get("settings") or {}),
            memory_mib=int(raw.get("memory_mib") or 0),
            priority=int(raw.get("priority") or 0),
            run_id=str(raw.get("run_id") or ""),
            claim=str(raw.get("claim") or ""),
            writes=float(raw.get("writes") or 0.0),
            may_write=float(raw.get("may_write") or 0.0),
        )
    except KeyError as exc:
        raise OrderError(f"the order has no {exc.args[0]}") from exc
    except (TypeError, ValueError) as exc:
        raise OrderError(str(exc)) from exc
    if not order.watch and not order.target_uri:
        raise OrderError("the order has no target_uri")
    return order


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw[key]
    if not isinstance(value, str):
        raise OrderError(f"{key} must be text, not {value!r}")
    return value


def _settings(raw: Mapping[str, Any]) -> MigrationSettings:
    """MigrationSettings from a dict; what it does not know is refused."""
    known = {f.name for f in fields(MigrationSettings)}
    unknown = set(raw) - known
    if unknown:
        raise OrderError(f"unknown migration settings: {', '.join(sorted(unknown))}")
    values = dict(raw)
    if "compression" in values:
        values["compression"] = tuple(values["compression"] or ())
    try:
        return MigrationSettings(**values)
    except PolicyError as exc:
        raise OrderError(str(exc)) from exc


@dataclass(frozen=True)
class AttemptEnd:
    """How one attempt ended: what the volume outcome.<uuid>.<attempt> says.

    at: the node where the VM runs; empty when that could not be read. Sizes in bytes. steps: what was done so that it
    comes to its end. writes: bytes in a second, of one that did not converge.
    """

    uuid: str
    name: str
    attempt: int
    ok: bool
    source: str
    target: str
    at: str
    finding: Finding | None = None
    mode: Mode = Mode.PRE_COPY
    method: str = MigrationMethod.LIVE.value
    processed: int = 0
    seconds: float = 0.0
    downtime_ms: int | None = None
    run_id: str = ""
    paused: bool = False  # it stayed, paused for its migration, and could not be resumed
    steps: Sequence[str] = ()
    writes: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        reported = {"reason": "", "plane": "", "message": ""}
        if self.finding is not None:
            reported = self.finding.to_dict(Platform.LIBVIRT)
        return {
            "schema": 1,
            "uuid": self.uuid,
            "name": self.name,
            "attempt": self.attempt,
            "ok": self.ok,
            "reason": reported["reason"],
            "plane": reported["plane"],
            "message": reported["message"],
            "source": self.source,
            "target": self.target,
            "at": self.at,
            "mode": self.mode.value,
            "method": self.method,
            "processed": self.processed,
            "seconds": round(self.seconds, 3),
            "downtime_ms": self.downtime_ms,
            "run_id": self.run_id,
            "paused": self.paused,
            "steps": list(self.steps),
            "writes": round(self.writes),
        }


def ended(order: MoveOrder, reason: Reason | None, message: str = "", at: str = "") -> AttemptEnd:
    """The plain form of an outcome, without numbers. `reason` None: it went well."""
    return AttemptEnd(
        uuid=order.uuid,
        name=order.name,
        attempt=order.attempt,
        ok=reason is None,
        source=order.node,
        target=order.target,
        at=at,
        finding=None if reason is None else Finding(reason, message),
        method=order.method.value,
        run_id=order.run_id,
    )
