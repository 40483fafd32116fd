"""Ask the API beforehand what the account may do: a review is answered and not kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..api import client as api
from ..api.client import Client
from ..api.errors import AccessDenied, KubeError
from ..objects import facts

Obj = dict[str, Any]
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True)
class Right:
    """One verb on one resource, and what the drain needs it for.

    `everywhere`: it is used at the scope of the cluster, a role in the namespaces does not do.
    `stops`: only where VMs may be stopped. `since`: of KubeVirt.
    """

    group: str
    resource: str
    verb: str
    why: str
    everywhere: bool = False
    stops: bool = False
    since: tuple[int, int] = (0, 0)

    @property
    def text(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}"


EVICTS = Right("", "pods/eviction", "create", "to ask VMs to leave")
COLLECTS = Right("", "pods", "deletecollection", "to remove launcher pods that have ended")
FOLLOWS = Right("kubevirt.io", "virtualmachineinstances", "get", "to see where a VM went")


def check_before_a_drain(client: Client, vmis: Sequence[Obj], sleep: Callable[[float], None] = time.sleep) -> None:
    """Raises AccessDenied for what `missing_for_a_drain` names."""
    missing = missing_for_a_drain(client, vmis, sleep)
    if missing:
        denied = AccessDenied(403, "", "", "")
        denied.text = f"{missing} Nothing was changed."
        raise denied


def missing_for_a_drain(client: Client, vmis: Sequence[Obj], sleep: Callable[[float], None] = time.sleep) -> str:
    """Name the missing rights that a drain would notice only when VMs have moved, or wait for without end; '': none.

    It uses all others before, so a missing one of these is told at once. An API server that has just started knows
    nobody's rights: who is denied is asked about once more."""
    spaces = sorted({facts.key(vmi)[0] for vmi in vmis})
    missing = _missing(client, spaces)
    if missing:
        sleep(api.DENIES_FOR)
        missing = _missing(client, spaces)
    return f"Not allowed: {' '.join(missing)}" if missing else ""


def _missing(client: Client, spaces: Sequence[str]) -> list[str]:
    """The missing rights in words. Empty too where they cannot be reviewed: then it is reported when they are used."""
    try:
        found = [lacking(client, right, spaces) for right in (EVICTS, COLLECTS, FOLLOWS) if spaces]
    except KubeError:
        return []
    return [text for text in found if text]


def lacking(client: Client, right: Right, namespaces: Sequence[str]) -> str:
    """Where the account does not have it, in words; empty: it does. Raises KubeError."""
    if _allowed(client, right, ""):
        return ""
    if right.everywhere or not namespaces:
        return f"{right.text} ({right.why})."
    spaces = [space for space in namespaces if not _allowed(client, right, space)]
    shown = ", ".join(spaces[:5]) + (" and others" if len(spaces) > 5 else "")
    return f"{right.text} in {shown} ({right.why})." if spaces else ""


def _allowed(client: Client, right: Right, namespace: str) -> bool:
    resource, _slash, sub = right.resource.partition("/")
    asked = {"group": right.group, "resource": resource, "verb": right.verb}
    if sub:
        asked["subresource"] = sub
    if namespace:
        asked["namespace"] = namespace
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return bool(facts.status(client.request("POST", REVIEWS, body)).get("allowed"))
