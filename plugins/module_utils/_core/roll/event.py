# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the user's own notifications are given. Pure."""

from __future__ import annotations

from typing import Any

from . import figures, words
from .record import Roll, Stage


def begun(roll: Roll, message: str) -> dict[str, Any]:
    return _event("begin", roll, message)


def of_host(roll: Roll, host: str) -> dict[str, Any]:
    """That it is done or has failed; empty: there is nothing to tell."""
    entry = roll.hosts.get(host)
    if entry is None or entry.stage not in (Stage.DONE, Stage.FAILED):
        return {}
    if entry.stage is Stage.FAILED:
        return _event("failed", roll, words.has_failed(entry), host)
    return _event("done", roll, words.host_is_done(roll.to_dict(), host), host)


def ended(roll: Roll) -> dict[str, Any]:
    return _event("end", roll, words.result(roll))


def _event(what: str, roll: Roll, message: str, host: str = "") -> dict[str, Any]:
    return {"event": what, "host": host, "message": message, **figures.of_roll(roll.to_dict())}
