"""What a test needs that a given cluster has not got, read in its source: said before anything is begun.

Followed are the functions of tests that it names, the methods of what its fixtures make, and what is given to it as
a parameter. What cannot be read there (a knob in `**more`) is found out while it runs, by kubesim.given.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .given import WORDS, Given, lacks, lacks_name, lacks_node, lacks_pod

OWN = "needs the simulator: the test starts one of its own"
# Of a cluster: what leads to it in tests, and what starts one.
_SIM, _STARTS = "sim", "Kubesim"


def needs(
    functions: Iterable[Any], params: Mapping[str, Any] | None = None, theirs: Collection[str] = frozenset()
) -> str:
    """Why these cannot run against a given cluster; empty: nothing is to be seen. `params`: the test's parameters,
    `theirs`: see Remote.theirs."""
    seen: set[Any] = set()
    left = [inspect.unwrap(function) for function in functions if function]
    made = [cls for function in left for cls in _classes(function)]
    left += [found for value in (params or {}).values() for found in _within(value)]
    while left:
        function = left.pop()
        if not _of_tests(function) or function in seen:
            continue
        seen.add(function)
        tree = _body(function)
        for node in ast.walk(tree):
            why = _missing(node, params or {}, theirs)
            if why:
                return why
        left += _called(function, tree, made)
    return ""


def _of_tests(function: Any) -> bool:
    if not inspect.isfunction(function):
        return False
    file = Path(function.__code__.co_filename)
    return file.name == "reading.py" or (file.parent.name == "kubevirt" and file.name != "conftest.py")


def _body(function: Any) -> ast.AST:
    """Without its decorators, which name the parameters of all. A lambda is no statement by itself: nothing is seen."""
    if function.__name__ == "<lambda>":
        return ast.Module([], [])
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return ast.Module(getattr(tree, "body", []), [])


def _within(value: Any) -> Iterator[Any]:
    """Functions that a parameter is made of."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _within(part)
    elif inspect.isfunction(value):
        yield value


def _classes(function: Any) -> Iterator[type]:
    """What a fixture makes: classes of tests that it names."""
    for name in function.__code__.co_names if inspect.isfunction(function) else ():
        found = function.__globals__.get(name)
        if inspect.isclass(found) and any(_of_tests(method) for method in vars(found).values()):
            yield found


def _called(function: Any, tree: ast.AST, made: Iterable[type]) -> Iterator[Any]:
    """Functions of tests that it names, in its lambdas too, and methods of what its fixtures made."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id != "add_pod":  # by its words
            yield function.__globals__.get(node.id)
        elif isinstance(node, ast.Attribute):
            yield from (vars(cls)[node.attr] for cls in made if node.attr in vars(cls))


def _missing(node: ast.AST, params: Mapping[str, Any], theirs: Collection[str]) -> str:
    if isinstance(node, ast.Attribute):
        unknown = _is_sim(node.value) and not hasattr(Given, node.attr) and node.attr != "path"
        return f"needs the simulator: {node.attr}" if unknown else ""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Name):
        if node.func.id == "add_pod":
            pod = _words(node, params)
            return lacks_pod(str(pod.get("owner", "")), str(pod.get("phase", "Running")))
        return OWN if node.func.id == _STARTS else ""
    if not (isinstance(node.func, ast.Attribute) and _is_sim(node.func.value)):
        return ""
    if node.func.attr == "add_vm":
        what = _words(node, params)
        return lacks(what) or lacks_name(f"{what.get('namespace', 'default')}/{_constant(node.args[0])}", theirs)
    if node.func.attr == "add_node":
        return lacks_node(str(_constant(node.args[0])), bool(node.keywords))
    if node.func.attr == "edit" and _writes_what_others_own(node):
        return "needs the simulator: it writes what only its owner may write"
    return ""


def _words(call: ast.Call, params: Mapping[str, Any]) -> dict[str, Any]:
    """What the call gives by name. What a word of every VM is, is not always written there; a knob needs agents
    whatever it is."""
    found: dict[str, Any] = {}
    for word in call.keywords:
        if word.arg is None:
            given = params.get(word.value.id, {}) if isinstance(word.value, ast.Name) else {}
            found |= given if isinstance(given, dict) else {}
        elif isinstance(word.value, ast.Name) and word.value.id in params:
            found[word.arg] = params[word.value.id]
        elif isinstance(word.value, ast.Constant) or word.arg not in WORDS:
            found[word.arg] = _constant(word.value)
    return found


def _is_sim(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == _SIM) or (isinstance(node, ast.Attribute) and node.attr == _SIM)


def _constant(node: ast.AST) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def _writes_what_others_own(call: ast.Call) -> bool:
    """A VMI, or the status of anything."""
    if call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == "VMIS":
        return True
    return any(
        isinstance(node, ast.Subscript) and _constant(node.slice) == "status"
        for arg in call.args
        for node in ast.walk(arg)
    )
