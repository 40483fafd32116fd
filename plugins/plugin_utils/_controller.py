"""Which machine the controller is, and which ansible-playbook this worker works for."""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
import signal
import time
from contextlib import suppress

from ansible.errors import AnsibleActionFail

from ansible_collections.virtops.maintenance.plugins.module_utils._playbook.lives import told

PRODUCT_UUID = "/sys/class/dmi/id/product_uuid"
_PR_SET_PDEATHSIG = 1
_seen: dict[int, tuple[int, str]] = {}


def own_uuid(path: str = PRODUCT_UUID) -> str:
    """The controller's UUID, as its firmware reports it; usually only root may read it."""
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def clocks() -> dict[str, float]:
    """Seconds, by a clock that goes on while the machine sleeps, where the system has one, and by the wall clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return {"boot": time.clock_gettime(boot), "wall": time.time()}


def playbook() -> tuple[int, str]:
    """The ansible-playbook that forked this worker: its process, and what a module is told of it.

    A worker that lives on has another parent. It may have had it from its first line, so who forked it is not asked of
    the kernel. Raises AnsibleActionFail when it has ended.
    """
    here = os.getpid()
    if here not in _seen:
        forked_by = multiprocessing.parent_process()
        pid = os.getppid() if forked_by is None or forked_by.pid is None else forked_by.pid
        _seen[here] = pid, told(pid)
        if forked_by is not None:
            _ends_with_its_parent()
    if os.getppid() != _seen[here][0]:
        # What is under way on the platform ends there; the record says how far it is.
        raise AnsibleActionFail("ansible-playbook ended; run the same command to continue.")
    return _seen[here]


def _ends_with_its_parent() -> None:
    """Linux sends this worker SIGTERM then, which it hands on to its connection and to a module on this machine: one
    on another machine learns it by that alone."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def own_run() -> str:
    """The ID of the ansible-playbook that this worker belongs to: the same for all of its tasks, and no
    other one has it, on this machine or another. Raises AnsibleActionFail."""
    parts = (os.uname().nodename, playbook()[1])
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
