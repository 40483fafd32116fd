"""The short text forms of needs, taints and labels, as inventory and metadata have them. Pure.

labels, selector  zone=a, disk=ssd
taint             dedicated=db:NoSchedule     dedicated:NoExecute
toleration        dedicated=db:NoSchedule     dedicated     *
affinity          zone In a|b     zone NotIn a     gpu Exists     gpu DoesNotExist
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

from .constraints import Constraints, Effect, Operator, Requirement, Taint, Toleration
from .policy import PolicyError

Texts = Union[str, Iterable[str], None]
_EFFECTS = ", ".join(effect.value for effect in Effect)


def texts(raw: Texts) -> list[str]:
    """A list, or its parts separated by commas."""
    parts = raw.split(",") if isinstance(raw, str) else list(raw or ())
    return [part.strip() for part in parts if part.strip()]


def labels(where: str, raw: Mapping[str, Any] | Texts) -> dict[str, str]:
    """Parse labels from a mapping or from "key=value, ...". Raises PolicyError."""
    if isinstance(raw, Mapping):
        return {str(key): str(value) for key, value in raw.items()}
    found = {}
    for text in texts(raw):
        key, sign, value = text.partition("=")
        if not key or not sign:
            raise PolicyError(f"{where} has {text!r}: expected key=value, for example zone=a")
        found[key.strip()] = value.strip()
    return found


def taints(where: str, raw: Texts) -> tuple[Taint, ...]:
    """Raises PolicyError."""
    found = []
    for text in texts(raw):
        key, value, effect = _split(where, text)
        if not key or effect is None:
            raise PolicyError(
                f"{where} has {text!r}: expected key=value:effect or key:effect, with effect one of {_EFFECTS}"
            )
        found.append(Taint(key, value or "", effect))
    return tuple(found)


def tolerations(where: str, raw: Texts) -> tuple[Toleration, ...]:
    """Raises PolicyError."""
    found = []
    for text in texts(raw):
        key, value, effect = _split(where, text)
        found.append(Toleration("" if key == "*" else key, value, effect))
    return tuple(found)


def _split(where: str, text: str) -> tuple[str, str | None, Effect | None]:
    rest, _colon, name = text.partition(":")
    key, sign, value = rest.partition("=")
    try:
        effect = Effect(name.strip()) if name else None
    except ValueError as exc:
        raise PolicyError(f"{where} has {text!r}: the effect is one of {_EFFECTS}") from exc
    return key.strip(), value.strip() if sign else None, effect


def requirements(where: str, raw: Texts) -> tuple[Requirement, ...]:
    """Raises PolicyError."""
    known = ", ".join(operator.value for operator in Operator)
    found = []
    for text in texts(raw):
        parts = text.split(None, 2)
        try:
            operator = Operator(parts[1])
        except (IndexError, ValueError) as exc:
            raise PolicyError(
                f"{where} has {text!r}: expected 'key operator value|value', with operator one of {known}"
            ) from exc
        values = tuple(v.strip() for v in parts[2].split("|")) if len(parts) > 2 else ()
        if bool(values) is not (operator in (Operator.IN, Operator.NOT_IN)):
            raise PolicyError(f"{where} has {text!r}: In and NotIn need values, the others none")
        found.append(Requirement(parts[0], operator, values))
    return tuple(found)


def parse_constraints(where: str, raw: Mapping[str, Any]) -> Constraints:
    """Parse the keys selector, affinity, tolerations, near. Raises PolicyError."""
    return Constraints(
        selector=labels(f"{where}.selector", raw.get("selector")),
        affinity=requirements(f"{where}.affinity", raw.get("affinity")),
        tolerations=tolerations(f"{where}.tolerations", raw.get("tolerations")),
        near=str(raw.get("near") or ""),
    )


def constraints_to_dict(found: Constraints) -> dict[str, Any]:
    """The form that `parse_constraints` reads."""
    return {
        "selector": dict(found.selector),
        "affinity": [" ".join(filter(None, (r.key, r.operator.value, "|".join(r.values)))) for r in found.affinity],
        "tolerations": [_toleration(t) for t in found.tolerations],
        "near": found.near,
    }


def _toleration(found: Toleration) -> str:
    text = found.key or "*"
    if found.value is not None:
        text += f"={found.value}"
    return f"{text}:{found.effect.value}" if found.effect else text
