# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables that the user gave: known by name, and of the kind that is expected."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    PolicyError,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.options import (
    most_unavailable,
)

ROLES = Path(__file__).resolve().parents[2] / "roles"
OURS = re.compile(r"(maintenance|drain|preflight|restore|plan|rules)_")
OWN = "maintenance_own_variables"
# Those of the playbooks and the inventory. The roles' own stand in their argument specs.
SHARED: dict[str, dict[str, Any]] = {
    "maintenance_anti_affinity": {"type": "str", "choices": ["preferred", "required"]},
    "maintenance_api_host": {"type": "str"},
    "maintenance_budgets": {"type": "list"},
    "maintenance_count_others": {"type": "bool"},
    "maintenance_dirty_rates": {"type": "dict"},
    "maintenance_fleet": {"type": "list"},
    "maintenance_health_retries": {"type": "int"},
    "maintenance_hosts": {"type": "raw"},
    "maintenance_labels": {"type": "dict"},
    "maintenance_link_mib_s": {"type": "float", "positive": True},
    "maintenance_max_failures": {"type": "int"},
    "maintenance_max_unavailable": {"type": "share"},
    "maintenance_measure_dirty_rate": {"type": "int"},
    "maintenance_memory": {"type": "int"},
    "maintenance_metrics": {"type": "dict"},
    "maintenance_migrate_uri": {"type": "str"},
    OWN: {"type": "list"},
    "maintenance_peer_uri": {"type": "str"},
    "maintenance_placement_profile": {
        "type": "str",
        "choices": ["LowNodeUtilization", "HighNodeUtilization", "NoScoring"],
    },
    "maintenance_plan_file": {"type": "str"},
    "maintenance_platform": {"type": "str", "choices": ["libvirt", "kubevirt"]},
    "maintenance_pods": {"type": "dict"},
    "maintenance_preflight_fail_on": {
        "type": "str",
        "choices": ["blockers", "node_blockers", "nothing"],
    },
    "maintenance_preflight_severity": {"type": "dict"},
    "maintenance_reason": {"type": "str"},
    "maintenance_reboot": {"type": "bool"},
    "maintenance_reboot_timeout": {"type": "int", "positive": True},
    "maintenance_requester": {"type": "str"},
    "maintenance_reserve": {"type": "int"},
    "maintenance_rules": {"type": "list"},
    "maintenance_run_id": {"type": "str"},
    "maintenance_shared_paths": {"type": "list"},
    "maintenance_slots_on": {"type": "str"},
    "maintenance_speeds": {"type": "dict"},
    "maintenance_status_file": {"type": "str"},
    "maintenance_taints": {"type": "list"},
    "maintenance_take_over": {"type": "bool"},
    "maintenance_tasks": {"type": "str"},
    "maintenance_uri": {"type": "str"},
    "maintenance_working_sets": {"type": "dict"},
}
# Set by our roles and playbooks; there when a run has more than one of them.
INTERNAL = frozenset(
    (
        "drain_hooks_were_run",
        "drain_plan",
        "drain_predicted",
        "drain_result",
        "maintenance_drained",
        "maintenance_hook",
        "maintenance_not_restored",
        "maintenance_rebooted",
        "maintenance_restored",
        "maintenance_roll",
        "maintenance_roll_order",
        "maintenance_roll_rebooting",
        "maintenance_status",
        "maintenance_turn",
        "plan_cluster",
        "plan_found",
        "plan_host",
        "plan_result",
        "preflight_result",
        "restore_hooks_were_run",
        "restore_result",
        "rules_host_devices",
        "rules_memory_writers",
        "rules_nearly_stateless",
        "rules_shared_storage",
    )
)
SECRET = ("_metrics",)  # has a token
# What the filter `bool` understands as the roles do. It takes anything else for false.
BOOLEANS = ("true", "false", "yes", "no", "on", "off", "1", "0")


def known() -> dict[str, dict[str, Any]]:
    """Name -> its type and choices, from the roles' argument specs and SHARED."""
    found = dict(SHARED)
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        for spec in specs.values():
            found.update(spec.get("options", {}))
    return found


def faults(given: Iterable[str], value: Callable[[str], Any]) -> list[str]:
    """One sentence for each variable that is not ours, or not as it must be.

    `value` raises LookupError for one whose value is not known yet.
    """
    specs = known()
    names = sorted(name for name in given if OURS.match(name) and name not in INTERNAL)
    own = _own(names, value)
    found = []
    for name in names:
        if name not in specs:
            if name not in own:
                found.append(_unknown(name, specs))
            continue
        try:
            wanted = _expected(value(name), specs[name])
        except LookupError:
            continue  # it builds on what a role has; the role checks it
        if wanted:
            shown = "not shown" if name.endswith(SECRET) else repr(value(name))
            found.append(f"{name} is {shown}: expected is {wanted}.")
    return found


def _own(names: list[str], value: Callable[[str], Any]) -> list[str]:
    """The user's own, as far as that list is one: what else it is gets told."""
    try:
        own = value(OWN) if OWN in names else []
    except LookupError:
        return []
    return own if isinstance(own, list) else []


def _unknown(name: str, specs: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, [*specs], 1)
    hint = f"did you mean {near[0]}? If" if near else "if"
    return f"{name} is no variable of this collection; {hint} it is your own, add it to {OWN}."


def _expected(value: Any, spec: Mapping[str, Any]) -> str:
    """What is expected instead, or ''. None is as good as not given."""
    if value is None:
        return ""
    check = _KINDS.get(str(spec.get("type")))
    wanted = check(value) if check else ""
    choices = spec.get("choices")
    if not wanted and choices and str(value) not in [str(choice) for choice in choices]:
        wanted = "one of " + ", ".join(str(choice) for choice in choices)
    if not wanted and spec.get("positive") and float(value) <= 0:
        wanted = "a number above 0"
    return wanted


def _bool(value: Any) -> str:
    good = isinstance(value, bool) or str(value).lower() in BOOLEANS
    return "" if good else "true or false"


def _int(value: Any) -> str:
    try:
        good = not isinstance(value, bool) and float(int(value)) == float(value)
    except (TypeError, ValueError, OverflowError):
        good = False
    return "" if good else "a whole number, without a unit"


def _float(value: Any) -> str:
    try:
        good = not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError):
        good = False
    return "" if good else "a number, without a unit"


def _list(value: Any) -> str:
    good = isinstance(value, (list, tuple))
    return "" if good else "a list; as an extra var give all of them as JSON: -e '{\"...\": [...]}'"


def _dict(value: Any) -> str:
    good = isinstance(value, Mapping)
    return "" if good else "a dict; as an extra var give all of them as JSON: -e '{\"...\": {...}}'"


def _str(value: Any) -> str:
    return "one text" if isinstance(value, (list, tuple, Mapping)) else ""


def _share(value: Any) -> str:
    try:
        most_unavailable(str(value))
    except PolicyError:
        return "a number of hosts above 0, or a share such as 20%"
    return ""


_KINDS = {
    "bool": _bool,
    "dict": _dict,
    "float": _float,
    "int": _int,
    "list": _list,
    "path": _str,
    "share": _share,
    "str": _str,
}
