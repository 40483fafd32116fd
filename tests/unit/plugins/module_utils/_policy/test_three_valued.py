"""Three answers: sound with nulls, and JMESPath's own without."""

from __future__ import annotations

import copy
from typing import Any

import jmespath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._policy.expression import (
    ExpressionError,
    compile_expression,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.three_valued import mark, truth

METHODS = ("LiveMigration", "BlockMigration")
LEAVES = (
    "migratable",
    "agent_connected",
    "autostart",
    "host_devices",
    "labels.app",
    "labels.none",
    "dirty_rate > `50`",
    "dirty_rate <= `50`",
    "dirty_rate == `50`",
    "memory_mib >= `1024`",
    "dirty_rate < memory_mib",
    "migration_method == 'BlockMigration'",
    "migration_method != 'BlockMigration'",
    "labels.app == 'web'",
    "labels.none != 'web'",
    "anti_affinity_group == 'web'",
    "contains(reasons, 'SnapshotsPresent')",
    "starts_with(name, 'db')",
    "volumes[?shared]",
    "volumes[?!shared && read_only]",
    "volumes[?shared].target",
    "volumes[?shared == `false`].target | [0] == 'vda'",
    "volumes[?shared] | [?read_only]",
    "volumes[?shared || read_only][].target",
    "contains(volumes[*].shared, `true`)",
    "contains(volumes[?shared].target, 'vda')",
    "length(volumes) > `1`",
    "length(volumes[?shared]) > `0`",
    "length(volumes[*].shared) == `2`",
    "volumes[0].shared",
    "volumes[-1].shared == `false`",
    "volumes[:1].shared | [0]",
    "[migratable, autostart] == [autostart, migratable]",
    "{a: migratable}.a",
    "max([dirty_rate, memory_mib]) > `60`",
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda a: f"!({a})"),
        pair.map(lambda p: f"({p[0]}) && ({p[1]})"),
        pair.map(lambda p: f"({p[0]}) || ({p[1]})"),
        pair.map(lambda p: f"(({p[0]}) == ({p[1]}))"),
        pair.map(lambda p: f"(({p[0]}) != ({p[1]}))"),
    )


EXPRESSIONS = st.recursive(st.sampled_from(LEAVES), _grow, max_leaves=6)
VOLUMES = st.lists(
    st.fixed_dictionaries(
        {
            "target": st.sampled_from(["vda", "vdb"]),
            "kind": st.just("file"),
            "device": st.just("disk"),
            "source": st.just("/a"),
            "format": st.just("raw"),
            "shared": st.booleans(),
            "read_only": st.booleans(),
        }
    ),
    max_size=3,
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["db-1", "web-1"]),
        "namespace": st.none(),
        "uuid": st.just("u"),
        "node": st.just("host-a"),
        "labels": st.sampled_from([{}, {"app": "web"}, {"app": "db"}]),
        "annotations": st.just({}),
        "owner": st.none(),
        "anti_affinity_group": st.sampled_from(["", "web"]),
        "eviction_strategy": st.none(),
        "memory_mib": st.sampled_from([60, 1024]),
        "vcpus": st.just(2),
        "migratable": st.booleans(),
        "reasons": st.sampled_from([[], ["SnapshotsPresent"]]),
        "migration_method": st.sampled_from(METHODS),
        "volumes": VOLUMES,
        "networks": st.just([]),
        "host_devices": st.sampled_from([[], [{"kind": "pci", "source": "x"}]]),
        "launch_security": st.none(),
        "autostart": st.booleans(),
        "run_strategy": st.none(),
        "persistent": st.just(True),
        "agent_connected": st.booleans(),
        "dirty_rate": st.sampled_from([10, 50, 90]),
    }
)
HIDEABLE = ("migratable", "agent_connected", "dirty_rate", "migration_method")
MANY = settings(max_examples=400)


def answer(text: str, document: Any) -> bool | None:
    return compile_expression(text).answer(mark(document))


def naive(text: str, document: Any) -> bool | None:
    return truth(jmespath.search(text, document))


def compiles(text: str) -> bool:
    """A random one may compare a thing with itself, or a list with a boolean: refused."""
    try:
        compile_expression(text)
    except ExpressionError:
        return False
    return True


@MANY
@given(EXPRESSIONS.filter(compiles), DOCUMENTS)
def test_without_nulls_it_is_jmespath(text: str, document: dict[str, Any]) -> None:
    assert answer(text, document) is naive(text, document)


@MANY
@given(EXPRESSIONS.filter(compiles), DOCUMENTS, st.data())
def test_what_is_told_holds_whatever_the_nulls_are(text: str, document: dict[str, Any], data: st.DataObject) -> None:
    """Hide values, ask; then any values in their places must give JMESPath the same answer."""
    hidden = copy.deepcopy(document)
    for name in data.draw(st.sets(st.sampled_from(HIDEABLE))):
        hidden[name] = None
    for volume in hidden["volumes"]:
        if data.draw(st.booleans()):
            volume["shared"] = None
    told = answer(text, hidden)
    if told is not None:
        assert told is naive(text, document)


@MANY
@given(st.sampled_from(LEAVES), DOCUMENTS)
def test_kleene(leaf: str, document: dict[str, Any]) -> None:
    """A half that decides is enough, on either side."""
    document["migratable"] = None
    told = answer(leaf, document)
    assert answer(f"migratable && ({leaf})", document) is (False if told is False else None)
    assert answer(f"({leaf}) || migratable", document) is (True if told else None)
    assert answer("!migratable", document) is None


BASE: dict[str, Any] = {
    "name": "db-1",
    "labels": {"app": "web", "size": "12", "odd": "x"},
    "eviction_strategy": None,
    "dirty_rate": None,
    "migratable": None,
    "volumes": [{"target": "vda", "shared": None}, {"target": "vdb", "shared": True}],
}


@pytest.mark.parametrize(
    ("text", "told", "lacks"),
    [
        ("dirty_rate > `100`", None, "dirty_rate"),
        ("dirty_rate == `100`", None, "dirty_rate"),
        ("dirty_rate != `100`", None, "dirty_rate"),
        ("!migratable", None, "migratable"),
        ("dirty_rate > `100` && migratable", None, "dirty_rate, migratable"),
        ("dirty_rate > `100` || labels.app == 'web'", True, None),
        ("dirty_rate > `100` && labels.app == 'db'", False, None),
        # Both ways of asking whether it is known
        ("dirty_rate == `null`", True, None),
        ("dirty_rate != `null`", False, None),
        ("`null` != dirty_rate", False, None),
        # A default is given by name only
        ("not_null(dirty_rate, `0`) > `100`", False, None),
        ("(dirty_rate || `500`) > `100`", None, "dirty_rate"),
        # Null that means: there is none
        ("eviction_strategy == 'None'", False, None),
        ("labels.gone == 'web'", False, None),
        ("labels.gone != 'web'", True, None),
        ("starts_with(labels.gone, 'w')", False, None),
        ("length(labels.gone) > `3`", None, "length(labels.gone)"),
        ("to_number(labels.size) > `3`", True, None),
        ("to_number(labels.gone) > `3`", None, "to_number(labels.gone)"),
        ("to_number(labels.odd) > `3`", None, "to_number(labels.odd)"),
        # Lists of which a part is known
        ("volumes[?shared]", True, None),
        ("volumes[?!shared]", None, "volumes[].shared"),
        ("volumes[?shared && target == 'vdz']", False, None),
        ("contains(volumes[*].shared, `true`)", True, None),
        ("contains(volumes[*].shared, `false`)", None, "volumes[].shared"),
        ("length(volumes) == `2`", True, None),
        # Left out altogether: the VM's definition could not be read
        ("vcpus > `1`", None, "vcpus"),
        ("annotations.a == 'b'", None, "annotations.a"),
        ("owner == 'x'", None, "owner"),
    ],
)
def test_answer(text: str, told: bool | None, lacks: str | None) -> None:
    expression = compile_expression(text)
    marked = mark(BASE)
    assert expression.answer(marked) is told
    if lacks is not None:
        assert ", ".join(expression.lacks(marked)) == lacks


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("name ==", "not JMESPath"),
        ("name 'x'", "column 6"),
        ("memori_mib > `5`", "did you mean memory_mib"),
        ("volumes[?sharde]", "did you mean shared"),
        ("volumes.shared", r"\[\].shared"),
        ("name.first == 'x'", "no fields"),
        ("labels[?app]", "for a list"),
        ("!volumes[?shared]", r"a boolean for a list; ! applies to the next word only, write !\(...\)"),
        ("name[0] == 'x'", "for a list"),
        ("memory_mib == '4096'", "a number with a string"),
        ("migratable == 'true'", "a boolean with a string"),
        ("volumes == 'vda'", "a list with a string"),
        ("name > 'a'", "only numbers have an order"),
        ("labels.size > `5`", "only numbers have an order"),
        ("memory_mib > '5'", "only numbers have an order"),
        ("eviction_strategy == 'Livemigrate'", "did you mean 'LiveMigrate'"),
        ("'Block' == migration_method", "never 'Block'"),
        ("contains(reasons, `5`)", "searches for a number"),
        ("starts_with(vcpus, '1')", r"starts_with\(\) takes a string"),
        ("lenght(volumes) > `1`", r"did you mean length\(\)"),
        ("sort_by(volumes, &target)", "is not a function that rules can use"),
        ("zzz == 'x'", "no field zzz here, only name, namespace"),
        ("length(name, name) > `1`", "takes 1 arguments, not 2"),
        ("`true`", "same for every VM"),
        ("length('x') > `0`", "same for every VM"),
        ("true", "write `true`"),
        ("labels.app == null", "write `null`"),
        ("migratable || `true`", "decides nothing"),
        ("volumes[?`true`]", "decides nothing"),
        ("memory_mib", "always true"),
        ("@", "always true"),
        ("name == name", "with itself"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, words: str) -> None:
    with pytest.raises(ExpressionError, match=words):
        compile_expression(text)
