"""Lines for a terminal: what it would obey written out, the controller's time before them. Pure but for the clock."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def plain(text: str) -> str:
    """The text with what a terminal would obey written out: a name is no line and no colour.

    Line ends, escape sequences, marks that turn the direction of writing, and undecodable bytes
    become \\n, \\x1b, \\u202e and so on. Letters of every script stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or _is_blank(c) else _code(c) for c in text)


def stamped(line: str) -> str:
    """Prefix the controller's time, and convert times of records (UTC) to its zone."""
    return f"{time.strftime('%H:%M:%S')} {_UTC.sub(_here, line)}"


def _here(found: re.Match[str]) -> str:
    at = datetime.strptime(found[0], "%Y-%m-%dT%H:%M:%S%z").astimezone()
    return f"{at:%H:%M:%S}" if at.date() == datetime.now().astimezone().date() else f"{at:%Y-%m-%d %H:%M:%S}"


def in_roll(turn: Mapping[str, Any]) -> str:
    """Progress of a host in its roll, and when the roll will be ready, in the controller's time: "2/7, ready 21:03"."""
    text = str(turn.get("position", ""))
    try:
        ready = datetime.strptime(str(turn.get("ready", "")), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return text
    late = "was to be " if ready < datetime.now(UTC) else ""
    return f"{text}, {late}ready {ready.astimezone():%H:%M}"


def plain_diff(texts: Mapping[str, Any]) -> dict[str, Any]:
    """A diff, of which Ansible prints each line as it is."""
    return {
        which: "\n".join(map(plain, text.split("\n"))) if isinstance(text, str) else text
        for which, text in texts.items()
    }


def plain_findings(result: Mapping[str, Any]) -> dict[str, Any]:
    """A preflight's result; the role shows these lists."""
    shown = {key: result[key] for key in ("blockers", "cautions") if key in result}
    return {**result, **{key: [plain(line) for line in lines] for key, lines in shown.items()}}


def _is_blank(char: str) -> bool:
    """A space of another width: harmless, though Python does not call it printable."""
    return unicodedata.category(char) == "Zs"


def _code(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
