"""Policy: what a user may set. Plain data with its checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Callable

from .observation import EvictionStrategy, OnNotMigratable

_MOST_CONNECTIONS = 255  # QEMU counts them in a byte


class PolicyError(ValueError):
    """A setting is wrong. The text names it, what was expected, and what was given."""


def slice_seconds(value: int) -> float:
    """Option `slice`. Raises PolicyError."""
    if value < 1:
        raise PolicyError(f"slice must be 1 second or more, not {value}")
    return float(value)


def pause_after(failures: float, first: float) -> float:
    """Seconds before the next try: `first` after one failure, twice as long after each more."""
    return float(first * 2 ** (failures - 1)) if failures else 0.0


class Profile(str, Enum):
    """How a target is chosen among those that fit. Names as of the cluster scheduler's profiles.

    LOW: spread, the node with most room. HIGH: pack, the node with least room that fits: large gaps stay for large VMs.
    """

    LOW = "LowNodeUtilization"
    HIGH = "HighNodeUtilization"


@dataclass(frozen=True)
class PlacementPolicy:
    """How targets are chosen.

    `require_anti_affinity`: VMs of one anti-affinity group never share a node; else
    they do where nothing else fits."""

    profile: Profile = Profile.LOW
    require_anti_affinity: bool = False


@dataclass(frozen=True)
class Limits:
    """How many migrations may be in flight. Defaults of cluster and outbound: KubeVirt's
    parallelMigrationsPerCluster 5 and parallelOutboundMigrationsPerNode 2."""

    cluster: int = 5
    outbound: int = 2
    inbound: int = 2

    def __post_init__(self) -> None:
        for name in ("cluster", "outbound", "inbound"):
            value = getattr(self, name)
            if value < 1:
                raise PolicyError(f"limits.{name} must be 1 or more, not {value}")


@dataclass(frozen=True)
class MigrationSettings:
    """How one VM is migrated.

    bandwidth_mib: MiB/s for each migration, 0 = not limited.
    tls: memory and disks go through the hypervisor's own TLS, not in the clear.
    completion_timeout_per_gib: seconds per GiB of memory and copied disk (KubeVirt's default 150).
    progress_timeout: seconds without progress (KubeVirt's default 150).
    max_downtime_ms: how long the guest may be paused at the end, 0 = the hypervisor's default.
    on_timeout: abort, post_copy or pause: what the holder does when one of them is reached.
    """

    bandwidth_mib: int = 0
    auto_converge: bool = False
    post_copy: bool = False
    tls: bool = False
    parallel_connections: int = 0
    compression: tuple[str, ...] = ()
    completion_timeout_per_gib: int = 150
    progress_timeout: int = 150
    max_downtime_ms: int = 0
    on_timeout: str = "abort"

    def __post_init__(self) -> None:
        if self.on_timeout not in ("abort", "post_copy", "pause"):
            raise PolicyError(f"migration.on_timeout must be abort, post_copy or pause, not {self.on_timeout!r}")
        if self.on_timeout == "post_copy" and not self.post_copy:
            raise PolicyError("migration.on_timeout=post_copy needs migration.post_copy=true")
        if self.parallel_connections and "mt" in self.compression:
            raise PolicyError("migration.compression=mt cannot be combined with parallel_connections")
        if self.parallel_connections and self.post_copy:
            # Refused by QEMU 8.1 to 10.0, and not refused but not finished either before 8.1.
            raise PolicyError("migration.post_copy cannot be combined with parallel_connections")
        for name in ("completion_timeout_per_gib", "progress_timeout"):
            if getattr(self, name) < 1:
                raise PolicyError(f"migration.{name} must be 1 second or more")
        for name in ("bandwidth_mib", "parallel_connections", "max_downtime_ms"):
            if getattr(self, name) < 0:
                raise PolicyError(f"migration.{name.removesuffix('_mib')} must be 0 or more")
        if self.parallel_connections > _MOST_CONNECTIONS:
            raise PolicyError(f"migration.parallel_connections must be {_MOST_CONNECTIONS} or less")


@dataclass(frozen=True)
class Hooks:
    """Task files that are run around what happens to a VM. Empty: none."""

    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule. `when` is a compiled predicate: True, False, or None (not known).

    Fields that are None leave the decision to the next in line. `explain` tells which values
    of the document it would have to know. `asked`: the migration settings that it names itself, in
    the option's words; for a platform that chooses the settings and can only be compared with.
    """

    name: str
    when: Callable[[Mapping[str, Any]], bool | None]
    strategy: EvictionStrategy | None = None
    on_not_migratable: OnNotMigratable | None = None
    allow_stop: bool | None = None
    priority: int | None = None
    allow_older_hypervisor: bool = False
    migration: MigrationSettings | None = None
    hooks: Hooks | None = None
    explain: Callable[[Mapping[str, Any]], str] | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)


def _option(default: Any) -> Any:
    """A field that is an option of the drains as it is, by its name and with this default."""
    return field(default=default, metadata={"option": True})  # pylint: disable=invalid-field-call


@dataclass(frozen=True)
class Policy:
    """Everything that decides what a drain does. Times in seconds.

    `in_turn` False: it is asked whether VMs move, not when. So no VM waits for others, and hooks
    are taken to be answered. `let_finish`: a restore leaves migrations alone that run.
    """

    rules: tuple[Rule, ...] = ()
    default_strategy: EvictionStrategy = EvictionStrategy.LIVE_MIGRATE
    on_not_migratable: OnNotMigratable = OnNotMigratable.BLOCK
    allow_stop: bool = False
    force_stop: bool = False
    move_inactive: bool = False
    limits: Limits = field(default_factory=Limits)
    placement_policy: PlacementPolicy = field(default_factory=PlacementPolicy)
    migration: MigrationSettings = field(default_factory=MigrationSettings)
    max_attempts: int = _option(3)
    backoff: float = _option(5.0)
    shutdown_timeout: float = 120.0
    external_timeout: float = _option(300.0)
    unknown_timeout: float = _option(60.0)
    pending_timeout: float = _option(300.0)
    drain_timeout: float = _option(3600.0)
    in_turn: bool = True
    let_finish: bool = False

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise PolicyError(f"max_attempts must be 1 or more, not {self.max_attempts}")
        for name in ("shutdown_timeout", "pending_timeout", "drain_timeout"):
            if not 0 < getattr(self, name) < math.inf:
                raise PolicyError(f"{name} must be more than 0 seconds")
        for name in ("backoff", "external_timeout", "unknown_timeout"):
            if not 0 <= getattr(self, name) < math.inf:
                raise PolicyError(f"{name} must be 0 seconds or more")


# Of the modules of both platforms.
OPTIONS_SPEC: dict[str, Any] = {
    one.name: {"type": one.type, "default": one.default} for one in fields(Policy) if one.metadata
}
