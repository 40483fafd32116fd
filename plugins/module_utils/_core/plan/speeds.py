"""The option `speeds` of the modules: what is known of links, migrations and VMs. Pure.

Nothing of it changes what is done; it is for the times that are foreseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..model.policy import PolicyError
from .fields import number
from .transfers import Speeds

# What stands in place of what nobody measured. On KubeVirt a target pod is made first.
LIBVIRT = Speeds(setup=1.0, switch=0.5, overhead=2.0)
KUBEVIRT = Speeds(setup=5.0, switch=1.0, overhead=1.0)
SPEEDS = {"libvirt": LIBVIRT, "kubevirt": KUBEVIRT}

_NUMBERS = ("link", "setup", "switch", "overhead", "pause")
SPEEDS_SPEC: dict[str, Any] = {
    "type": "dict",
    "default": {},
    "options": {
        **{name: {"type": "float"} for name in _NUMBERS},
        **{name: {"type": "dict"} for name in ("links", "dirty_rates", "working_sets")},
    },
}


def speeds_of(raw: Mapping[str, Any], default: Speeds) -> Speeds:
    """Raises PolicyError naming what is wrong."""
    given = {name: number(f"speeds.{name}", raw[name]) for name in _NUMBERS[1:] if raw.get(name) is not None}
    links = {str(host): _width(f"speeds.links of {host}", rate) for host, rate in (raw.get("links") or {}).items()}
    if raw.get("link") is not None:
        default = replace(default, default=_width("speeds.link", raw["link"]))
    return replace(default, links=links, **given)


def _width(where: str, raw: Any) -> float:
    found = number(where, raw)
    if not found:
        raise PolicyError(f"{where} is 0: expected MiB/s, more than 0")
    return found
