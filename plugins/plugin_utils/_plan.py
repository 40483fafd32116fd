"""The plan of a roll, made on the controller from what was read: for `maintenance_plan`, and for the roll itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.fields import yes
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of, strange_names
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.speeds import (
    SPEEDS,
    SPEEDS_SPEC,
    speeds_of,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.out_together import budget
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import most_per, most_unavailable
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.plan import options as plan_options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.expression import JMESPathMissing

Doc = dict[str, Any]
_QUOTA: Doc = {
    "name": {"type": "str", "required": True},
    "vms": {"type": "list", "elements": "str", "required": True},
    "why": {"type": "str", "default": ""},
}
_BUDGET: Doc = {
    "name": {"type": "str", "required": True},
    "vms": {"type": "list", "elements": "str", "required": True},
    "at_once": {"type": "int", "default": 1},
    "stops_only": {"type": "bool", "default": False},
    "never": {"type": "str", "default": ""},
    "left": {"type": "int"},
}
# How VMs are treated, of any roll.
POLICY: Doc = {
    "platform": {"type": "str", "choices": list(SPEEDS), "default": "libvirt"},
    "max_unavailable": {"type": "str", "default": "1"},
    "max_unavailable_per": {"type": "dict", "default": {}},
    "move_back": {"type": "bool", "default": False},
    "speeds": SPEEDS_SPEC,
    "budgets": {"type": "list", "elements": "dict", "default": [], "options": _BUDGET},
    "quotas": {"type": "list", "elements": "dict", "default": [], "options": _QUOTA},
    **options.POLICY_SPEC,
}
SPEC: Doc = {
    "hosts": {"type": "list", "elements": "dict", "required": True},
    "vms": {"type": "list", "elements": "dict", "required": True},
    "roll": {"type": "list", "elements": "str", "required": True},
    "dest": {"type": "path"},
    **POLICY,
}
# What a plan cannot be made of.
FAULTS = (PolicyError, JMESPathMissing)


def plan_of(given: Mapping[str, Any], groups: Mapping[str, Mapping[str, str]]) -> Doc:
    """The plan in result form. `given`: options of SPEC. `groups`: of hosts, by the inventory. Raises FAULTS."""
    kubevirt = given["platform"] == "kubevirt"
    policy = options.policy(given)
    # Of as many a share is meant in the roll.
    fleet = sum(yes("runs_vms of a host", host.get("runs_vms", True)) for host in given["hosts"])
    if kubevirt:
        plan_options.check(given)
        policy = plan_options.policy(policy)
    request = request_of(
        given["hosts"],
        given["vms"],
        given["roll"],
        policy,
        budget(most_unavailable("max_unavailable", given["max_unavailable"]), fleet),
        speeds_of(given["speeds"], SPEEDS[given["platform"]]),
        given["budgets"],
        given["speeds"],
        given["quotas"],
        Platform(given["platform"]),
        most_per("max_unavailable_per", given["max_unavailable_per"]),
        groups,
        given["move_back"],
    )
    plan = plan_roll(request).to_dict()
    plan["warnings"] += strange_names(request, given["speeds"])
    plan["warnings"] += plan_options.warnings(policy) if kubevirt else []
    plan["targets"] = "predicted" if kubevirt else "chosen"
    return plan


def write(plan: Mapping[str, Any], dest: str, check: bool) -> bool:
    """Whole or not at all. True: it is, or would be, another one than before. Raises OSError, ValueError."""
    path, text = Path(dest), json.dumps(plan, indent=2, sort_keys=True) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    if not check:
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
    return True


__all__ = ["FAULTS", "POLICY", "SPEC", "plan_of", "write"]
