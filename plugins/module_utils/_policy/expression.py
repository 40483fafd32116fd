"""Compile JMESPath: the only place that knows the library of that name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

try:
    import jmespath
    from jmespath import exceptions, functions
except ImportError:
    jmespath = None

from .._core.model.policy import PolicyError
from .checker import ExpressionError, check
from .three_valued import CallError, Evaluator, Node, mark, names_of, truth

PACKAGE = "jmespath (Debian and RHEL package python3-jmespath)"


class JMESPathMissing(PolicyError):
    """The library that reads rules is not installed where the rules are read."""

    def __init__(self) -> None:
        super().__init__(
            f"`when` is JMESPath, and the Python package {PACKAGE} is not installed for the "
            "Python that reads it. A rule without `when` does not need it."
        )


# Levels of a tree; 99 terms joined by || have 99. Python ends at some 1,000 calls.
DEPTH = 100
_TOO_DEEP = "it is nested too deeply; make two rules of it"


@dataclass(frozen=True)
class Expression:
    """A compiled expression. Its trees are equal when two expressions ask the same."""

    text: str
    tree: Node

    def answer(self, marked: Any) -> bool | None:
        """On a document that went through `mark`. None: not known."""
        return truth(_EVALUATOR.value(self.tree, marked))

    def lacks(self, marked: Any) -> list[str]:
        """The values that would have to be known."""
        return sorted(names_of(_EVALUATOR.value(self.tree, marked)))


def compile_expression(text: str) -> Expression:
    """Raises ExpressionError, JMESPathMissing."""
    if jmespath is None:
        raise JMESPathMissing
    try:
        tree = jmespath.compile(text).parsed
    except exceptions.EmptyExpressionError:
        raise ExpressionError("it is empty; omit it in the last rule to match all") from None
    except exceptions.ParseError as exc:
        place = f" at column {exc.lex_position + 1}" if exc.lex_position is not None else ""
        near = f" ({exc.token_value!r})" if exc.token_value else ""
        raise ExpressionError(f"{text!r} is not JMESPath{place}{near}") from None
    except exceptions.JMESPathError as exc:
        raise ExpressionError(f"{text!r} is not JMESPath: {exc}") from None
    except RecursionError:
        raise ExpressionError(_TOO_DEEP) from None
    if _deeper(tree, DEPTH):
        raise ExpressionError(_TOO_DEEP)
    check(tree)
    return Expression(text, tree)


def _deeper(tree: Node, levels: int) -> bool:
    """Is it nested deeper? Whoever evaluates it goes down level by level."""
    nodes = [tree]
    for _level in range(levels):
        nodes = [child for node in nodes for child in node["children"] if isinstance(child, dict)]
    return bool(nodes)


def _call(name: str, args: list[Any]) -> Any:
    try:
        return functions.Functions().call_function(name, args)
    except (exceptions.JMESPathError, TypeError, ValueError, ArithmeticError) as exc:
        raise CallError(str(exc)) from exc


_EVALUATOR = Evaluator(_call)

__all__ = ["Expression", "ExpressionError", "JMESPathMissing", "compile_expression", "mark"]
