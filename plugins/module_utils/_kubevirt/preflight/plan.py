# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of a drain and the node's info: what it would do now, and what the preflight finds in its way. One answer.

The drain's own look sees what is on its node; whether a quota or the other nodes would let a VM go, it learns from
KubeVirt when it has asked. So here everything is read that a preflight reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.model.record import Intent
from ..._core.preflight.promise import with_preflight
from ..._core.reasons.reason import Reason, Severity
from ..api.client import Client
from ..api.metrics import DirtyRates
from ..run.check_mode import plan as plan_of_run
from ..run.check_mode import read_node as node_by_itself
from ..run.service import Request
from .check import gather


def plan(request: Request, speeds: Mapping[str, Any], severity: Mapping[Reason, Severity]) -> dict[str, Any]:
    """As the run's own, and what else is in the way. `severity`: as a preflight's. Raises what both raise."""
    found = plan_of_run(request, speeds)
    if request.intent is not Intent.DRAINED or not found["planned"]:
        return found
    return _beside(found, request, severity)


def read_node(request: Request, severity: Mapping[Reason, Severity]) -> dict[str, Any]:
    """The node, KubeVirt's settings, its VMs, and what a drain would do."""
    found = node_by_itself(request)
    return _beside(found, request, severity) if found["vms"] else found


def _beside(found: dict[str, Any], request: Request, severity: Mapping[Reason, Severity]) -> dict[str, Any]:
    client = Client(request.auth)
    try:
        seen = gather(client, request, DirtyRates(request.metrics, request.node))
    finally:
        client.close()
    return with_preflight(found, seen, request.policy, severity)
