# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taints that keep pods away, and the VMs that tolerate them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Obj = dict[str, Any]

_HARD = ("NoSchedule", "NoExecute")


def hard(node: Obj) -> list[Obj]:
    """Its taints that are more than a wish."""
    return [t for t in (node.get("spec") or {}).get("taints") or [] if t.get("effect") in _HARD]


def of(vmi: Obj, pod: Obj | None = None) -> list[Obj]:
    """What the pod of its next migration will tolerate. `pod`: its launcher, which may tolerate
    more, as the cluster adds to it."""
    for obj in (pod, vmi):
        found = ((obj or {}).get("spec") or {}).get("tolerations")
        if found:
            return list(found)
    return []


def key(tolerations: Sequence[Obj]) -> str:
    """The same for the same tolerations: most VMs of a cluster have them in common."""
    return json.dumps(sorted(json.dumps(t, sort_keys=True) for t in tolerations))


def untolerated(taints: Sequence[Obj], tolerations: Sequence[Obj]) -> list[Obj]:
    """Those of the taints that keep it away."""
    return [taint for taint in taints if not any(_tolerates(t, taint) for t in tolerations)]


def shown(taint: Obj) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    if toleration.get("operator") == "Exists":
        return True
    same = (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(toleration.get("key")) and same
