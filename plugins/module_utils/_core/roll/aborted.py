# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What came of an abort: of each host that was out, and of each of its VMs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import figures
from .record import Stage

# On a host in one of these something of the user's may be under way that no abort ends.
_BUSY = {
    Stage.AT_WORK.value: "it was at work: your tasks there may still run",
    Stage.REBOOTING.value: "it was to be rebooted, which may still come",
}


def report(
    roll: Mapping[str, Any] | None, out: Sequence[str], restores: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """`roll`: as the abort found it. `out`: its hosts that were out. `restores`: results by host.

    `lines` is the same for people.
    """
    stages = {host["name"]: host["stage"] for host in (roll or {}).get("hosts", ())}
    hosts, vms, lines = [], [], []
    for name in out:
        found = restores.get(name, {})
        back = found.get("phase") == "Active"
        why = _BUSY.get(stages.get(name, ""), "") if back else str(found.get("msg") or "no answer")
        hosts.append({"name": name, "stage": stages.get(name), "given_back": back, "message": why})
        first, *more = why.splitlines() or [""]
        lines.append(f"{name}  {'' if back else 'not '}given back{': ' if first else ''}{first}")
        lines += [f"  {line}" for line in more]
        outcomes = found.get("outcomes") or []
        vms += [{"host": name, **vm} for vm in outcomes]
        lines += [f"  {', '.join(names)}: {text}" for text, names in _by_message(outcomes).items()]
    given_back = [name for name in out if restores.get(name, {}).get("phase") == "Active"]
    stats = figures.of_roll(roll, given_back=given_back)
    return {"roll": roll, "hosts": hosts, "vms": vms, "lines": lines, "stats": stats}


def _by_message(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for vm in outcomes:
        found.setdefault(vm["message"], []).append(vm["name"])
    return found
