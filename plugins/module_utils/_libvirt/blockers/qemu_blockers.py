"""Ask QEMU itself what blocks a migration.

QEMU names its blockers in query-migrate, and only its monitor reports it. A command to the monitor
taints the domain for as long as it runs, so it is asked only where somebody else has done that
already. For all others libvirt asks QEMU when the migration begins, before anything moves.
"""

from __future__ import annotations

import json
from typing import Any

from ..host.connection import is_lost, libvirt

_TAINTED_BY_MONITOR = "custom monitor control commands issued"
_QUERY = '{"execute": "query-migrate"}'
# libvirt since 8.9 asks QEMU itself; older ones give on what QEMU answers to the command.
_REFUSALS = ("cannot migrate domain: ", "State blocked by non-migratable")


def qemu_blockers(dom: Any) -> tuple[str, ...]:
    """Return what blocks the domain's migration, in QEMU's words; empty: nothing, or QEMU is not to be asked.
    Raises libvirtError when the connection is lost."""
    try:
        import libvirt_qemu  # noqa: PLC0415 - it comes with libvirt's binding on some systems only
    except ImportError:
        return ()
    try:
        if not _monitor_was_used(dom):
            return ()
        answer = json.loads(libvirt_qemu.qemuMonitorCommand(dom, _QUERY, 0))
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        return ()
    except ValueError:
        return ()
    return tuple(str(reason) for reason in answer.get("return", {}).get("blocked-reasons", ()))


def _monitor_was_used(dom: Any) -> bool:
    """Is it tainted that way? libvirt reports it since 7.1."""
    messages = getattr(dom, "messages", None)
    if messages is None:
        return False
    reported = messages(libvirt.VIR_DOMAIN_MESSAGE_TAINTING)
    return any(_TAINTED_BY_MONITOR in text for text in reported)


def is_blocked(exc: Any) -> bool:
    """Was the migration refused because QEMU does not migrate the domain as it is?"""
    return any(words in str(exc) for words in _REFUSALS)
