"""Options: bad input is one clear error that names the thing."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    MigrationSettings,
    PolicyError,
    slice_seconds,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._policy import rules, settings


def params(**changed: Any) -> dict[str, Any]:
    specs = {**options.HOSTS_SPEC, **options.POLICY_SPEC, **options.RUN_SPEC}
    return {name: spec.get("default") for name, spec in specs.items()} | {"node": "host-a"} | changed


def peer(name: str, uri: str = "qemu+tls://x/system") -> dict[str, Any]:
    return {
        "name": name,
        "uri": uri,
        "migrate_uri": "",
        "memory": 0,
        "reserve": 0,
        "roll_rank": None,
        "roll_done": False,
    }


def test_defaults_make_a_policy() -> None:
    policy = options.policy(params())
    assert policy.limits == Limits(cluster=5, outbound=2, inbound=2)
    assert not policy.allow_stop
    assert policy.migration.progress_timeout == 150


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"limits": {"cluster": 0, "outbound": 2, "inbound": 2}}, "limits.cluster"),
        ({"limits": {"cluster": 5, "outbound": 0, "inbound": 2}}, "limits.outbound"),
        ({"limits": {"cluster": 5, "outbound": 2, "inbound": 0}}, "limits.inbound"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"migration": {"parallel_connections": 2, "compression": ["mt"]}}, "compression=mt"),
        ({"migration": {"parallel_connections": 2, "post_copy": True}}, "post_copy cannot be combined"),
        ({"drain_timeout": 0}, "drain_timeout"),
        ({"drain_timeout": float("nan")}, "drain_timeout"),
        ({"pending_timeout": float("inf")}, "pending_timeout"),
        ({"migration": {"parallel_connections": 256}}, "parallel_connections must be 255 or less"),
        ({"migration": {"bandwidth": -1}}, "migration.bandwidth must be 0 or more"),
        ({"backoff": -5.0}, "backoff must be 0 seconds or more"),
        ({"external_timeout": -1.0}, "external_timeout"),
        ({"unknown_timeout": -1.0}, "unknown_timeout"),
        ({"rules": [{"name": "r", "when": "vcpu > `1`"}]}, r"rules\[0\] \(r\), when: .*vcpus"),
    ],
)
def test_bad_policy_is_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        options.policy(params(**changed))


def test_rules_and_settings_are_in_the_options_words() -> None:
    made = options.policy(
        params(
            migration={"bandwidth": 50, "tls": True, "max_downtime_ms": 800},
            rules=[{"name": "r", "when": "autostart", "migration": {"bandwidth": 9}}],
        )
    )
    assert (made.migration.bandwidth_mib, made.migration.max_downtime_ms) == (50, 800)
    (rule,) = made.rules
    assert rule.migration is not None
    assert (rule.migration.bandwidth_mib, rule.migration.tls) == (9, True)


def test_what_the_options_take_is_what_rules_take() -> None:
    """A setting that only one of the two knows would be dropped or refused without a word."""
    words = {*settings.BOOLEANS, *settings.NUMBERS, *settings.CHOICES, "compression"}
    assert set(options.MIGRATION_SPEC) == set(options.RULE_SPEC["migration"]["options"]) == words
    assert set(options.RULE_SPEC) == set(rules.KEYS)
    core = {settings.WORDS.get(word, word) for word in words}
    assert core == {field.name for field in dataclasses.fields(MigrationSettings)}
    given = {name: spec["default"] for name, spec in options.MIGRATION_SPEC.items()}
    assert settings.migration_settings(given) == MigrationSettings()


@pytest.mark.parametrize(
    ("given_as", "value", "wanted"),
    [
        ("allow_post_copy", "yes", MigrationSettings(post_copy=True)),
        ("parallel", "4", MigrationSettings(parallel_connections=4)),
    ],
)
def test_settings_may_have_the_other_word(given_as: str, value: str, wanted: MigrationSettings) -> None:
    given = {given_as: value}
    spec = {"migration": {"type": "dict", "options": options.MIGRATION_SPEC}, "rules": options.POLICY_SPEC["rules"]}
    rule = {"name": "r", "when": "autostart", "migration": given}
    checked = ArgumentSpecValidator(spec).validate({"migration": given, "rules": [rule]})
    assert not checked.error_messages
    made = options.policy(params(**checked.validated_parameters))
    assert made.migration == made.rules[0].migration == wanted


@pytest.mark.parametrize(
    ("peers", "words"),
    [
        ([peer("host-a")], "the host itself"),
        ([peer("host-b"), peer("host-b")], "twice"),
        ([peer("host-b", "")], "has no uri"),
        ([peer("host-b", "x://b"), peer("host-c", "x://b")], "host-b and host-c are the same host \\(URI x://b"),
        ([peer("")], "peers\\[\\].name is ''"),
        ([peer("fd00::2")], "fd00::2.*expected"),
        ([peer("host b")], "host b.*URI"),
        ([peer("host-b") | {"memory": -1}], "memory of host-b is -1.*0 or more"),
        ([peer("host-b") | {"reserve": -5}], "reserve of host-b is -5"),
    ],
)
def test_bad_peers_are_named(peers: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        options.peer_configs(params(peers=peers))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"node": "fd00::1"}, "node is 'fd00::1'.*expected"),
        ({"memory": -1}, "memory is -1"),
        ({"reserve": -1}, "reserve is -1"),
        ({"taints": ["db"]}, "taints has 'db'"),
        ({"uri": ""}, "uri is empty"),
        ({"shared_paths": ["/srv", ""]}, "shared_paths names ''.*absolute"),
    ],
)
def test_what_is_wrong_with_the_own_host_is_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        options.own_config(params(**changed))


def test_a_host_that_takes_vms_itself_is_described_as_a_peer_is() -> None:
    """The one that judges in a recovery: VMs were started on it as if it had no reserve and no taint."""
    about = {"reserve": 16, "labels": {"disk": "ssd"}, "taints": ["dedicated=db:NoSchedule"]}
    (as_peer,) = options.peer_configs(params(peers=[peer("host-b") | about]))
    own = options.own_config(params(node="host-b", **about))
    names = ("reserve_mib", "labels", "taints")
    assert [getattr(own, name) for name in names] == [getattr(as_peer, name) for name in names]
    assert own.taints and set(about) == set(options.TARGET_SPEC)


def test_a_slice_lasts_a_second_or_more() -> None:
    assert slice_seconds(1) == 1.0
    for value in (0, -5):
        with pytest.raises(PolicyError, match="slice must be 1 second or more"):
            slice_seconds(value)
