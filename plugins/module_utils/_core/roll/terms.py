"""The terms of a roll: what its command says of it. Pure.

A term is a field of Terms: that is its place in the request, with its default, in the record, and in the check of both.
Its name is a key of the record, which other versions read: it stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, timezone
from typing import Any

from ..model.policy import PolicyError
from ..model.wall import FORMAT, parsed

# The option with which VMs go back to where they were, once all hosts are done.
MOVE_BACK = "maintenance_move_back"
# What maintenance_reboot may say, beside true and false: always and never.
MODES = ("auto", "always", "never")
_TRUE = ("true", "yes", "on", "1", "y", "t")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(name: str, text: str) -> float:
    """Seconds, from 300, "300", "5m", "1.5h". Raises PolicyError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(text).strip(), re.ASCII)
    if found is None:
        raise PolicyError(f"{name} is {text!r}: seconds are expected, or a number with s, m or h, such as 5m")
    return float(found[1]) * _UNITS[found[2]]


def until(name: str, text: str, now: datetime, zoned: Callable[[datetime], datetime]) -> str:
    """The end of the window in UTC; '': there is none. `now` is in the time zone in which 06:00 is meant. `zoned`:
    gives a time that zone, with the offset of then: the clocks may be changed in between.

    A time alone is the next one. Raises PolicyError for what is no time, or is over.
    """
    text = text.strip()
    if not text:
        return ""
    clock = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text, re.ASCII)
    try:
        if clock is not None:
            day = now.replace(tzinfo=None, hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
            end = zoned(day)
            end = zoned(day + timedelta(days=1)) if end <= now else end
        else:
            end = datetime.fromisoformat(re.sub("Z$", "+00:00", text))
            end = end if end.tzinfo is not None else zoned(end)
    except ValueError:
        raise PolicyError(
            f"{name} is {text!r}: a time such as 06:00 is expected (in YAML in quotes), or 2026-03-01T06:00"
        ) from None
    if end <= now:
        raise PolicyError(f"{name} is {text!r}, which is over: a time to come is expected")
    return end.astimezone(timezone.utc).strftime(FORMAT)


def utc(name: str, text: str) -> str:
    """The text, if it is a time as records have it, or empty. Raises PolicyError."""
    try:
        return parsed(text).strftime(FORMAT) if text else ""
    except ValueError:
        raise PolicyError(f"{name} is {text!r}: a time in UTC is expected, such as 2026-03-01T05:00:00Z") from None


def reboot_mode(given: Any) -> str:
    """always, never, or auto. An empty text, as surveys give it, is as good as not given."""
    if given is None or given == "":
        return "always"
    if given in MODES:
        return str(given)
    return "always" if str(given).lower() in _TRUE else "never"


def most_unavailable(name: str, text: str) -> str:
    """A number of hosts, or a share of them. Raises PolicyError."""
    number = text.strip().removesuffix("%").strip()
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise PolicyError(f"{name} is {text!r}: expected a number of hosts above 0, or a share such as 20%")
    if text.strip().endswith("%"):
        if int(number) > 100:
            raise PolicyError(f"{name} is {text!r}: expected at most 100%")
        return f"{number}%"
    return number


def most_per(name: str, given: Mapping[str, Any]) -> dict[str, int]:
    """Name of a label -> how many hosts that share its value may be out at once. Raises PolicyError."""
    for key, most in given.items():
        if not str(most).isascii() or not str(most).isdigit() or int(most) < 1:
            raise PolicyError(f"{name} has {most!r} for {key}: expected a number of hosts above 0")
    return {str(key): int(most) for key, most in given.items()}


def _settings(_name: str, given: Mapping[str, Any]) -> dict[str, str]:
    """The options as text, each in one form only: a reboot of true is the same as always. VMs that stay where they are
    are no option."""
    found = {str(key): str(value) for key, value in given.items()}
    if "maintenance_reboot" in given:
        found["maintenance_reboot"] = reboot_mode(given["maintenance_reboot"])
    if found.pop(MOVE_BACK, "").lower() in _TRUE:
        found[MOVE_BACK] = str(True)
    return found


def _groups(_name: str, given: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {str(host): dict(found) for host, found in given.items()}


def _at_least_0(name: str, given: int) -> int:
    if given < 0:
        raise PolicyError(f"{name} is {given}: expected 0 or more")
    return given


def of_hosts(_name: str, given: Mapping[str, Any]) -> dict[str, float]:
    return {str(host): float(value) for host, value in given.items()}


def _as_it_is(_name: str, given: Any) -> Any:
    return given


def _term(kind: str, default: Any, of: Callable[[str, Any], Any] = _as_it_is) -> Any:
    """`kind`, `default`: of the request. `of`: what the record has of it."""
    about = {"of": of, "spec": {"type": kind, "default": default}}
    return field(default_factory=lambda: of("", default), metadata=about)  # pylint: disable=invalid-field-call


@dataclass(frozen=True)
class Terms:
    """The terms of a roll, which its command gives and its record keeps.

    `options`: what another command must share to carry it on. `max_unavailable`: a number of hosts, or a share with %.
    `max_unavailable_per`: label, the rack for example, and how many hosts with the same value of it. `groups`: these
    values, host by host, of those of which the inventory has them. `count_others`: hosts that others cordoned, drain,
    or that are dead count as well. `soak`: seconds after a host is done before the next begins. `pause_after`: the host
    after which no further one does. `until`: UTC, by when hosts must be done. `seconds`: what each takes, by the plan.
    """

    options: Mapping[str, str] = _term("dict", {}, _settings)
    max_unavailable: str = _term("str", "1", most_unavailable)
    max_unavailable_per: Mapping[str, int] = _term("dict", {}, most_per)
    groups: Mapping[str, Mapping[str, str]] = _term("dict", {}, _groups)
    max_failures: int = _term("int", 0, _at_least_0)
    count_others: bool = _term("bool", True)
    soak: float = _term("str", "0", duration)
    pause_after: str = _term("str", "")
    until: str = _term("str", "", utc)
    seconds: Mapping[str, float] = _term("dict", {}, of_hosts)

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Terms:
        """Raises PolicyError."""
        return cls(**{one.name: one.metadata["of"](one.name, request[one.name]) for one in fields(cls)})


TERMS_SPEC: dict[str, Any] = {one.name: one.metadata["spec"] for one in fields(Terms)}
