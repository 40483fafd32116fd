"""Is an expression about the VM's document one that can be true and can be false?

JMESPath answers null for whatever does not fit, so a misspelt field is an expression that is
never true. Here each is an error that names the place.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .schema import ANY, BOOLEAN, DOCUMENT, NULL, NUMBER, STRING, Field, Kind, array
from .three_valued import Node, show


class ExpressionError(ValueError):
    """An expression that cannot mean what was meant."""


_LISTS = ("projection", "filter_projection")
# What each function returns. Those that take an expression (&x) are left out.
_RETURNS: dict[str, Callable[[list[Kind]], Kind]] = {
    **dict.fromkeys(("abs", "avg", "ceil", "floor", "length", "sum", "to_number"), lambda _args: NUMBER),
    **dict.fromkeys(("contains", "starts_with", "ends_with"), lambda _args: BOOLEAN),
    **dict.fromkeys(("join", "to_string", "type"), lambda _args: STRING),
    **dict.fromkeys(("reverse", "sort"), lambda args: args[0]),
    **dict.fromkeys(("max", "min"), lambda args: args[0].items or ANY),
    **dict.fromkeys(("to_array", "values"), lambda _args: array(ANY)),
    "keys": lambda _args: array(STRING),
    "merge": lambda _args: ANY,
    "not_null": lambda args: _common([arg for arg in args if arg.name != "null"]),
}
# (what each argument may be, whether the last one may come more than once)
_TAKES: dict[str, tuple[tuple[tuple[str, ...], ...], bool]] = {
    **dict.fromkeys(("abs", "ceil", "floor"), ((("number",),), False)),
    **dict.fromkeys(("avg", "sum", "max", "min", "sort"), ((("array",),), False)),
    **dict.fromkeys(("to_array", "to_string", "to_number", "type"), (((),), False)),
    **dict.fromkeys(("starts_with", "ends_with"), ((("string",), ("string",)), False)),
    **dict.fromkeys(("keys", "values"), ((("object", "mapping"),), False)),
    "contains": ((("array", "string"), ()), False),
    "length": ((("array", "string", "object", "mapping"),), False),
    "reverse": ((("array", "string"),), False),
    "join": ((("string",), ("array",)), False),
    "merge": ((("object", "mapping"),), True),
    "not_null": (((),), True),
}


def check(tree: Node) -> None:
    """Raises ExpressionError."""
    if not _asks(tree):
        raise ExpressionError(
            f"{show(tree)} is the same for every VM; omit `when` in the last rule to match all VMs that are left"
        )
    _no_literal(tree)
    kind = Checker().kind(tree, DOCUMENT)
    if kind.name in ("number", "object"):
        raise ExpressionError(f"{show(tree)} is {kind.text}, which is always true; compare it")


def _asks(node: Node) -> bool:
    """Does the answer hang on the document at all?"""
    return node["type"] in ("field", "current") or any(_asks(c) for c in _inner(node))


def _inner(node: Node) -> list[Node]:
    return [child for child in node["children"] if isinstance(child, Mapping)]


def _no_literal(node: Node) -> None:
    """A literal that stands where a question should."""
    if node["type"] == "literal":
        raise ExpressionError(f"{show(node)} decides nothing: its answer is always the same")
    if node["type"] in ("and_expression", "or_expression", "not_expression"):
        for child in node["children"]:
            _no_literal(child)


def _common(kinds: Iterable[Kind]) -> Kind:
    """The kind that all have, as far as it is known."""
    known = [kind for kind in kinds if kind.name != "null"]
    same = known and all(kind.name == known[0].name for kind in known)
    return known[0] if same else ANY


class Checker:
    """Finds the kind of each part; raises ExpressionError where the parts do not fit."""

    def kind(self, node: Node, base: Kind) -> Kind:
        name = node["type"]
        if name in _LISTS or name in ("flatten", "value_projection", "index", "slice"):
            return self._list(node, base)
        if name in ("subexpression", "index_expression", "pipe"):
            for child in node["children"]:
                base = self.kind(child, base)
            return base
        if name in ("current", "identity"):
            return base
        if name in ("and_expression", "or_expression"):
            return _common([self.kind(child, base) for child in node["children"]])
        if name == "multi_select_list":
            return array(_common([self.kind(child, base) for child in node["children"]]))
        if name == "multi_select_dict":
            fields = {c["value"]: Field(self.kind(c, base), "") for c in node["children"]}
            return Kind("object", fields=fields)
        if name == "key_val_pair":
            return self.kind(node["children"][0], base)
        if name == "not_expression":
            self.kind(node["children"][0], base)
            return BOOLEAN
        if name == "literal":
            return _literal_kind(node["value"])
        return {"field": self._field, "comparator": self._compare}.get(name, self._function)(node, base)

    def _field(self, node: Node, base: Kind) -> Kind:
        name = node["value"]
        if base.name == "object":
            if name not in base.fields:
                raise ExpressionError(_unknown_field(name, base))
            return base.fields[name].kind
        if base.name in ("any", "mapping"):
            return base.items or ANY
        if base.name == "array":
            raise ExpressionError(f"{name} is read from a list; read it from its items: [].{name}")
        raise ExpressionError(f"{name} is read from {base.text}, which has no fields")

    def _list(self, node: Node, base: Kind) -> Kind:
        name = node["type"]
        inside = self.kind(node["children"][0], base) if name not in ("index", "slice") else base
        wanted = ("object", "mapping") if name == "value_projection" else ("array",)
        if inside.name not in (*wanted, "any"):
            # JMESPath reads !a[?b] as (!a)[?b].
            hint = "; ! applies to the next word only, write !(...)" if inside is BOOLEAN else ""
            raise ExpressionError(f"{show(node)} takes {inside.text} for a list{hint}")
        items = inside.items or ANY
        if name == "index":
            return items
        if name == "slice" and node["children"][2] == 0:
            raise ExpressionError("the step of a slice cannot be 0")
        if name == "slice":
            return inside
        if name == "flatten":
            return array((items.items or ANY) if items.name == "array" else items)
        if name == "filter_projection":
            _no_literal(node["children"][2])
            self.kind(node["children"][2], items)
        return array(self.kind(node["children"][1], items))

    def _compare(self, node: Node, base: Kind) -> Kind:
        left, right = node["children"]
        if json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True):
            raise ExpressionError(f"{show(node)} compares a value with itself")
        kinds = [self.kind(left, base), self.kind(right, base)]
        if node["value"] in ("eq", "ne"):
            self._equal(node, kinds)
            for this, other in ((left, right), (right, left)):
                _check_choice(this, other, base)
            return BOOLEAN
        for part, kind in zip((left, right), kinds):
            if kind.name not in ("number", "any"):
                raise ExpressionError(f"{show(node)}: only numbers have an order, and {show(part)} is {kind.text}")
        return BOOLEAN

    @staticmethod
    def _equal(node: Node, kinds: list[Kind]) -> None:
        first, second = kinds
        mappings = {"object", "mapping"}
        if "any" in (first.name, second.name) or NULL.name in (first.name, second.name):
            return
        if first.name != second.name and not {first.name, second.name} <= mappings:
            raise ExpressionError(f"{show(node)} compares {first.text} with {second.text}: they are never equal")

    def _function(self, node: Node, base: Kind) -> Kind:
        name = node.get("value")
        if node["type"] != "function_expression" or name not in _TAKES:
            what = f"{name}()" if name else show(node)
            near = difflib.get_close_matches(str(name), _TAKES, 1)
            hint = f"; did you mean {near[0]}()?" if near else f": {', '.join(sorted(_TAKES))}"
            raise ExpressionError(f"{what} is not a function that rules can use{hint}")
        takes, repeats = _TAKES[name]
        given = len(node["children"])
        if given < len(takes) or (given > len(takes) and not repeats):
            raise ExpressionError(f"{name}() takes {len(takes)} arguments, not {given}")
        kinds = [self.kind(child, base) for child in node["children"]]
        for place, (part, kind) in enumerate(zip(node["children"], kinds)):
            allowed = takes[min(place, len(takes) - 1)]
            if allowed and kind.name not in (*allowed, "any"):
                wanted = " or ".join(Kind(a).text for a in allowed)
                raise ExpressionError(f"{name}() takes {wanted}; {show(part)} is {kind.text}")
        if name == "contains":
            self._contains(node, kinds)
        return _RETURNS[name](kinds)

    @staticmethod
    def _contains(node: Node, kinds: list[Kind]) -> None:
        where, wanted = kinds
        inside = STRING if where.name == "string" else (where.items or ANY)
        if "any" not in (where.name, inside.name, wanted.name) and inside.name != wanted.name:
            raise ExpressionError(f"{show(node)} searches for {wanted.text} where each item is {inside.text}")


def _check_choice(part: Node, other: Node, base: Kind) -> None:
    """A field of the document that has only certain values, compared with another one."""
    if part["type"] != "field" or other["type"] != "literal" or base is not DOCUMENT:
        return
    choices = base.fields[part["value"]].choices
    if choices and other["value"] is not None and other["value"] not in choices:
        near = difflib.get_close_matches(str(other["value"]), choices, 1, 0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ExpressionError(f"{part['value']} is never {other['value']!r}, but {', '.join(choices)}{hint}")


def _unknown_field(name: str, base: Kind) -> str:
    if name in ("true", "false", "null"):
        return f"{name} without backticks is a field of that name; write `{name}`"
    near = difflib.get_close_matches(name, base.fields, 1)
    hint = f"; did you mean {near[0]}?" if near else f", only {', '.join(base.fields)}"
    return f"there is no field {name} here{hint}"


def _literal_kind(value: Any) -> Kind:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, (int, float)):
        return NUMBER
    if isinstance(value, str):
        return STRING
    if isinstance(value, list):
        return array(_common([_literal_kind(item) for item in value]))
    return Kind("mapping", _common([_literal_kind(item) for item in value.values()]))
