"""Preflight: what the API says beforehand. Access reviews, evictions as a dry run.

Nothing here writes: a review is answered and not kept, and a dry run is not kept either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ..._core.reasons.reason import Reason
from ..api.client import Client
from ..api.errors import AccessDenied, KubeError
from ..objects import facts, names
from ..requests.eviction import Answer, evict
from ..requests.rights import COLLECTS, EVICTS, FOLLOWS, Right, lacking

Obj = dict[str, Any]
A = TypeVar("A")
B = TypeVar("B")
_AT_ONCE = 8
_KV, _SUB = "kubevirt.io", "subresources.kubevirt.io"


def _all(group: str, resource: str, verbs: str, why: str) -> tuple[Right, ...]:
    return tuple(Right(group, resource, verb, why, everywhere=True) for verb in verbs.split())


# docs/kubevirt-clusterrole.yml grants them; a unit test compares the two.
RIGHTS: tuple[Right, ...] = (
    *_all("", "nodes", "get list", "to read the node and the others"),
    *_all("", "nodes", "patch", "to cordon the node and to keep the record on it"),
    *_all("", "pods", "list watch", "to see which launcher pods are on the node"),
    *_all(_KV, "kubevirts", "list", "to read KubeVirt's limits and version"),
    *_all(_KV, "virtualmachineinstances", "list watch", "to see the VMs of the node"),
    *_all(_KV, "virtualmachineinstancemigrations", "list watch", "to follow migrations"),
    *_all("storage.k8s.io", "volumeattachments", "list", "to see which volumes are still attached to the node"),
    EVICTS,
    COLLECTS,
    Right("", "events", "create", "to write on a VM who requested its migration"),
    Right("coordination.k8s.io", "leases", "get", "to run one at a time"),
    Right("coordination.k8s.io", "leases", "create", "to run one at a time"),
    Right("coordination.k8s.io", "leases", "update", "to run one at a time"),
    Right(_KV, "virtualmachines", "get", "to know who starts a VM again"),
    FOLLOWS,
    Right(_KV, "virtualmachineinstances", "patch", "to write on a VM who asked"),
    Right(_KV, "virtualmachineinstances", "delete", "to stop a VM", stops=True),
    Right(_KV, "virtualmachineinstancemigrations", "patch", "to write on it who asked"),
    Right(_KV, "virtualmachineinstancemigrations", "delete", "to withdraw a migration"),
    # The API server checks the short name, virt-api the long one.
    Right(_SUB, "virtualmachineinstances/evacuate", "update", "to withdraw", since=(1, 7)),
    Right(_SUB, "virtualmachineinstances/evacuate/cancel", "update", "to withdraw", since=(1, 7)),
    Right(_SUB, "virtualmachines/start", "update", "to start a VM again", stops=True),
)


# Where other pods have to go. `why` is part of the text.
EVICTS_PODS = Right("", "pods/eviction", "create", "to ask the other pods to leave")
DELETES_PODS = Right("", "pods", "delete", "to end the other pods, past all budgets")


def missing_rights(
    client: Client, namespaces: Sequence[str], stops: bool, version: tuple[int, int]
) -> tuple[list[str], list[str]]:
    """(rights that the account lacks, what could not be asked), in words."""
    unread: list[str] = []
    wanted = [right for right in RIGHTS if (stops or not right.stops) and (version >= right.since or version == (0, 0))]

    def one(right: Right) -> str:
        return lacking(client, right, namespaces)

    try:
        # The first alone: it opens the connections, and says whether reviews can be had.
        reported = [one(wanted[0]), *together(one, wanted[1:])]
    except KubeError as exc:
        unread.append(f"The account's rights: {str(exc).rstrip('.')}.")
        return [], unread
    return [text for text in reported if text], unread


def together(what: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Some at a time, over connections of the same pool; in the order given."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(what, items))


# Evictions as a dry run


@dataclass
class DryRuns:
    """The answers to evictions that were dry runs: per VM what stands in its way, and what concerns all of them."""

    found: dict[str, tuple[Reason, str]]
    webhook: str = ""
    denied: str = ""
    unread: tuple[str, ...] = ()


def try_evictions(client: Client, pods: dict[str, Obj]) -> DryRuns:
    """`pods`: UUID of the VM -> its launcher pod. Asks the server; nothing is marked or ended."""
    tried = DryRuns({})
    uuids = sorted(pods)

    def one(uuid: str) -> Any:
        try:
            return evict(client, pods[uuid], dry=True)
        except AccessDenied as exc:
            return exc

    for uuid, answer in zip(uuids, together(one, uuids)):
        if isinstance(answer, AccessDenied):
            tried.denied = str(answer)
            continue
        kind, finding = answer
        text = finding.message if finding is not None else ""
        if finding is not None and finding.reason.value == Reason.WebhookUnavailable.value:
            tried.webhook = text
        elif kind is Answer.BUDGET:
            tried.found[uuid] = (Reason.DisruptionBudget, text)
        elif kind is Answer.REFUSED:
            tried.found[uuid] = (Reason.APIError, f"Its eviction as a dry run: {text}.")
        elif kind is Answer.LATER:
            namespace, name = facts.key(pods[uuid])
            tried.unread += (f"The eviction of {namespace}/{name} as a dry run: {text}.",)
    return tried


def webhook_trouble(client: Client) -> str:
    """Does virt-api answer? Empty: it does, or we may not ask."""
    try:
        client.request("GET", f"{names.SUBRESOURCES}/version", retry=False)
    except AccessDenied:
        return ""
    except KubeError as exc:
        return "" if exc.code == 404 else str(exc)
    return ""
