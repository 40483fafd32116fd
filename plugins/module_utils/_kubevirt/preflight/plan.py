# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of a drain: what it would do now, and what the preflight finds in its way. One answer.

The drain's own look sees what is on its node; whether a quota or the other nodes would let a VM go, it learns from
KubeVirt when it has asked. So here everything is read that a preflight reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..._core.decision.actions import NodePhase
from ..._core.model.record import Ending, Intent
from ..._core.preflight.check import check, rows
from ..._core.reasons.reason import About, Finding, Platform, Reason, Severity
from ..api.client import Client
from ..api.metrics import DirtyRates
from ..run.check_mode import plan as plan_of_run
from ..run.service import Request
from .check import gather

Row = dict[str, Any]


def plan(request: Request, speeds: Mapping[str, Any]) -> dict[str, Any]:
    """As the run's own, and what else is in the way. Raises what both raise."""
    found = plan_of_run(request, speeds)
    if request.intent is not Intent.DRAINED or not found["planned"]:
        return found
    client = Client(request.auth)
    try:
        seen = gather(client, request, DirtyRates(request.metrics, request.node))
        listed = rows(seen, check(seen, request.policy), {})
    finally:
        client.close()
    return with_blockers(found, [row for row in listed if row["severity"] == Severity.BLOCKER.value])


def with_blockers(found: dict[str, Any], blockers: Iterable[Row]) -> dict[str, Any]:
    """A VM that has one would not be moved, whatever its drain would ask for; one of the node keeps all of them."""
    vms = {row["name"]: row for row in found["vms"]}
    for blocker in blockers:
        told = Finding(Reason(blocker["code"]), blocker["message"]).to_dict(Platform.KUBEVIRT)
        row = vms.get(blocker["subject"].removeprefix("VM "))
        if row is not None:
            _keep(found, row, told)
        elif blocker["about"] != About.POD.value and not blocker["subject"].startswith("VM "):
            if told["reason"] not in [known["reason"] for known in found["findings"]]:
                found["findings"].append(told)
            found["phase"] = NodePhase.BLOCKED.value
    return found


def _keep(found: dict[str, Any], row: Row, told: Mapping[str, str]) -> None:
    """What its own look has found of it says more."""
    if row["verdict"] not in ("pending", Ending.NONE.value):
        return
    if not row["reason"]:
        row.update(told)
    found["planned"] = [act for act in found["planned"] if act["vm"] != row["name"]]
    for key in ("predicted_duration", "predicted_pause_ms"):
        row.pop(key, None)
    found["would_stay"] = sorted({*(found.get("would_stay") or ()), row["name"]})
