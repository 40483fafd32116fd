"""Every option of a KubeVirt module changes what the module asks for. None is there for nothing."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.action.kubevirt_drain import NOT_OF_A_PREFLIGHT
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options as libvirt
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.rules import KEYS

PLUGINS = "ansible_collections.virtops.maintenance.plugins"
# What a module hands its request to.
ASKS = {
    "kubevirt_drain": ("run_slice", "plan"),
    "kubevirt_node_info": ("read_node",),
    "kubevirt_preflight": ("preflight",),
    "kubevirt_migration": ("run_migration", "plan_migration"),
    "kubevirt_migration_info": ("waiting",),
    "kubevirt_eviction_strategy": ("declare",),
    "kubevirt_fleet_info": ("read_fleet",),
}
# Two values of an option, where its type does not give them.
BASE = {"run_id": "r1", "requester": "me", "strategy": "None", "name": ["vm"]}
OTHER: dict[str, Any] = {
    "limits": {"outbound": 1},
    "pods": {"force": True},
    "rules": [{"name": "all", "strategy": "None"}],
    "severity": {"ClockSkew": "ignore"},
    "added_node_selector": {"zone": "east"},
    "speeds": {"link": 1},
    "metrics": {"url": "https://metrics"},
    "label_selectors": ["tier=db"],
    "hooks_done": [{"uuid": "u", "hook": "before"}],
}


def test_rules_of_libvirt_hosts_are_taken_here() -> None:
    """An inventory of both platforms has one list of them."""
    assert set(options.RULE_SPEC) == set(libvirt.RULE_SPEC) == set(KEYS)


class Done(Exception):
    """The module has asked."""


def option(spec: dict[str, Any], name: str) -> Any:
    """Another value than the one in BASE, or the default."""
    now = BASE.get(name, spec.get("default"))
    if name in OTHER:
        return OTHER[name]
    if "choices" in spec:
        return next(choice for choice in spec["choices"] if choice != now)
    if spec["type"] == "bool":
        return not now
    return {"int": 7, "float": 7.5, "str": "another", "list": ["another"]}[spec["type"]]


def asked(module: Any, name: str, check: bool, monkeypatch: Any, given: dict[str, Any]) -> Any:
    """What the module would ask for, and its argument spec."""
    found: dict[str, Any] = {}

    class Fake:
        """AnsibleModule, as far as it is used before the request."""

        check_mode, _diff = check, False

        def debug(self, _text: str) -> None:
            return

        def __init__(self, argument_spec: dict[str, Any], **_more: Any) -> None:
            found["spec"] = argument_spec
            self.no_log_values: set[str] = set()
            self.params = {key: spec.get("default") for key, spec in argument_spec.items()}
            known = {k: v for k, v in BASE.items() if k in argument_spec}
            if argument_spec.get("name", {}).get("type") == "str":
                known["name"] = "vm"
            self.params.update({"node": "n1"} if "node" in argument_spec else {})
            self.params.update({**known, **given})

        def fail_json(self, msg: str, **_more: Any) -> None:
            raise AssertionError(msg)

    def ask(*request: Any) -> None:
        found["asked"] = request
        raise Done

    monkeypatch.setattr(module, "AnsibleModule", Fake)
    for function in ASKS[name]:
        monkeypatch.setattr(module, function, ask)
    with pytest.raises(Done):
        module.main()
    return found


@pytest.mark.parametrize("name", ASKS)
def test_every_option_changes_what_is_asked_for(name: str, monkeypatch: Any) -> None:
    module = importlib.import_module(f"{PLUGINS}.modules.{name}")
    plain = {c: asked(module, name, c, monkeypatch, {}) for c in (False, True)}
    for key, spec in plain[False]["spec"].items():
        if key in AUTH_SPEC or (key == "metrics" and "rules" in plain[False]["spec"]):
            continue
        if (name, key) == ("kubevirt_drain", "severity"):  # its action's, for the preflight beside check mode
            continue
        given = {key: option(spec, key)}
        told = {c: asked(module, name, c, monkeypatch, given) for c in (False, True)}
        assert any(told[c]["asked"] != plain[c]["asked"] for c in told), f"{key} has no effect"


def test_the_preflight_beside_check_mode_is_given_all_that_it_takes(monkeypatch: Any) -> None:
    specs = {}
    for name in ("kubevirt_drain", "kubevirt_preflight"):
        specs[name] = set(
            asked(importlib.import_module(f"{PLUGINS}.modules.{name}"), name, True, monkeypatch, {})["spec"]
        )
    assert specs["kubevirt_drain"] - NOT_OF_A_PREFLIGHT == specs["kubevirt_preflight"]


@pytest.mark.parametrize("name", ["kubevirt_drain", "kubevirt_node_info", "kubevirt_preflight"])
def test_metrics_are_asked_for_where_a_rule_wants_them(name: str, monkeypatch: Any) -> None:
    module = importlib.import_module(f"{PLUGINS}.modules.{name}")
    rules = [{"name": "busy", "when": "dirty_rate > `100`", "strategy": "None"}]
    given = {"metrics": OTHER["metrics"], "rules": rules}
    request = asked(module, name, False, monkeypatch, given)["asked"][0]
    assert request.metrics.url == "https://metrics"


@pytest.mark.parametrize("name", ["kubevirt_node_info", "kubevirt_preflight"])
def test_what_looks_once_is_not_asked_for_what_lasts(name: str, monkeypatch: Any) -> None:
    """Deadlines, attempts, limits, who asks: read there, they would change nothing."""
    module = importlib.import_module(f"{PLUGINS}.modules.{name}")
    spec = asked(module, name, False, monkeypatch, {})["spec"]
    lasting = {*options.RUN_LIMITS_SPEC, *options.RUN_SPEC, *options.SLICE_SPEC, "lock_namespace"}
    assert not lasting & set(spec)
