"""Options of the KubeVirt modules: argument specs, and the core's objects made of them."""

from __future__ import annotations

import getpass
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core.model.observation import EvictionStrategy, OnNotMigratable
from .._core.model.policy import OPTIONS_SPEC, Limits, Policy, PolicyError, Rule
from .._policy.rules import HOOKS, UNKNOWN_ANSWERS, compile_rules
from .api.metrics import Source, source_of
from .pods.filters import PodOptions

# What a restore does with migrations that run.
ABORT_SPEC: dict[str, Any] = {"abort": {"type": "str", "choices": ["now", "finish"], "default": "now"}}
RUN_SPEC: dict[str, Any] = {
    "run_id": {"type": "str"},
    "requester": {"type": "str", "default": ""},
    "reason": {"type": "str", "default": ""},
}
SLICE_SPEC: dict[str, Any] = {"slice": {"type": "int", "default": 15}, "begun": {"type": "bool", "default": False}}
ON_NOT_MIGRATABLE = ["block", "shutdown", "skip"]
# What a rule does not set is left to the next in line, so nothing has a default.
RULE_SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "when": {"type": "str"},
    "strategy": {"type": "str", "choices": [s.value for s in EvictionStrategy]},
    "on_not_migratable": {"type": "str", "choices": ON_NOT_MIGRATABLE},
    "allow_stop": {"type": "bool"},
    "allow_older_hypervisor": {"type": "bool"},  # in rules for both platforms; here nothing refuses it
    "priority": {"type": "int"},
    "migration": {"type": "dict"},
    "hooks": {"type": "dict", "options": {hook: {"type": "str"} for hook in HOOKS}},
    "unknown": {"type": "str", "choices": list(UNKNOWN_ANSWERS)},
}
# What becomes of each VM and pod.
POLICY_SPEC: dict[str, Any] = {
    "on_not_migratable": {"type": "str", "choices": ON_NOT_MIGRATABLE, "default": "block"},
    "allow_stop": {"type": "bool", "default": False},
    "rules": {"type": "list", "elements": "dict", "default": [], "options": RULE_SPEC},
    "pods": {
        "type": "dict",
        "default": {},
        "options": {
            "selector": {"type": "str", "default": ""},
            "ignore_daemonsets": {"type": "bool", "default": True},
            "delete_emptydir_data": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "grace_period": {"type": "int", "default": -1},
            "disable_eviction": {"type": "bool", "default": False},
            "skip_wait_for_delete_timeout": {"type": "int", "default": 0},
        },
    },
}
# What to make of single codes of the preflight.
SEVERITY_SPEC: dict[str, Any] = {"severity": {"type": "dict", "default": {}}}
# How long a guest has to stop, and what then.
STOP_SPEC: dict[str, Any] = {
    "force_stop": {"type": "bool", "default": False},
    "shutdown_timeout": {"type": "float", "default": 300.0},
}
# How it goes while it lasts. What only looks once does not ask for it.
RUN_LIMITS_SPEC: dict[str, Any] = {
    "limits": {"type": "dict", "default": {}, "options": {"outbound": {"type": "int"}}},
    **OPTIONS_SPEC,
}
# KubeVirt's migration controller queues by its own limits; how many are asked for is for `turns`.
_ALL = 10**6
_KUBEVIRTS = Limits(_ALL, _ALL, _ALL)
# Fields of the document that only a VirtualMachine can tell.
_VIRTUAL_MACHINE_FIELDS = ("run_strategy", "autostart")


def policy(params: Mapping[str, Any]) -> Policy:
    """The policy. Raises PolicyError naming what is wrong, in a rule too."""
    names = ("allow_stop", *STOP_SPEC, *OPTIONS_SPEC)
    outbound = (params.get("limits") or {}).get("outbound")
    return Policy(
        rules=rules(params.get("rules")),
        on_not_migratable=OnNotMigratable(params["on_not_migratable"]),
        limits=_KUBEVIRTS if outbound is None else Limits(_ALL, outbound, _ALL),
        let_finish=params.get("abort") == "finish",
        **{name: params[name] for name in names if name in params},
    )


def rules(raw: Any) -> tuple[Rule, ...]:
    """KubeVirt chooses the settings of a migration. So a rule's `migration` is only compared with
    what applies (drain/unsupported.py), and nothing of a run counts on it. Raises PolicyError."""
    return tuple(replace(rule, migration=None) for rule in compile_rules(raw))


def needs_virtual_machines(params: Mapping[str, Any]) -> bool:
    """Must the VirtualMachines be read, because a rule asks for what only they tell?"""
    texts = [rule.get("when") or "" for rule in params.get("rules") or []]
    return any(word in text for text in texts for word in _VIRTUAL_MACHINE_FIELDS)


def metrics(params: Mapping[str, Any], always: bool) -> Source | None:
    """The source of dirty rates; none if only rules would use them and no rule does.

    Raises PolicyError.
    """
    source = source_of(params.get("metrics"))
    texts = [rule.get("when") or "" for rule in params.get("rules") or []]
    return source if always or any("dirty_rate" in text for text in texts) else None


def pods(params: Mapping[str, Any]) -> PodOptions:
    """The option `pods` (flags of kubectl drain for the other pods) as PodOptions. Raises PolicyError."""
    given = {key: value for key, value in (params.get("pods") or {}).items() if value is not None}
    if given.get("grace_period", -1) < -1:
        raise PolicyError(f"pods.grace_period is {given['grace_period']}: expected seconds, or -1 for each pod's own")
    return PodOptions(**given)


def run_id(params: Mapping[str, Any]) -> str:
    """The run's id: given, or made of the time and a random part."""
    return params.get("run_id") or f"{int(time.time())}-{secrets.token_hex(3)}"


def requester(params: Mapping[str, Any]) -> str:
    """The requester: as given, or the user of this process."""
    if params.get("requester"):
        return str(params["requester"])
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
