"""Check the value of a variable by its kind: a phrase for what is expected, or ''. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import terms
from ansible_collections.virtops.maintenance.plugins.plugin_utils._paths import on_controller

# What the filter `bool` understands as the roles do. It takes anything else for false.
BOOLEANS = ("true", "false", "yes", "no", "on", "off", "1", "0")


def _bool(value: Any) -> str:
    good = isinstance(value, bool) or str(value).lower() in BOOLEANS
    return "" if good else "true or false"


def _reboot(value: Any) -> str:
    return "" if not _bool(value) or value in terms.MODES else f"one of {', '.join(terms.MODES)}, true, false"


def whole(value: Any) -> str:
    try:
        good = not isinstance(value, bool) and float(int(value)) == float(value)
    except (TypeError, ValueError, OverflowError):
        good = False
    return "" if good else "a whole number, without a unit"


def number(value: Any) -> str:
    try:
        good = not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError):
        good = False
    return "" if good else "a number, without a unit"


def _list(value: Any) -> str:
    return "" if isinstance(value, (list, tuple)) else "a list"


def _dict(value: Any) -> str:
    return "" if isinstance(value, Mapping) else "a dict"


def _str(value: Any) -> str:
    return "one text" if isinstance(value, (list, tuple, Mapping)) else ""


def _path(value: Any, what: str, kind: Callable[[Path], bool]) -> str:
    """It is made or replaced, a device too."""
    path = on_controller(value)
    there = "a folder" if path.is_dir() else "a file" if path.is_file() else "neither a file nor a folder"
    return _str(value) or (f"the path of a {what}; this is {there}" if path.exists() and not kind(path) else "")


def _folder(value: Any) -> str:
    """Who names the page itself would get a folder of that name."""
    path = on_controller(value)
    page = path.suffix in (".html", ".json", ".xml") and not path.exists()
    return f"a folder, in which {path.name} is made" if page else _path(value, "folder", Path.is_dir)


def _share(value: Any) -> str:
    return _refused(lambda: terms.most_unavailable("", str(value)), "a number of hosts above 0, or a share such as 20%")


def _duration(value: Any) -> str:
    return _refused(lambda: terms.duration("", str(value)), "seconds, or a number with s, m or h, such as 5m")


def _time(value: Any) -> str:
    """One that is over stands in an inventory until somebody removes it: a roll alone asks for a time to come."""
    wanted = "a time such as '06:00', in YAML in quotes, or 2026-03-01T06:00"
    long_ago = datetime(1970, 1, 2).astimezone()
    return _refused(lambda: terms.until("", str(value), long_ago, datetime.astimezone), wanted)


def _refused(check: Callable[[], Any], wanted: str) -> str:
    try:
        check()
    except PolicyError:
        return wanted
    return ""


CONTAINERS: dict[str, type] = {"a list": list, "a dict": dict}
KINDS = {
    "bool": _bool,
    "dict": _dict,
    "duration": _duration,
    "file": lambda value: _path(value, "file", Path.is_file),
    "float": number,
    "folder": _folder,
    "int": whole,
    "list": _list,
    "path": _str,
    "reboot": _reboot,
    "share": _share,
    "str": _str,
    "time": _time,
}
