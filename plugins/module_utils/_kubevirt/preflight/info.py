"""The node's info: what a drain would do now, and what the preflight finds in its way. One answer.

The drain's own look sees what is on its node; whether a quota or the other nodes would let a VM go, it learns from
KubeVirt when it has asked. So here everything is read that a preflight reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.preflight.check import check, rows
from ..._core.preflight.promise import with_preflight
from ..._core.reasons.reason import Platform, Reason, Severity
from ..api.client import Client
from ..api.metrics import DirtyRates
from ..run.check_mode import read_node as node_by_itself
from ..run.work import Request
from .check import gather


def read_node(request: Request, severity: Mapping[Reason, Severity]) -> dict[str, Any]:
    """The node, KubeVirt's settings, its VMs, and what a drain would do. `severity`: as a preflight's. Raises what both
    raise."""
    found = node_by_itself(request)
    if not found["vms"]:
        return found
    client = Client(request.auth)
    try:
        seen = gather(client, request, DirtyRates(request.metrics, request.node))
    finally:
        client.close()
    return with_preflight(found, rows(seen, check(seen, request.policy), severity), Platform.KUBEVIRT)
