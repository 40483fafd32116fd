"""The golden plans: small clusters as YAML, and the plan of each beside it.

NAME.yml is written by hand; NAME.plan.yml by this program, and read in review:

    make golden        writes the plans again; `git diff tests/golden` shows what changed
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import OnNotMigratable
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    MigrationSettings,
    PlacementPolicy,
    Policy,
    Profile,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan import text as plan_text
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.transfers import Speeds

HERE = Path(__file__).parent / "plans"
HEAD = """\
---
# Written by `make golden`.
"""


class _Indented(yaml.SafeDumper):
    """Lists stand further in than their key, as yamllint wants them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def names() -> list[str]:
    return sorted(p.stem for p in HERE.glob("*.yml") if not p.stem.endswith(".plan"))


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((HERE / f"{name}.yml").read_text(encoding="utf-8"))


def expected(name: str) -> str:
    return (HERE / f"{name}.plan.yml").read_text(encoding="utf-8")


def mib(text: str) -> int:
    found = re.fullmatch(r"(\d+) (GiB|MiB)", text)
    assert found, f"{text!r}: for example '16 GiB'"
    return int(found[1]) * (1024 if found[2] == "GiB" else 1)


def _row(written: dict[str, Any]) -> dict[str, Any]:
    """As the plan has it: memory with a unit, and the link's short name, are for readers."""
    row = {**written, "memory_mib": mib(written["memory"]), "link_mib_s": written.get("link")}
    return {key: value for key, value in row.items() if value is not None and key not in ("memory", "link")}


def request(raw: dict[str, Any]) -> Any:
    """The cluster in the core's words."""
    hosts = [_row(host) for host in raw["hosts"]]
    vms = [_row(vm) for vm in raw["vms"]]
    policy = Policy(
        on_not_migratable=OnNotMigratable(raw.get("on_not_migratable", "block")),
        allow_stop=raw.get("allow_stop", False),
        limits=Limits(**raw.get("limits", {})),
        placement_policy=PlacementPolicy(
            Profile(raw.get("placement_profile", "LowNodeUtilization")), raw.get("anti_affinity") == "required"
        ),
        migration=MigrationSettings(**raw.get("migration", {})),
    )
    return request_of(
        hosts,
        vms,
        raw["roll"],
        policy,
        max_unavailable=raw.get("max_unavailable", 1),
        speeds=Speeds(default=1000.0),
        budgets=raw.get("budgets", ()),
    )


def render(raw: dict[str, Any]) -> str:
    """The plan as readable YAML."""
    plan = plan_roll(request(raw)).to_dict()
    shown = {
        "summary": plan_text.summary(plan),
        "steps": [
            {
                "hosts": step["hosts"],
                "seconds": round(step["duration"], 1),
                "spare_gib": step["spare_mib"] // 1024,
                "largest": f"{step['largest_mib'] // 1024} GiB on {step['largest_on']}",
                "moves": [_line(move) for move in step["moves"]],
                **({"fits_if": [_owned(move) for move in step["fits_if"]]} if step["fits_if"] else {}),
            }
            for step in plan["steps"]
        ],
        "warnings": plan["warnings"],
        "refusal": (plan["refusal"] or {}).get("detail", ""),
    }
    return HEAD + yaml.dump(shown, Dumper=_Indented, sort_keys=False, width=100)


def _line(move: dict[str, Any]) -> str:
    text = f"{move['order']}. {move['name']}: {move['way']}"
    text += f" for {move['swap_for']}" if move["swap_for"] else ""
    text += f" {move['source']} -> {move['target']}" if move["target"] else ""
    if move["duration"] is not None:
        text += f", {move['start']:.1f} s + {move['duration']:.1f} s"
    if move["pause_ms"] is not None:
        text += f", pause {move['pause_ms']:.0f} ms"
    return f"{text} ({move['why']})"


def _owned(move: dict[str, Any]) -> str:
    return f"{move['name']} ({move['memory_mib'] // 1024} GiB): {move['host']} -> {move['place']}"


def main() -> int:
    for name in names():
        (HERE / f"{name}.plan.yml").write_text(render(read(name)), encoding="utf-8")
    print(f"golden: {len(names())} plans written; see git diff tests/golden")
    return 0


if __name__ == "__main__":
    sys.exit(main())
