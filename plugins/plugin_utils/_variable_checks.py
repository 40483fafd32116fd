"""The variables that the user gave: known by name, and of the kind that is expected."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy, PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options as kubevirt
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import METRICS_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.plugin_utils._kinds import CONTAINERS, KINDS, number, whole
from ansible_collections.virtops.maintenance.plugins.plugin_utils._rules import check_hooks, check_rules

ROLES = Path(__file__).resolve().parents[2] / "roles"
OURS = re.compile(r"(maintenance|drain|preflight|restore|plan|rules)_")
OWN = "maintenance_own_variables"
# Those of the playbooks and the inventory. The roles' own stand in their argument specs.
SHARED: dict[str, dict[str, Any]] = {
    "maintenance_abort": {"type": "str", "choices": ["now", "finish"]},
    "maintenance_anti_affinity": {"type": "str", "choices": ["preferred", "required"]},
    "maintenance_api_host": {"type": "str"},
    "maintenance_checks": {"type": "str"},
    "maintenance_count_others": {"type": "bool"},
    "maintenance_dirty_rates": {"type": "dict", "values": "float"},
    "maintenance_confirm_off": {"type": "str"},
    "maintenance_fence": {"type": "dict"},
    "maintenance_fence_from": {"type": "str"},
    "maintenance_fence_tasks": {"type": "str"},
    "maintenance_fleet": {"type": "list"},
    "maintenance_guard": {"type": "bool"},
    "maintenance_hosts": {"type": "raw"},
    "maintenance_labels": {"type": "dict"},
    "maintenance_link_mib_s": {"type": "float", "positive": True},
    "maintenance_max_failures": {"type": "int"},
    "maintenance_max_unavailable": {"type": "share"},
    "maintenance_max_unavailable_per": {"type": "dict", "values": "count"},
    "maintenance_measure_dirty_rate": {"type": "int"},
    "maintenance_memory": {"type": "int"},
    "maintenance_metrics": {"type": "dict"},
    "maintenance_migrate_uri": {"type": "str"},
    "maintenance_move_back": {"type": "bool", "extra": True},
    "maintenance_on_dead": {"type": "str", "choices": ["tell", "recover"]},
    "maintenance_notify": {"type": "str", "extra": True},
    OWN: {"type": "list"},
    "maintenance_pause_after": {"type": "str"},
    "maintenance_peer_uri": {"type": "str"},
    "maintenance_placement_profile": {"type": "str", "choices": ["LowNodeUtilization", "HighNodeUtilization"]},
    "maintenance_plan_file": {"type": "file"},
    "maintenance_platform": {"type": "str", "choices": ["libvirt", "kubevirt"]},
    "maintenance_pods": {"type": "dict"},
    "maintenance_preflight_fail_on": {"type": "str", "choices": ["blockers", "node_blockers", "nothing"]},
    "maintenance_preflight_severity": {"type": "dict"},
    "maintenance_reason": {"type": "str"},
    "maintenance_reboot": {"type": "reboot"},
    "maintenance_reboot_timeout": {"type": "int", "positive": True},
    "maintenance_report": {"type": "folder"},
    "maintenance_requester": {"type": "str"},
    "maintenance_reserve": {"type": "int"},
    "maintenance_rules": {"type": "list", "elements": "dict"},
    "maintenance_run_id": {"type": "str"},
    "maintenance_shared_paths": {"type": "list"},
    "maintenance_soak": {"type": "duration"},
    "maintenance_speeds": {"type": "dict"},
    "maintenance_start_manual": {"type": "bool"},
    "maintenance_stays_off": {"type": "bool"},
    "maintenance_status_file": {"type": "file"},
    "maintenance_taints": {"type": "list"},
    "maintenance_take_over": {"type": "bool"},
    "maintenance_tasks": {"type": "str"},
    "maintenance_textfile": {"type": "file", "needs": "maintenance_report"},
    "maintenance_until": {"type": "time"},
    "maintenance_uri": {"type": "str"},
    "maintenance_working_sets": {"type": "dict", "values": "float"},
}
# Set by our roles and playbooks; there when a run has more than one of them.
INTERNAL = frozenset(
    (
        "drain_hooks_were_run",
        "drain_info",
        "drain_predicted",
        "drain_result",
        "maintenance_aborted",
        "maintenance_back",
        "maintenance_drain_stats",
        "maintenance_drained",
        "maintenance_event",
        "maintenance_hook",
        "maintenance_not_restored",
        "maintenance_out",
        "maintenance_plan_stats",
        "maintenance_preflight",
        "maintenance_reboot_asked",
        "maintenance_rebooted",
        "maintenance_restored",
        "maintenance_looked",
        "maintenance_reached",
        "maintenance_off",
        "maintenance_recovered",
        "maintenance_roll",
        "maintenance_roll_order",
        "maintenance_recovery_stats",
        "maintenance_roll_stats",
        "maintenance_status",
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
SECRET = ("_metrics", "_fence")  # has a token, or a password
# Of a role's own variables that hide a shared one those that may be an empty text.
EMPTY = ("_plan_file", "_reason", "_requester", "_run_id")
# Of hosts, which must be in the inventory.
HOSTS = ("_fleet", "_roll")
LIMITS = ("cluster", "outbound", "inbound")
# Options that have keys.
NESTED: dict[str, Collection[str]] = {
    "migration": options.MIGRATION_SPEC,
    "limits": LIMITS,
    "pods": kubevirt.POLICY_SPEC["pods"]["options"],
    "metrics": METRICS_SPEC["options"],
    "fence": ("agent", "options", "timeout"),
    "rules": options.RULE_SPEC,
}
_EVERYWHERE = frozenset(("name", "options", "timeout"))  # by themselves they say nothing


@functools.cache
def known() -> dict[str, dict[str, Any]]:
    """Name -> its type and choices, from the roles' argument specs and SHARED."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is ten times as fast
    found = dict(SHARED)
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        text = path.read_text(encoding="utf-8")
        specs = yaml.load(text, loader)["argument_specs"]  # noqa: S506
        for spec in specs.values():
            found.update(spec.get("options", {}))
    # Raw in the specs, or Ansible would name the role's variable, which the user did not give.
    found |= {f"{role}_memory": SHARED["maintenance_memory"] for role in ("drain", "plan", "preflight", "restore")}
    found["plan_max_unavailable"] = SHARED["maintenance_max_unavailable"]
    return found


def faults(
    given: Iterable[str],
    value: Callable[[str], Any],
    hosts: Collection[str] | None = None,
    loader: DataLoader | None = None,
    hooks: bool = False,
) -> list[str]:
    """One sentence for each variable that is not ours, or not as it must be.

    `value` raises LookupError for one whose value is not known yet. `hosts`: all of the inventory.
    `loader`: knows the extra vars. `hooks`: those of rules are run, so it reads their task files.
    """
    specs = known()
    names = [name for name in given if OURS.match(name) and name not in INTERNAL]
    own = _own(names, value)
    found, wrong = _cut(loader), []
    # A role's own variable has its value from a shared one, and that is the one to be named.
    for name in sorted(names, key=lambda name: (name not in SHARED, name)):
        if name not in specs:
            if name not in own:
                found.append(_unknown(name, specs))
            continue
        try:
            here = value(name)
        except LookupError:
            continue  # it builds on what a role has; the role checks it
        text = _fault(name, here, specs[name], hosts, loader if hooks else None)
        text = text or (_place(name, specs[name], loader, names) if here else "")
        if text and here not in wrong:
            wrong.append(here)
            found.append(text)
    return found


def _cut(loader: DataLoader | None) -> list[str]:
    """A fault where Ansible has cut the value of an extra var at a blank, and made the rest no variable's."""
    rest = "" if loader is None else load_extra_vars(loader).get("_raw_params", "")
    how = """-e 'maintenance_reason="new DIMMs"'"""
    return (
        [f"-e has '{rest}', which belongs to no variable: a value ends at a space. Quote it twice: {how}."]
        if rest
        else []
    )


def unknown(given: Iterable[str]) -> list[str]:
    """A sentence for each of these names that looks like ours and is not: what did you mean?"""
    specs = known()
    return [_unknown(name, specs) for name in given if OURS.match(name) and name not in {*specs, *INTERNAL}]


def _own(names: list[str], value: Callable[[str], Any]) -> list[str]:
    """The user's own, as far as that list is one: what else it is gets told."""
    try:
        own = value(OWN) if OWN in names else []
    except LookupError:
        return []
    return own if isinstance(own, list) else []


def _unknown(name: str, specs: Iterable[str]) -> str:
    # All begin alike: what comes after that is compared.
    tails = {spec.partition("_")[2]: spec for spec in specs if spec.partition("_")[0] == name.partition("_")[0]}
    near = difflib.get_close_matches(name.partition("_")[2], tails, 1)
    hint = f"did you mean {tails[near[0]]}? If" if near else "if"
    nested = _nested(name, specs)
    hint = f"it is a key of {nested}. If" if nested else hint
    return f"{name} is not a variable of this collection; {hint} it is your own, add it to {OWN}."


def _nested(name: str, specs: Iterable[str]) -> str:
    """The variable of which it is a key, with how that is written; empty: none."""
    role, _line, tail = name.partition("_")
    for option, keys in NESTED.items():
        key = tail.removeprefix(f"{option}_")
        if key in keys and (tail != key or key not in _EVERYWHERE):
            wanted = next(
                full for full in (f"{prefix}_{option}" for prefix in (role, "drain", "maintenance")) if full in specs
            )
            one = f'{{"{key}": ...}}'
            return f"{wanted}, -e '{{\"{wanted}\": {f'[{one}]' if option == 'rules' else one}}}'"
    return ""


def _fault(
    name: str, value: Any, spec: Mapping[str, Any], hosts: Collection[str] | None, loader: DataLoader | None
) -> str:
    """The sentence, or ''. An empty text, as surveys give it, is as good as not given. What YAML has without a value is
    not: Ansible calls it defined, and gives it in place of a default."""
    if value is None:
        none = {"list": ", [] for none", "dict": ", {} for none"}.get(str(spec.get("type")), "")
        return f"{name} is empty: give it a value{none}, or leave it out."
    if value == "" and spec.get("type") not in ("list", "dict"):  # a survey gives neither
        shared = "maintenance_" + name.partition("_")[2]
        hides = name not in SHARED and shared in SHARED and not name.endswith(EMPTY)
        return f"{name} is '': expected a value; give {shared} instead." if hides else ""
    hidden = name.endswith(SECRET)
    shown = "not shown" if hidden else repr(value)
    wanted = _expected(value, spec)
    if wanted in CONTAINERS:
        written = _written(name, None if hidden else value, wanted)
        wanted += f"; as an extra var: -e '{written}'"
    if not wanted and name.endswith("_limits"):
        wanted = _limits(value)
    if not wanted and hosts is not None and name.endswith(HOSTS):
        named = [value] if isinstance(value, str) else value
        strange = [one for one in named if one not in hosts]
        wanted = f"names of the inventory, which does not have {strange[0]}" if strange else ""
    if wanted:
        return f"{name} is {shown}: expected {wanted}."
    if name.endswith("_rules"):
        return _rules(name, value, loader)
    return _policy(name, value)


def _place(name: str, spec: Mapping[str, Any], loader: DataLoader | None, names: Collection[str]) -> str:
    """One that is set without what it needs, or where it comes too late: when the playbook has been read."""
    if spec.get("needs") and spec["needs"] not in names:
        return f"{name} needs {spec['needs']}, from which it is built: set both."
    if not spec.get("extra") or loader is None or name in load_extra_vars(loader):
        return ""
    return f"{name} is set in the inventory, where it has no effect: expected an extra var, -e {name}=..."


def _policy(name: str, value: Any) -> str:
    """The fault of a number that the policy of a drain refuses; '': there is none, or it is no number of the policy."""
    field = name.removeprefix("drain_")
    if field == name or not isinstance(getattr(Policy, field, None), (int, float)):
        return ""
    kind = type(getattr(Policy, field))
    if kind is bool:
        return ""
    try:
        Policy(**{field: kind(value)})
    except PolicyError as exc:
        return f"{name} is {value!r}: {exc}."
    return ""


def _rules(name: str, value: Any, loader: DataLoader | None) -> str:
    """The first thing that is wrong with the rules, or with the task files that they name."""
    try:
        check_rules({"rules": value})
        if loader is not None:
            check_hooks({"rules": value}, loader)
    except AnsibleActionFail as exc:
        text = str(exc).removesuffix(" Nothing was done.")
        return f"{name}: {text}" if text.endswith((".", "?")) else f"{name}: {text}."
    return ""


def _written(name: str, value: Any, kind: str) -> str:
    """How it is given as JSON: the value itself where it is one in a text."""
    wanted = CONTAINERS[kind]
    try:
        found = json.loads(value)
    except (TypeError, ValueError):
        found = value.split(",") if wanted is list and value and isinstance(value, str) else None
    if not isinstance(found, wanted):
        return f'{{"{name}": ' + ("[...]}" if wanted is list else "{...}}")
    return json.dumps({name: found})


def _expected(value: Any, spec: Mapping[str, Any]) -> str:
    """Return what the variable must be instead; '': its value is right."""
    kind = str(spec.get("type"))
    wanted = KINDS[kind](value) if kind in KINDS else ""
    choices = spec.get("choices")
    if not wanted and choices and str(value) not in [str(choice) for choice in choices]:
        wanted = "one of " + ", ".join(str(choice) for choice in choices)
    if not wanted and kind in ("int", "float"):
        wanted = _least(float(value), bool(spec.get("positive")))
    if not wanted and spec.get("elements") == "dict":
        wanted = "" if all(isinstance(one, Mapping) for one in value) else "a list of dicts"
    if not wanted and "values" in spec:
        wanted = _values(value, spec["values"])
    return wanted


def _least(value: float, positive: bool) -> str:
    if value > 0 or (value == 0 and not positive):
        return ""
    return "a number above 0" if positive else "0 or more"


def _values(value: Mapping[str, Any], kind: str) -> str:
    if kind == "count":
        wrong = [key for key, one in value.items() if whole(one) or int(one) < 1]
        return f"a number of hosts above 0 for {wrong[0]}" if wrong else ""
    wrong = [key for key, one in value.items() if number(one) or float(one) < 0]
    return f"a number, without a unit, for {wrong[0]}" if wrong else ""


def _limits(value: Mapping[str, Any]) -> str:
    strange = [str(key) for key in value if key not in LIMITS]
    good = not strange and all(not whole(one) and int(one) > 0 for one in value.values())
    without = f", and not {strange[0]}" if strange else ""
    return "" if good else f"a dict with some of {', '.join(LIMITS)}, each 1 or more{without}"
