"""A roll as metrics for Prometheus, in the format of node exporter's textfile collector.

Their names and meanings are documented in docs/report.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.tally import COUNTED
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.wall import between
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import AT_REST, State

_EPOCH = "1970-01-01T00:00:00Z"
_AT_REST = frozenset(stage.value for stage in AT_REST)


def text(doc: Mapping[str, Any]) -> str:
    """`doc`: the report, with a roll. What is not known has no sample."""
    hosts, totals, roll = doc["hosts"], doc["totals"], doc["roll"]
    certified = max((host.get("certified") or "" for host in hosts), default="")
    samples: list[tuple[str, str, float | None]] = [
        ("running", "1 while the roll is carried on, else 0", float(roll["state"] == State.RUNNING.value)),
        ("hosts", "Hosts of the roll", totals["hosts"]),
        ("hosts_done", "Hosts that are back in service", totals["done"]),
        ("hosts_out", "Hosts that are out of service", sum(host["stage"] not in _AT_REST for host in hosts)),
        ("hosts_failed", "Hosts that failed", totals["failed"]),
        ("begun_timestamp_seconds", "When the roll began", _seconds(roll["begun"])),
        ("last_certificate_timestamp_seconds", "When a host was last certified to be empty", _seconds(certified)),
        ("written_timestamp_seconds", "When these metrics were written", _seconds(doc["written"])),
    ]
    lines = [
        "# HELP virtops_roll_info The roll and how it is",
        "# TYPE virtops_roll_info gauge",
        f'virtops_roll_info{{roll="{_label(roll["id"])}",outcome="{_label(doc["outcome"])}"}} 1',
    ]
    lines += ["# HELP virtops_roll_vms VMs of the drains, by what became of them", "# TYPE virtops_roll_vms gauge"]
    lines += [f'virtops_roll_vms{{verdict="{name}"}} {totals[name]}' for name in COUNTED]
    for short, help_text, value in samples:
        if value is not None:
            name = f"virtops_roll_{short}"
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {value:.0f}"]
    return "\n".join(lines) + "\n"


def _seconds(at: str) -> float | None:
    """Since 1970, of a time as records have it; None: of none."""
    return between(_EPOCH, at) if at else None


def _label(value: object) -> str:
    return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


__all__ = ["text"]
