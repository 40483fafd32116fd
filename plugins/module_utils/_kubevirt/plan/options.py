"""Refuse, or warn of, what has no meaning on KubeVirt in the plan's policy. If that were left out in silence,
the plan would be of another drain than the one that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..._core.model.policy import PlacementPolicy, Policy, PolicyError, Profile
from ..options import ON_NOT_MIGRATABLE


def check(params: Mapping[str, Any]) -> None:
    """Raises PolicyError naming the option."""
    asked = [("on_not_migratable", params["on_not_migratable"])]
    asked += [
        (f"rules[{number}] ({rule.get('name')}), on_not_migratable", rule.get("on_not_migratable"))
        for number, rule in enumerate(params["rules"])
    ]
    for where, what in asked:
        if what is not None and what not in ON_NOT_MIGRATABLE:
            raise PolicyError(f"{where}: there is no {what} on KubeVirt, only {', '.join(ON_NOT_MIGRATABLE)}")
    if params["strategy"] != "LiveMigrate":
        raise PolicyError(
            f"strategy is {params['strategy']}: on KubeVirt every VMI has one, if only "
            "KubeVirt's default. Use a rule with strategy."
        )
    if params["move_inactive"]:
        raise PolicyError("move_inactive: a VM that is off is on no node of KubeVirt")
    if params["placement_profile"] != Profile.LOW.value:
        raise PolicyError(
            f"placement_profile is {params['placement_profile']}: on KubeVirt the scheduler "
            "chooses the targets by its own profile. Leave the option out."
        )


def policy(given: Policy) -> Policy:
    """The policy as a drain uses it: KubeVirt's settings for all VMs, and required groups."""
    rules = tuple(replace(rule, migration=None) for rule in given.rules)
    return replace(given, rules=rules, placement_policy=PlacementPolicy(require_anti_affinity=True))


def warnings(given: Policy) -> list[str]:
    """A warning for rules with migration settings: the plan, which reads nothing, cannot say for which VMs KubeVirt's
    own differ."""
    names = ", ".join(rule.name for rule in given.rules if rule.asked)
    if not names:
        return []
    return [
        f"Migration settings of rules ({names}): KubeVirt migrates with its own, so the plan does "
        "too. kubevirt_node_info reports for which VMs they differ."
    ]
