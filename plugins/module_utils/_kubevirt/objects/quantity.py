"""Quantities of Kubernetes (129e6, 250m, 12E, 2Gi), in every form that the API keeps. Pure."""

from __future__ import annotations

import re
from typing import Any

_FORM = re.compile(r"^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
_FACTORS = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    **{unit: 1000.0 ** (n + 1) for n, unit in enumerate("kMGTPE")},
    **{f"{unit}i": 1024.0 ** (n + 1) for n, unit in enumerate("KMGTPE")},
}


def amount(quantity: Any) -> float:
    """Parse a quantity to a number: bytes, cores, pods; 0 if it is not one."""
    found = _FORM.match(str(quantity if quantity is not None else ""))
    return float(found.group(1)) * _FACTORS[found.group(2) or ""] if found else 0.0


def mib(quantity: Any) -> int:
    """Parse memory or a rate to MiB, at least 1; 0 when it is none or 0 (bandwidthPerMigration 0Mi: no limit)."""
    number = amount(quantity)
    return max(1, round(number / 2**20)) if number > 0 else 0
