"""The fields that a row of the plan's input may have, checked as Ansible checks an option. Pure.

A value of the wrong kind that is taken for another one makes a plan that cannot be followed: the
text "false" would be true, a key that nobody reads would drop what it says.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..model.policy import PolicyError

Kind = Callable[[str, Any], Any]
_TRUE = frozenset(("true", "yes", "on", "1"))
_FALSE = frozenset(("false", "no", "off", "0"))


def number(where: str, raw: Any) -> float:
    """0 or more, and an end to it; nothing given is 0. Raises PolicyError."""
    try:
        value = float("nan" if isinstance(raw, bool) else raw or 0)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise PolicyError(f"{where} is {raw!r}: expected a number")
    if value < 0:
        raise PolicyError(f"{where} is {raw}: expected 0 or more")
    return value


def whole(where: str, raw: Any) -> int:
    return int(number(where, raw))


def yes(where: str, raw: Any) -> bool:
    text = str(raw).strip().lower() if isinstance(raw, (bool, int, str)) else ""
    if text not in _TRUE | _FALSE:
        raise PolicyError(f"{where} is {raw!r}: expected true or false")
    return text in _TRUE


def text(where: str, raw: Any) -> str:
    if isinstance(raw, (Mapping, list, tuple, bool)):
        raise PolicyError(f"{where} is {raw!r}: expected text")
    return str(raw)


def rows(where: str, raw: Any) -> list[Any]:
    if not isinstance(raw, (list, tuple)):
        raise PolicyError(f"{where} is {raw!r}: expected a list")
    return list(raw)


def mapping(where: str, raw: Any) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise PolicyError(f"{where} is {raw!r}: expected a dict")
    return raw


def texts(where: str, raw: Any) -> Any:
    """A list of texts, or one text with commas: what constraints_text reads."""
    if isinstance(raw, str):
        return raw
    return [text(f"an entry of {where}", one) for one in rows(where, raw)]


def counts(where: str, raw: Any) -> dict[str, int]:
    return {str(key): whole(f"{key} in {where}", value) for key, value in mapping(where, raw).items()}


def labels(where: str, raw: Any) -> Any:
    return raw if isinstance(raw, Mapping) else texts(where, raw)


HOST: dict[str, Kind] = {
    "name": text,
    "memory_mib": whole,
    "reserve_mib": whole,
    "committed_mib": whole,
    "group_counts": counts,
    "cpu_milli": whole,
    "committed_cpu_milli": whole,
    "link_mib_s": number,
    "version": text,
    "labels": labels,
    "taints": texts,
    "cordoned": yes,
    "reachable": yes,
    "message": text,
    "runs_vms": yes,
    "spare": counts,
}
VM: dict[str, Kind] = {
    "name": text,
    "uuid": text,
    "host": text,
    "memory_mib": whole,
    "cpu_milli": whole,
    "sent_mib": number,
    "dirty_rate": number,
    "working_set_mib": number,
    "group": text,
    "strategy": text,
    "state": text,
    "migratable": yes,
    "reasons": rows,
    "cold": rows,
    "refused_by": mapping,
    "cold_refused_by": mapping,
    "compared": mapping,
    "needs": mapping,
    "persistent": yes,
    "autostart": yes,
    "document": mapping,
    "known": yes,
    "control_node": text,
    "takes": counts,
}
# Of these None says something: that it is not known.
UNKNOWN = frozenset(("migratable",))
NEEDS: dict[str, Kind] = {"selector": labels, "affinity": texts, "tolerations": texts, "near": text}


def checked(what: str, raw: Any, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The fields that are given, each as its kind; None is as good as not given, but for UNKNOWN.

    `what`: a host, a VM. Raises PolicyError naming the field and what it belongs to.
    """
    if not isinstance(raw, Mapping):
        raise PolicyError(f"{what} is {raw!r}: expected a dict")
    name = raw.get("name")
    if "name" in kinds and (isinstance(name, (Mapping, list, bool)) or not name):
        raise PolicyError(f"{what} without a name: {dict(raw)!r}"[:200])
    for key in raw:
        if key not in kinds:
            raise PolicyError(f"{_of(key, what, name)} is not known: {_meant(str(key), kinds)}")
    found = {}
    for key, value in raw.items():
        if value is not None:
            found[key] = kinds[key](_of(key, what, name), value)
        elif key in UNKNOWN:
            found[key] = None
    return found


def _of(key: object, what: str, name: Any) -> str:
    return f"{key} of {name or what}"


def _meant(key: str, kinds: Iterable[str]) -> str:
    near = difflib.get_close_matches(key, list(kinds), 1, 0.7)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(sorted(kinds))}"
