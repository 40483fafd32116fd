"""Taints that keep pods away, and the VMs that tolerate them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..._core.model.constraints import Effect, Taint, Toleration

Obj = dict[str, Any]

_HARD = ("NoSchedule", "NoExecute")


def hard(node: Obj) -> list[Obj]:
    """Its taints that are more than a wish."""
    return [t for t in (node.get("spec") or {}).get("taints") or [] if t.get("effect") in _HARD]


def of(vmi: Obj, pod: Obj | None = None) -> list[Obj]:
    """Return the tolerations of the pod of its next migration. `pod`: its launcher, which may tolerate
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
    """The taints that it does not tolerate."""
    known = [_read(toleration) for toleration in tolerations]
    return [taint for taint in taints if not any(one is not None and one.tolerates(_taint(taint)) for one in known)]


def shown(taint: Obj) -> str:
    return str(_taint(taint))


def _taint(taint: Obj) -> Taint:
    return Taint(taint.get("key") or "", taint.get("value") or "", Effect(taint["effect"]))


def _read(toleration: Obj) -> Toleration | None:
    """None: it tolerates nothing, since one without a key must have the operator Exists."""
    key, effect = toleration.get("key") or "", toleration.get("effect")
    value = None if toleration.get("operator") == "Exists" else toleration.get("value") or ""
    if not key and value is not None:
        return None
    return Toleration(key, value, Effect(effect) if effect else None)
