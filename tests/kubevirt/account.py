"""The account that the product has in these tests: it has the role that we document, no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROLE = Path(__file__).resolve().parents[2] / "docs" / "kubevirt-clusterrole.yml"
TOKEN = "maintenance"


def documented_rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.safe_load(ROLE.read_text(encoding="utf-8"))["rules"]
    return rules


def rules_without(verb: str, *resources: str) -> list[dict[str, Any]]:
    """The documented rules, without this verb on these resources."""
    rules = []
    for rule in documented_rules():
        for resource in rule["resources"]:
            verbs = [v for v in rule["verbs"] if v != verb or resource not in resources]
            rules += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
    return rules
