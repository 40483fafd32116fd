"""MigrationPolicies: which one a migration gets, read as it is handed over to virt-handler."""

from __future__ import annotations

from typing import Any

from . import words
from .kinds import NAMESPACES, POLICIES
from .store import Obj
from .world import World

_FIELDS = (
    *("allowAutoConverge", "allowPostCopy", "allowWorkloadDisruption"),
    *("bandwidthPerMigration", "completionTimeoutPerGiB"),
)


def settings(world: World, vmi: Obj) -> dict[str, Any]:
    """migrationConfiguration, and migrationPolicyName where a policy matches.

    The cluster's settings, with those of one policy: nothing is merged from others.
    """
    config = world.migrations_config()
    policy = _best(world, vmi)
    if policy is None:
        return {"migrationConfiguration": config}
    own = {name: policy["spec"][name] for name in _FIELDS if name in policy["spec"]}
    if "allowPostCopy" in own:
        own.setdefault("allowWorkloadDisruption", own["allowPostCopy"])
    name = policy["metadata"]["name"]
    return {"migrationConfiguration": {**config, **own}, "migrationPolicyName": name}


def _best(world: World, vmi: Obj) -> Obj | None:
    """Most labels first, of these most labels of the VMI, then the lower name."""
    found = [(_matched(world, vmi, policy), policy) for policy in world.store.all(POLICIES)]
    ranked = sorted(
        (-score[0], -score[1], policy["metadata"]["name"], policy) for score, policy in found if score is not None
    )
    return ranked[0][-1] if ranked else None


def _matched(world: World, vmi: Obj, policy: Obj) -> tuple[int, int] | None:
    """How many labels it asks for, and how many of the VMI, if all of them are there."""
    space = world.store.find(NAMESPACES, "", vmi["metadata"]["namespace"])
    selectors = policy["spec"]["selectors"]
    wanted = selectors.get("virtualMachineInstanceSelector") or {}
    of_space = selectors.get("namespaceSelector") or {}
    there = words.labels(space) if space is not None else {}
    if not (wanted.items() <= words.labels(vmi).items() and of_space.items() <= there.items()):
        return None
    return (len(wanted) + len(of_space), len(wanted))
