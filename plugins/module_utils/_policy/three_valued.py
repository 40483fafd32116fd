"""JMESPath with three answers: yes, no, and not known.

Works on jmespath's syntax tree. A value that is not known stays `Unknown` on its way through
the expression, until something decides without it: `a || b` is true where b is true, whatever a
is. In JMESPath itself null is simply false, and so is every comparison with it.

The answer is sound: whatever the unknown values turn out to be, JMESPath would answer the same.
The one function that names a default, not_null(), uses it instead.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .schema import DOCUMENT, NONE_IF_NULL, Kind

Node = Mapping[str, Any]
Call = Callable[[str, list[Any]], Any]


class Unknown:
    """A value that is not known. truth: whether it counts as true, where that much is known."""

    def __init__(self, names: Iterable[str], truth: bool | None = None) -> None:
        self.names = frozenset(names)
        self.truth = truth


class Partial(list):  # type: ignore[type-arg]
    """The items that are in the list for sure; there may be more, in any place."""

    def __init__(self, items: Iterable[Any], names: Iterable[str]) -> None:
        super().__init__(items)
        self.names = frozenset(names)


class CallError(Exception):
    """A function cannot do with the values that it was given."""


def mark(value: Any, kind: Kind = DOCUMENT, path: str = "") -> Any:
    """The document with `Unknown` wherever null or a missing field means that."""
    if value is None:
        return Unknown((path or "the document",))
    if kind.name == "object" and isinstance(value, Mapping):
        marked = {}
        for name, field in kind.fields.items():
            inner = value.get(name)
            none = name in value and inner is None and field.null == NONE_IF_NULL
            marked[name] = None if none else mark(inner, field.kind, _join(path, name))
        return marked
    if kind.name == "mapping" and isinstance(value, Mapping):
        return dict(value)  # what is not there is known not to be there
    if kind.name == "array" and isinstance(value, (list, tuple)) and kind.items is not None:
        return [mark(item, kind.items, f"{path}[]") for item in value]
    return value


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def names_of(value: Any) -> frozenset[str]:
    """Names of everything unknown in it."""
    if isinstance(value, Unknown):
        return value.names
    found: frozenset[str] = value.names if isinstance(value, Partial) else frozenset()
    if isinstance(value, list):
        return found.union(*(names_of(item) for item in value))
    if isinstance(value, dict):
        return found.union(*(names_of(item) for item in value.values()))
    return found


def truth(value: Any) -> bool | None:
    """JMESPath's truth; None: not known."""
    if isinstance(value, Unknown):
        return value.truth
    if isinstance(value, Partial):
        return True if value else None
    return not (value is None or value is False or value in ("", [], {}))


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}
# Of a text or list that is known not to be there, these are simply not true.
_SEARCHES = ("contains", "starts_with", "ends_with")


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(left: Any, right: Any) -> bool:
    """Equality as in JSON: 1 is not true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


class Evaluator:
    """Evaluates syntax trees. `call` runs a JMESPath function on known values."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._kinds: dict[str, Callable[[Node, Any], Any]] = {
            "field": self._field,
            "subexpression": self._chain,
            "index_expression": self._chain,
            "pipe": self._chain,
            "index": self._index,
            "slice": self._slice,
            "current": lambda _node, value: value,
            "identity": lambda _node, value: value,
            "literal": lambda node, _value: node["value"],
            "comparator": self._compare,
            "and_expression": self._and,
            "or_expression": self._or,
            "not_expression": self._not,
            "projection": self._projection,
            "value_projection": self._value_projection,
            "filter_projection": self._filter,
            "flatten": self._flatten,
            "multi_select_list": self._select_list,
            "multi_select_dict": self._select_dict,
            "key_val_pair": lambda node, value: self.value(node["children"][0], value),
            "function_expression": self._function,
        }

    def value(self, node: Node, value: Any) -> Any:
        return self._kinds[node["type"]](node, value)

    def _both(self, node: Node, value: Any) -> tuple[Any, Any]:
        first, second = node["children"]
        return self.value(first, value), self.value(second, value)

    # Paths

    def _field(self, node: Node, value: Any) -> Any:
        if isinstance(value, Unknown):
            return Unknown(_join(name, node["value"]) for name in value.names)
        return value.get(node["value"]) if isinstance(value, dict) else None

    def _chain(self, node: Node, value: Any) -> Any:
        for child in node["children"]:
            value = self.value(child, value)
        return value

    def _index(self, node: Node, value: Any) -> Any:
        if isinstance(value, (Unknown, Partial)):
            return Unknown(value.names)
        if not isinstance(value, list):
            return None
        place = node["value"]
        return value[place] if -len(value) <= place < len(value) else None

    def _slice(self, node: Node, value: Any) -> Any:
        if isinstance(value, (Unknown, Partial)):
            return Unknown(value.names)
        return value[slice(*node["children"])] if isinstance(value, list) else None

    # Lists

    def _collect(self, node: Node, base: Any, items: Iterable[Any]) -> Any:
        found = [self.value(node, item) for item in items]
        kept = [item for item in found if item is not None]
        return Partial(kept, base.names) if isinstance(base, Partial) else kept

    def _projection(self, node: Node, value: Any) -> Any:
        left, right = node["children"]
        base = self.value(left, value)
        if isinstance(base, Unknown):
            return Unknown(base.names)
        return self._collect(right, base, base) if isinstance(base, list) else None

    def _value_projection(self, node: Node, value: Any) -> Any:
        left, right = node["children"]
        base = self.value(left, value)
        if isinstance(base, Unknown):
            return Unknown(base.names)
        return self._collect(right, base, base.values()) if isinstance(base, dict) else None

    def _filter(self, node: Node, value: Any) -> Any:
        left, right, condition = node["children"]
        base = self.value(left, value)
        if isinstance(base, Unknown):
            return Unknown(base.names)
        if not isinstance(base, list):
            return None
        sure, names = [], set(base.names if isinstance(base, Partial) else ())
        perhaps = isinstance(base, Partial)
        for item in base:
            answer = self.value(condition, item)
            reported = truth(answer)
            if reported is None:
                perhaps = True
                names |= names_of(answer)
            elif reported:
                sure.append(item)
        return self._collect(right, Partial(sure, names) if perhaps else sure, sure)

    def _flatten(self, node: Node, value: Any) -> Any:
        base = self.value(node["children"][0], value)
        if isinstance(base, Unknown):
            return Unknown(base.names)
        if not isinstance(base, list):
            return None
        names = set(base.names if isinstance(base, Partial) else ())
        perhaps = isinstance(base, Partial)
        merged: list[Any] = []
        for item in base:
            if isinstance(item, (Unknown, Partial)):
                perhaps = True
                names |= item.names
            if isinstance(item, list):
                merged.extend(item)
            elif not isinstance(item, Unknown):
                merged.append(item)
        return Partial(merged, names) if perhaps else merged

    def _select_list(self, node: Node, value: Any) -> Any:
        return None if value is None else [self.value(c, value) for c in node["children"]]

    def _select_dict(self, node: Node, value: Any) -> Any:
        if value is None:
            return None
        return {child["value"]: self.value(child, value) for child in node["children"]}

    # Logic

    def _compare(self, node: Node, value: Any) -> Any:
        left, right = self._both(node, value)
        if node["value"] in _ORDER:
            return self._order(node, left, right)
        names = names_of(left) | names_of(right)
        for this, other in zip((left, right), reversed(node["children"])):
            # Who asks for null asks whether it is known, and that is known.
            if isinstance(this, Unknown) and _is_null(other):
                return node["value"] == "eq"
        if names:
            return Unknown(names)
        return _same(left, right) == (node["value"] == "eq")

    def _order(self, node: Node, left: Any, right: Any) -> Any:
        if is_number(left) and is_number(right):
            return _ORDER[node["value"]](left, right)
        texts = (show(c) for c, v in zip(node["children"], (left, right)) if not is_number(v))
        return Unknown(names_of(left) | names_of(right) or texts)

    def _and(self, node: Node, value: Any) -> Any:
        left, right = self._both(node, value)
        reported = truth(left)
        if reported is None:
            if truth(right) is False:
                return Unknown(names_of(left), False)
            return Unknown(names_of(left) | (names_of(right) if truth(right) is None else set()))
        return right if reported else left

    def _or(self, node: Node, value: Any) -> Any:
        left, right = self._both(node, value)
        reported = truth(left)
        if reported is None:
            if truth(right) is True:
                return Unknown(names_of(left), True)
            return Unknown(names_of(left) | (names_of(right) if truth(right) is None else set()))
        return left if reported else right

    def _not(self, node: Node, value: Any) -> Any:
        inner = self.value(node["children"][0], value)
        reported = truth(inner)
        return Unknown(names_of(inner)) if reported is None else not reported

    # Functions

    def _function(self, node: Node, value: Any) -> Any:
        name = node["value"]
        args = [self.value(child, value) for child in node["children"]]
        if name == "not_null":
            return next((a for a in args if a is not None and not isinstance(a, Unknown)), None)
        if name in _SEARCHES and args[0] is None:
            return False
        if name == "contains" and isinstance(args[0], list):
            return _contains(*args)
        if name == "length" and isinstance(args[0], list) and not isinstance(args[0], Partial):
            return len(args[0])
        names = frozenset().union(*(names_of(arg) for arg in args))
        if names:
            return Unknown(names)
        try:
            return self._call(name, args)
        except CallError:
            return Unknown((show(node),))


def _contains(items: list[Any], wanted: Any) -> Any:
    """Is it in the list? A sure hit is one, whatever the others are."""
    names = names_of(items) | names_of(wanted)
    if not names_of(wanted) and any(not names_of(i) and _same(i, wanted) for i in items):
        return True
    return Unknown(names) if names else False


def _is_null(node: Node) -> bool:
    return bool(node["type"] == "literal" and node["value"] is None)


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def show(node: Node) -> str:
    """A part of an expression in words, for messages."""
    kind, children = node["type"], node["children"]
    if kind == "field":
        return str(node["value"])
    if kind == "literal":
        value = node["value"]
        return repr(value) if isinstance(value, str) else f"`{json.dumps(value)}`"
    if kind == "subexpression":
        return ".".join(show(child) for child in children)
    if kind == "comparator":
        return f"{show(children[0])} {_SIGNS[node['value']]} {show(children[1])}"
    if kind == "function_expression":
        return f"{node['value']}({', '.join(show(child) for child in children)})"
    if kind in ("projection", "filter_projection", "value_projection", "flatten"):
        return f"{show(children[0])}[]"
    if kind == "not_expression":
        return f"!{show(children[0])}"
    if kind == "current":
        return "@"
    return str(kind).replace("_", " ")
