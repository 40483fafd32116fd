"""Translate libvirt's domain states and job statistics to the core's. Pure.

Numbers are those of virDomainState, virDomainPausedReason, virDomainRunningReason and
virDomainJobOperation in libvirt's include/libvirt/libvirt-domain.h; they are part of its
stable API, so they stand here and the binding need not be importable in tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.model.observation import Job, Mode, State

RUNNING, BLOCKED, PAUSED, SHUTDOWN, SHUTOFF, CRASHED, PMSUSPENDED = range(1, 8)
RUNNING_POSTCOPY = 10
RUNNING_POSTCOPY_FAILED = 11
PAUSED_UNKNOWN, PAUSED_USER = 0, 1
PAUSED_MIGRATION = 2
PAUSED_IOERROR = 5
PAUSED_STARTING_UP = 11
PAUSED_POSTCOPY = 12
PAUSED_POSTCOPY_FAILED = 13
PAUSED_API_ERROR = 14  # libvirt itself could not resume it
# virDomainShutoffReason: its process crashed, failed, or was given up by libvirtd.
SHUTOFF_CRASHED, SHUTOFF_FAILED, SHUTOFF_DAEMON = 3, 6, 8
JOB_NONE, JOB_BOUNDED, JOB_UNBOUNDED = 0, 1, 2
OPERATION_SAVE = 2
OPERATION_MIGRATION_IN = 4
OPERATION_MIGRATION_OUT = 5


def to_state(state: int, reason: int, incoming: bool, idle: bool = False) -> State:
    """`incoming`: no outgoing job belongs to it, so "paused for migration" means arriving.

    `idle`: libvirt says that it has no job at all, which it does not say of one that arrives.
    Then it stayed, and libvirt could not resume it.
    """
    if state in (RUNNING, BLOCKED, SHUTDOWN):
        if reason == RUNNING_POSTCOPY and state == RUNNING:
            return State.POSTCOPY
        if reason == RUNNING_POSTCOPY_FAILED and state == RUNNING:
            return State.POSTCOPY_FAILED
        return State.RUNNING
    if state == PAUSED:
        if reason == PAUSED_POSTCOPY:
            return State.POSTCOPY_SOURCE
        if reason == PAUSED_POSTCOPY_FAILED:
            return State.POSTCOPY_FAILED
        if reason == PAUSED_STARTING_UP and incoming:
            return State.INCOMING
        if reason == PAUSED_MIGRATION and incoming and not idle:
            return State.INCOMING
        return State.PAUSED
    if state == PMSUSPENDED:
        return State.PAUSED
    if state == CRASHED:
        return State.CRASHED
    return State.SHUTOFF


# virDomainPausedReason: who or what paused it. Of a migration nothing is said: it is passing.
_PAUSED_BY = {
    PAUSED_USER: "someone suspended it (virsh suspend)",
    4: "its memory is being dumped",
    PAUSED_IOERROR: "an I/O error of a disk",
    6: "its watchdog",
    7: "it was restored from a snapshot of a paused VM",
    9: "a snapshot is being made",
    10: "its guest crashed",
    PAUSED_API_ERROR: "libvirt could not resume it",
}


def paused_by(state: int, reason: int) -> str:
    """Return what paused the domain, in words; empty: nothing did, or it is not known."""
    if state == PMSUSPENDED:
        return "its guest sleeps"
    return _PAUSED_BY.get(reason, "") if state == PAUSED else ""


_RESUMABLE = frozenset({PAUSED_UNKNOWN, PAUSED_USER, PAUSED_MIGRATION, PAUSED_API_ERROR})


def is_resumable(state: int, reason: int) -> bool:
    """Does it stand as after a suspend? Not so: an I/O error, a watchdog, a snapshot, a guest
    that sleeps. To resume those is not ours, and does not help."""
    return state == PAUSED and reason in _RESUMABLE


def is_crashed(state: int, reason: int) -> bool:
    """Is it off although nobody, its guest included, stopped it?"""
    return state == SHUTOFF and reason in (SHUTOFF_CRASHED, SHUTOFF_FAILED, SHUTOFF_DAEMON)


def is_idle(stats: Mapping[str, Any]) -> bool:
    """Does libvirt say that there is no job? {}: it says nothing (see migrate.job_stats)."""
    return stats.get("type") == JOB_NONE


def to_job(stats: Mapping[str, Any], state: State) -> Job | None:
    """The running job of `virDomainGetJobStats`, or None. An outgoing migration or another job."""
    if stats.get("type", JOB_NONE) not in (JOB_BOUNDED, JOB_UNBOUNDED):
        return None
    operation = stats.get("operation", 0)
    if operation == OPERATION_MIGRATION_IN:
        return None
    post = state in (State.POSTCOPY_SOURCE, State.POSTCOPY_FAILED)
    page = stats.get("memory_page_size", 4096)
    return Job(
        outgoing=operation == OPERATION_MIGRATION_OUT,
        saving=operation == OPERATION_SAVE,
        mode=Mode.POST_COPY if post else Mode.PRE_COPY,
        elapsed=stats.get("time_elapsed", 0) / 1000.0,
        processed=stats.get("data_processed", 0),
        total=stats.get("data_total", 0),
        remaining=stats.get("data_remaining", 0),
        rate=stats.get("memory_bps", 0) + stats.get("disk_bps", 0),
        dirty_rate=stats.get("memory_dirty_rate", 0) * page,
        iteration=stats.get("memory_iteration", 0),
    )
