# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The migration settings of options and rules, in the options' words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core.policy import MigrationSettings

# The option's word -> the core's, where they differ.
WORDS = {"bandwidth": "bandwidth_mib"}

BOOLEANS = ("auto_converge", "post_copy", "tls")
NUMBERS = (
    "bandwidth",
    "parallel_connections",
    "completion_timeout_per_gib",
    "progress_timeout",
    "max_downtime_ms",
)
CHOICES = {"on_timeout": ("abort", "post_copy", "pause")}
COMPRESSIONS = ("mt", "xbzrle")


def migration_settings(
    given: Mapping[str, Any] | None, base: MigrationSettings | None = None
) -> MigrationSettings:
    """`base` with what is given (None is not given). Raises PolicyError."""
    values = {WORDS.get(k, k): v for k, v in (given or {}).items() if v is not None}
    if "compression" in values:
        values["compression"] = tuple(values["compression"])
    return replace(base or MigrationSettings(), **values)
