"""The migration settings of options and rules, in the options' words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core.model.policy import MigrationSettings

# The option's word -> the core's, where they differ.
WORDS = {"bandwidth": "bandwidth_mib"}
# A second word for an option -> the option's name.
ALIASES = {"allow_post_copy": "post_copy", "parallel": "parallel_connections"}

BOOLEANS = ("auto_converge", "post_copy", "tls")
NUMBERS = ("bandwidth", "parallel_connections", "completion_timeout_per_gib", "progress_timeout", "max_downtime_ms")
CHOICES = {"on_timeout": ("abort", "post_copy", "pause")}
COMPRESSIONS = ("mt", "xbzrle")


def migration_settings(given: Mapping[str, Any] | None, base: MigrationSettings | None = None) -> MigrationSettings:
    """`base` with what is given (None is not given). Raises PolicyError."""
    named = by_name({k: v for k, v in (given or {}).items() if v is not None})
    values = {WORDS.get(k, k): v for k, v in named.items()}
    if "compression" in values:
        values["compression"] = tuple(values["compression"])
    return replace(base or MigrationSettings(), **values)


def by_name(given: Mapping[str, Any]) -> dict[str, Any]:
    """Each setting by its own name. Ansible leaves an alias beside the name that it is for."""
    found = {ALIASES[k]: v for k, v in given.items() if k in ALIASES}
    return {**found, **{k: v for k, v in given.items() if k not in ALIASES}}


def aliases_of(name: str) -> list[str]:
    """The aliases for argument specs."""
    return [alias for alias, its in ALIASES.items() if its == name]
