"""One peer-to-peer live migration: flags and parameters, and where the VM is afterwards.

VIR_MIGRATE_UNSAFE is never set: libvirt then runs a VM on an empty disk (seen).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..._core.model.observation import MigrationMethod, State
from ..domain.state import OPERATION_MIGRATION_OUT, is_idle, to_state
from ..host.connection import libvirt
from .order import MoveOrder


def flags_of(order: MoveOrder) -> int:
    """The flags of migrateToURI3 for this order."""
    settings = order.settings
    flags = libvirt.VIR_MIGRATE_PEER2PEER | libvirt.VIR_MIGRATE_LIVE
    flags |= libvirt.VIR_MIGRATE_ABORT_ON_ERROR
    if order.persistent:
        flags |= libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    if settings.auto_converge:
        flags |= libvirt.VIR_MIGRATE_AUTO_CONVERGE
    if settings.post_copy:
        flags |= libvirt.VIR_MIGRATE_POSTCOPY
    if settings.parallel_connections:
        flags |= libvirt.VIR_MIGRATE_PARALLEL
    if settings.compression:
        flags |= libvirt.VIR_MIGRATE_COMPRESSED
    if order.method is MigrationMethod.BLOCK:
        flags |= libvirt.VIR_MIGRATE_NON_SHARED_DISK
    if settings.tls:
        flags |= libvirt.VIR_MIGRATE_TLS
    return int(flags)


def params_of(order: MoveOrder, bandwidth_mib: int, disks: Sequence[str]) -> dict[str, Any]:
    """The parameters of migrateToURI3. `bandwidth_mib`: MiB/s to start with, 0 = no limit."""
    params: dict[str, Any] = {}
    if order.migrate_uri:
        params[libvirt.VIR_MIGRATE_PARAM_URI] = order.migrate_uri
    if bandwidth_mib:
        params[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = bandwidth_mib
    if order.settings.bandwidth_mib and order.settings.post_copy:
        # The other one ends with pre-copy, and the link cannot be shared out any more.
        params[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY] = order.settings.bandwidth_mib
    if order.settings.parallel_connections:
        params[libvirt.VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS] = order.settings.parallel_connections
    if order.settings.compression:
        params[libvirt.VIR_MIGRATE_PARAM_COMPRESSION] = list(order.settings.compression)
    if order.method is MigrationMethod.BLOCK:
        params[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(disks)
    return params


class Place(str, Enum):
    """Where a VM is, read on both sides."""

    SOURCE = "source"
    TARGET = "target"
    MOVING = "moving"  # nothing final yet: a job, a hand-over, post-copy
    BOTH = "both"
    NOWHERE = "nowhere"
    UNKNOWN = "unknown"  # a side that matters cannot be read


_OFF = frozenset({State.ABSENT, State.SHUTOFF})
_UP = frozenset({State.RUNNING, State.PAUSED, State.CRASHED})
_POST = frozenset({State.POSTCOPY, State.POSTCOPY_SOURCE, State.POSTCOPY_FAILED})


def place_of(source: State, target: State, job: bool) -> Place:
    """Where the VM is. `job`: an outgoing migration is active on the source."""
    if job or source in _POST or target in _POST:
        return Place.MOVING
    if State.UNKNOWN in (source, target):
        # A source that runs without a job has not let go; nothing else is safe to say.
        return Place.SOURCE if source is State.RUNNING else Place.UNKNOWN
    if State.INCOMING in (source, target):
        return Place.MOVING
    if source in _UP:
        return Place.BOTH if target in _UP else Place.SOURCE
    if target in _UP:
        return Place.TARGET
    return Place.NOWHERE


@dataclass(frozen=True)
class Side:
    """A VM on one host: its state, and the statistics of an active outgoing migration."""

    state: State
    job: Mapping[str, Any] | None = None


def read_side(conn: Any, uuid: str) -> Side:
    """The VM on the host behind `conn`. Raises libvirtError when the host cannot be read."""
    try:
        dom = conn.lookupByUUIDString(uuid)
        if not dom.isActive():
            return Side(State.SHUTOFF)
        stats = job_stats(dom)
        number, reason = dom.state()
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return Side(State.ABSENT)
        raise
    job = _outgoing(stats)
    return Side(to_state(number, reason, incoming=job is None, idle=is_idle(stats)), job)


def job_stats(dom: Any) -> dict[str, Any]:
    """Statistics of the running job; {} of a domain that does not run, or is arriving.

    Raises libvirtError when they cannot be read (a lock, a busy monitor): that is no answer, and
    who takes it for "no job" gives up a migration that goes on.
    """
    nothing_leaves = (libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_UNSUPPORTED)
    try:
        return dict(dom.jobStats(0))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() in nothing_leaves:
            return {}
        raise


def outgoing_job(dom: Any) -> Mapping[str, Any] | None:
    """Statistics of the outgoing migration that is active on the domain, if there is one."""
    return _outgoing(job_stats(dom))


def _outgoing(stats: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if stats.get("type", 0) in (libvirt.VIR_DOMAIN_JOB_NONE, libvirt.VIR_DOMAIN_JOB_COMPLETED):
        return None
    # Before libvirt has a monitor answer the operation is all that it tells.
    return stats if stats.get("operation") == OPERATION_MIGRATION_OUT else None


def completed_stats(dom: Any) -> Mapping[str, Any]:
    """The completed job's statistics, left readable for the next one; {} if there are none."""
    flags = libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED | libvirt.VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED
    try:
        stats = dict(dom.jobStats(flags))
    except libvirt.libvirtError:
        return {}  # an extra: without it the outcome has less numbers
    return stats if stats.get("type", 0) != libvirt.VIR_DOMAIN_JOB_NONE else {}
