"""Rules as plain data -> the core's rules. Every error names the rule and the place in it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from .._core.model.observation import EvictionStrategy, OnNotMigratable
from .._core.model.policy import Hooks, MigrationSettings, PolicyError, Rule
from .._core.model.record import Hook
from .expression import Expression, ExpressionError, compile_expression, mark
from .settings import ALIASES, BOOLEANS, CHOICES, COMPRESSIONS, NUMBERS, migration_settings

# What to do where the expression is not known: stop here, apply the rule, ask the next one.
UNKNOWN_ANSWERS: dict[str, bool | None] = {"block": None, "match": True, "next": False}
KEYS = (
    *("name", "when", "strategy", "on_not_migratable", "allow_stop", "priority", "allow_older_hypervisor"),
    *("migration", "hooks", "unknown"),
)
HOOKS = tuple(hook.value for hook in Hook)
_YES = ("true", "yes", "on", "1")
_NO = ("false", "no", "off", "0")


class RuleError(PolicyError):
    """A rule is wrong. The text names it and the place."""


class Reader:
    """Marks a document once, however many rules read it one after another."""

    def __init__(self) -> None:
        self._last: tuple[Any, Any] = (None, None)

    def __call__(self, document: Mapping[str, Any]) -> Any:
        if self._last[0] is not document:
            self._last = (document, mark(document))
        return self._last[1]


def compile_rules(raw: Any, base: MigrationSettings | None = None, place: str = "rules") -> tuple[Rule, ...]:
    """`base`: the settings that a rule's `migration` changes. `place`: what to call the list.

    Keys whose value is None are taken as not given. Raises RuleError; JMESPathMissing when a
    rule has a `when` and the library for it is not there.
    """
    if raw is None or raw == "":
        return ()
    if isinstance(raw, (str, Mapping)) or not isinstance(raw, Sequence):
        raise RuleError(f"{place} must be a list of rules, not {type(raw).__name__}")
    reader = Reader()
    found: list[Rule] = []
    trees: dict[str, str] = {}
    names: dict[str, str] = {}
    all_match = ""
    for number, item in enumerate(raw):
        rule = _RuleText(item, f"{place}[{number}]")
        if all_match:
            rule.fail("", f"it is never reached: {all_match} has no `when`, so it always matches")
        if rule.name in names:
            rule.fail("name", f"{names[rule.name]} has the same name")
        names[rule.name] = rule.place
        expression = rule.expression()
        if expression is None:
            all_match = rule.place
        else:
            tree = json.dumps(expression.tree, sort_keys=True)
            if tree in trees:
                rule.fail("when", f"it is never reached: {trees[tree]} has the same condition")
            trees[tree] = rule.place
        found.append(rule.compile(expression, reader, base or MigrationSettings()))
    return tuple(found)


class _RuleText:
    """One rule as it was written."""

    def __init__(self, item: Any, place: str) -> None:
        self.place = place
        self.name = ""
        if not isinstance(item, Mapping):
            self.fail("", f"it must be a mapping, not {type(item).__name__}")
        self._given = {key: value for key, value in item.items() if value is not None}
        name = self._given.get("name")
        if not isinstance(name, str) or not name.strip():
            self.fail("name", "a rule needs one: results refer to it")
        self.name = str(name)
        self.place = f"{place} ({name})"
        self._known("", self._given, KEYS)

    def fail(self, key: str, text: str) -> NoReturn:
        raise RuleError(f"{self.place}{', ' if key else ''}{key}: {text}")

    def _known(self, key: str, given: Iterable[Any], known: Sequence[str]) -> None:
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; known keys are {', '.join(known)}"
                self.fail(key, f"there is no key {name!r}{hint}")

    def expression(self) -> Expression | None:
        when = self._given.get("when")
        if when is None:
            return None
        if isinstance(when, bool):
            self.fail("when", f"{str(when).lower()} decides nothing; omit `when` to match all")
        if not isinstance(when, str):
            self.fail("when", f"it must be JMESPath, not {type(when).__name__}")
        try:
            return compile_expression(when.strip())
        except ExpressionError as exc:
            raise RuleError(f"{self.place}, when: {exc}") from None

    def compile(self, expression: Expression | None, reader: Reader, base: MigrationSettings) -> Rule:
        given = self._given
        unknown = UNKNOWN_ANSWERS[self._choice("unknown", list(UNKNOWN_ANSWERS)) or "block"]
        if expression is None and "unknown" in given:
            self.fail("unknown", "it needs a `when`, and there is none")
        strategy = self._choice("strategy", [s.value for s in EvictionStrategy])
        on_not = self._choice("on_not_migratable", [o.value for o in OnNotMigratable])
        asked = self._settings()
        return Rule(
            name=self.name,
            when=_predicate(expression, reader, unknown),
            strategy=EvictionStrategy(strategy) if strategy else None,
            on_not_migratable=OnNotMigratable(on_not) if on_not else None,
            allow_stop=self._boolean("allow_stop", given.get("allow_stop")),
            priority=self._number("priority", given.get("priority")),
            allow_older_hypervisor=bool(self._boolean("allow_older_hypervisor", given.get("allow_older_hypervisor"))),
            migration=None if asked is None else self._migration(asked, base),
            hooks=self._hooks(),
            explain=_explanation(expression, reader),
            asked=asked or {},
        )

    def _migration(self, asked: Mapping[str, Any], base: MigrationSettings) -> MigrationSettings:
        try:
            return migration_settings(asked, base)
        except PolicyError as exc:
            raise RuleError(f"{self.place}: {exc}") from None

    def _settings(self) -> dict[str, Any] | None:
        """Check `migration` of the rule, and give its settings by the options' own names; None: the rule has none."""
        raw = self._given.get("migration")
        if raw is None:
            return None
        if not isinstance(raw, Mapping):
            self.fail("migration", f"it must be a mapping, not {type(raw).__name__}")
        given = {key: value for key, value in raw.items() if value is not None}
        known = (*BOOLEANS, *NUMBERS, *CHOICES, "compression")
        self._known("migration", given, (*known, *ALIASES))
        values: dict[str, Any] = {}
        for word, value in given.items():
            key = ALIASES.get(word, word)
            before = values.pop(key, None)
            where = f"migration.{word}"
            if key in BOOLEANS:
                values[key] = self._boolean(where, value)
            elif key in NUMBERS:
                values[key] = self._number(where, value)
            elif key in CHOICES:
                values[key] = self._choice(where, CHOICES[key], value)
            else:
                listed = value.split(",") if isinstance(value, str) else value
                if not isinstance(listed, Sequence):
                    self.fail(where, f"it must be a list, not {value!r}")
                values[key] = [self._choice(where, COMPRESSIONS, item) for item in listed]
            if before is not None and values[key] != before:
                self.fail(where, f"{key} is given under two names with different values")
        return values

    def _hooks(self) -> Hooks | None:
        raw = self._given.get("hooks")
        if raw is None:
            return None
        if not isinstance(raw, Mapping):
            self.fail("hooks", f"it must be a mapping, not {type(raw).__name__}")
        given = {key: value for key, value in raw.items() if value is not None}
        self._known("hooks", given, HOOKS)
        for key, value in given.items():
            if not isinstance(value, str) or not value.strip():
                self.fail(f"hooks.{key}", f"it is the path of a task file, not {value!r}")
        if not given:
            self.fail("hooks", "it is empty: expected before or after")
        return Hooks(**given)

    # Values: strict, but as tolerant as Ansible's own options about text from templates.

    def _choice(self, key: str, choices: Sequence[str], value: Any = None) -> str | None:
        value = self._given.get(key) if value is None else value
        if value is not None and value not in choices:
            near = difflib.get_close_matches(str(value), choices, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.fail(key, f"it is one of {', '.join(choices)}, not {value!r}{hint}")
        return None if value is None else str(value)

    def _boolean(self, key: str, value: Any) -> bool | None:
        if value is None or isinstance(value, bool):
            return value
        text = str(value).lower()
        if text not in _YES + _NO:
            self.fail(key, f"it is true or false, not {value!r}")
        return text in _YES

    def _number(self, key: str, value: Any) -> int | None:
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        text = str(value).strip()
        if not text.lstrip("-").isdigit():
            self.fail(key, f"it is a whole number, not {value!r}")
        return int(text)


def _predicate(
    expression: Expression | None, reader: Reader, unknown: bool | None
) -> Callable[[Mapping[str, Any]], bool | None]:
    if expression is None:
        return lambda _document: True

    def when(document: Mapping[str, Any]) -> bool | None:
        answer = expression.answer(reader(document))
        return unknown if answer is None else answer

    return when


def _explanation(expression: Expression | None, reader: Reader) -> Callable[[Mapping[str, Any]], str] | None:
    if expression is None:
        return None
    return lambda document: ", ".join(expression.lacks(reader(document)))
