"""Rules as data: what they do, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.strategy import Choice, Way, choose
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    EvictionStrategy,
    OnNotMigratable,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Hooks,
    MigrationSettings,
    Policy,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._policy import expression, rules
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.rules import RuleError, compile_rules

DOCUMENT: dict[str, Any] = {
    "name": "db-1",
    "labels": {"tier": "gold"},
    "eviction_strategy": None,
    "dirty_rate": None,
    "memory_mib": 4096,
}


def rule(name: str = "one", when: str | None = "labels.tier == 'gold'", **more: Any) -> dict:
    return {"name": name, "when": when, **more}


def chosen(raw: list[dict], migratable: bool = True, **policy: Any) -> Choice:
    vm = VM("u", "db-1", "a", migratable=migratable, document=DOCUMENT)
    return choose(vm, Policy(rules=compile_rules(raw), **policy))


def test_everything_that_a_rule_can_say() -> None:
    (made,) = compile_rules(
        [
            rule(
                strategy="None",
                on_not_migratable="save",
                allow_stop=True,
                priority=7,
                migration={
                    "bandwidth": 100,
                    "post_copy": True,
                    "compression": ["mt"],
                    "on_timeout": "post_copy",
                    "progress_timeout": 9,
                },
                hooks={"before": "out.yml", "after": None},
                unknown="next",
            )
        ],
        MigrationSettings(tls=True, progress_timeout=150),
    )
    assert made.strategy is EvictionStrategy.NONE
    assert made.on_not_migratable is OnNotMigratable.SAVE
    assert made.allow_stop is True
    assert made.priority == 7
    assert made.hooks == Hooks(before="out.yml")
    assert made.migration == MigrationSettings(
        bandwidth_mib=100,
        post_copy=True,
        tls=True,  # from the task: the rule does not say
        compression=("mt",),
        progress_timeout=9,
        on_timeout="post_copy",
    )
    assert made.when(DOCUMENT) is True


def test_what_a_rule_does_not_say_is_left_to_the_next() -> None:
    (made,) = compile_rules([rule(strategy=None, migration=None)])
    said = (made.strategy, made.on_not_migratable, made.allow_stop, made.priority, made.migration)
    assert said == (None,) * 5


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("volumes[::0]", "the step of a slice cannot be 0"),
        (" || ".join(["memory_mib > `5`"] * 400), "nested too deeply"),
        ("(" * 3000 + "autostart" + ")" * 3000, "nested too deeply"),
    ],
)
def test_what_would_only_fail_on_a_vm_is_told_before(when: str, words: str) -> None:
    with pytest.raises(RuleError, match=words):
        compile_rules([rule("odd", when, strategy="None")])


@pytest.mark.parametrize(("given", "meant"), [("yes", True), ("False", False), (False, False)])
def test_text_from_a_template_is_understood(given: Any, meant: bool) -> None:
    (other,) = compile_rules([rule(allow_older_hypervisor=given)])
    assert other.allow_older_hypervisor is bool(meant)
    (made,) = compile_rules([rule(allow_stop=given, priority="-3")])
    assert (made.allow_stop, made.priority) == (meant, -3)


def test_the_first_match_decides_and_the_last_may_match_all() -> None:
    raw = [
        rule("silver", "labels.tier == 'silver'", strategy="External"),
        rule("gold", strategy="None", allow_stop=True),
        rule("rest", None, strategy="External"),
    ]
    assert chosen(raw).decided_by == "rule gold"
    assert chosen(raw).way is Way.SHUTDOWN
    assert chosen([raw[0], raw[2]]).decided_by == "rule rest"


@pytest.mark.parametrize(
    ("unknown", "way", "decided_by"),
    [
        (None, Way.BLOCK, "rule hot"),
        ("block", Way.BLOCK, "rule hot"),
        ("match", Way.EXTERNAL, "rule hot"),
        ("next", Way.SHUTDOWN, "rule gold"),
    ],
)
def test_what_cannot_be_told_blocks_unless_the_rule_says_otherwise(
    unknown: str | None, way: Way, decided_by: str
) -> None:
    raw = [
        rule("hot", "dirty_rate > `100`", strategy="External", unknown=unknown),
        rule("gold", strategy="None", allow_stop=True),
    ]
    choice = chosen(raw)
    assert (choice.way, choice.decided_by) == (way, decided_by)
    if way is Way.BLOCK:
        (finding,) = choice.findings
        assert finding.reason is Reason.Undecided
        assert "'hot'" in finding.message
        assert finding.message.endswith(": dirty_rate.")


def test_a_changed_document_is_read_anew() -> None:
    (made,) = compile_rules([rule()])
    assert made.when(DOCUMENT) is True
    assert made.when({**DOCUMENT, "labels": {}}) is False
    assert made.when(DOCUMENT) is True


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"name": "x"}, "rules must be a list of rules, not dict"),
        ("x", "rules must be a list"),
        (["x"], r"rules\[0\]: it must be a mapping"),
        ([{"when": "name"}], r"rules\[0\], name: a rule needs one"),
        ([rule(strateg="None")], r"rules\[0\] \(one\): there is no key 'strateg'; did you mean"),
        ([rule(hooks=[])], r"\(one\), hooks: it must be a mapping, not list"),
        ([rule(hooks={})], r"\(one\), hooks: it is empty: expected before or after"),
        ([rule(hooks={"before": None})], r"hooks: it is empty"),
        ([rule(hooks={"befor": "x.yml"})], r"hooks: there is no key 'befor'; did you mean before"),
        ([rule(hooks={"during": "x.yml"})], r"no key 'during'; known keys are before, after"),
        ([rule(hooks={"before": 5})], r"hooks\.before: it is the path of a task file, not 5"),
        ([rule(hooks={"after": ["x.yml"]})], r"hooks\.after: it is the path of a task file"),
        ([rule(hooks={"after": " "})], r"hooks\.after: it is the path of a task file, not ' '"),
        ([rule(hook=[])], "no key 'hook'; did you mean hooks"),
        ([rule(xyz=[])], "no key 'xyz'; known keys are name, when"),
        ([rule(strategy="Livemigrate")], r"\(one\), strategy: .*did you mean LiveMigrate"),
        ([rule(on_not_migratable="stop")], "on_not_migratable: it is one of block"),
        ([rule(unknown=True)], "unknown: it is one of block, match, next, not True"),
        ([rule(allow_stop="perhaps")], "allow_stop: it is true or false"),
        ([rule(priority="high")], "priority: it is a whole number"),
        ([rule(priority=True)], "priority: it is a whole number"),
        ([rule(migration=["x"])], "migration: it must be a mapping"),
        ([rule(migration={"allow_postcopy": True})], "no key 'allow_postcopy'; did you mean"),
        (
            [rule(migration={"parallel": 2, "parallel_connections": 3})],
            "parallel_connections is given under two names with different values",
        ),
        ([rule(migration={"tls": "x"})], r"migration\.tls: it is true or false"),
        ([rule(migration={"bandwidth": "x"})], r"migration\.bandwidth: it is a whole number"),
        ([rule(migration={"compression": ["zip"]})], r"migration\.compression: it is one of mt"),
        ([rule(migration={"on_timeout": "wait"})], r"migration\.on_timeout: it is one of abort"),
        ([rule(migration={"on_timeout": "post_copy"})], r"rules\[0\] \(one\): .*post_copy=true"),
        ([rule(migration={"progress_timeout": 0})], "progress_timeout must be 1"),
        ([rule(when=True)], r"\(one\), when: true decides nothing"),
        ([rule(when=5)], "when: it must be JMESPath"),
        ([rule(when="")], "when: it is empty"),
        ([rule(when="labels.tier = 'x'")], r"rules\[0\] \(one\), when: .* at column"),
        ([rule(when="labels.tier == `5`")], r"\(one\), when: .*never equal"),
        ([rule(when="memory_gib > `5`")], "when: there is no field memory_gib"),
        ([rule(when=None, unknown="next")], "unknown: it needs a `when`"),
        ([rule(), rule()], r"rules\[1\] \(one\), name: rules\[0\] \(one\) has the same"),
        (
            [rule("one", None), rule("two")],
            r"rules\[1\] \(two\): it is never reached: rules\[0\] \(one\) has no `when`",
        ),
        (
            [rule("one", "name=='x'"), rule("two", " name  == 'x' ")],
            r"rules\[1\] \(two\), when: it is never reached: rules\[0\] \(one\) has the same condition",
        ),
    ],
)
def test_a_wrong_rule_is_named_with_the_place(raw: Any, words: str) -> None:
    with pytest.raises(RuleError, match=words):
        compile_rules(raw)


@pytest.mark.parametrize("raw", [None, "", [], ()])
def test_no_rules(raw: Any) -> None:
    assert compile_rules(raw) == ()


def test_the_library_is_needed_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression, "jmespath", None)
    assert len(compile_rules([rule(when=None, strategy="None")])) == 1
    with pytest.raises(expression.JMESPathMissing, match="python3-jmespath"):
        compile_rules([rule()])


def test_a_document_is_marked_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain asks every rule about every VM again and again."""
    marked = []
    plain = rules.mark

    def counting(document: Any) -> Any:
        marked.append(document)
        return plain(document)

    monkeypatch.setattr(rules, "mark", counting)
    made = compile_rules([rule("a", "labels.tier == 'x'"), rule("b", "labels.tier == 'y'")])
    for one in made:
        assert one.when(DOCUMENT) is False
    assert len(marked) == 1


def test_settings_may_have_the_other_word() -> None:
    """Ansible leaves an alias, as it was written, beside the name that it is for."""
    (made,) = compile_rules([rule(migration={"allow_post_copy": "yes", "post_copy": True})])
    assert made.migration == MigrationSettings(post_copy=True)
    assert made.asked == {"post_copy": True}
    (made,) = compile_rules([rule(migration={"parallel": 4})])
    assert made.migration == MigrationSettings(parallel_connections=4)
    assert made.asked == {"parallel_connections": 4}
