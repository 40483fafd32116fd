"""Labels, annotations and hooks of any text: a rule compares them, a task file gets them whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.filter.eviction_strategy import eviction_strategy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import (
    Decision,
    Hook,
    PendingHook,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.hooks import pending_rows
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.document import vmi_document

# An annotation takes any text; of a label's value the API server takes only the last two.
ODD = (
    "-x 'q\" $(id) {{ 7*7 }} {% raw %}",
    "line\nhost-a  Drained\x1b[2K\u202e",
    "büro 東京",
    "n" * 4000,
    "`true`",
    "",
    "a.b_c-d",
    "true",
)


def vmi(**texts: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": "vm", "namespace": "shop", "uid": "u", **texts},
        "spec": {"domain": {"devices": {}}},
        "status": {"nodeName": "n1", "phase": "Running"},
    }


@pytest.mark.parametrize("what", ["labels", "annotations"])
@pytest.mark.parametrize("text", ODD)
def test_a_rule_compares_it_as_it_is(what: str, text: str) -> None:
    """Quoted as JMESPath wants it, whatever stands in it; another one is not matched."""
    document = vmi_document(vmi(**{what: {"example.org/owner": text}}), None)
    assert document[what]["example.org/owner"] == text
    quoted = json.dumps(text, ensure_ascii=False).replace("`", "\\`")
    for value, way in ((quoted, "shutdown"), (json.dumps(f"{text}!").replace("`", "\\`"), "wait")):
        rule = {"name": text or "empty", "strategy": "None", "allow_stop": True}
        rule["when"] = f'{what}."example.org/owner" == `{value}`'
        (row,) = eviction_strategy([document], [rule], "LiveMigrate")
        assert row["way"] == way, row
        assert row["decided_by"] == (f"rule {rule['name']}" if way == "shutdown" else "default")


@pytest.mark.parametrize("text", ODD)
def test_a_hook_gets_it_as_it_is(text: str) -> None:
    record = NodeRecord(node="n1", run_id="r")
    entry = VMRecord("u", text, decided_by=f"rule {text}", hook_before=f"{text}.yml")
    record.vms["u"] = entry
    decision = Decision({"n1": record}, {}, pending_hooks=[PendingHook(Hook.BEFORE, "u", "n2")])
    (row,) = json.loads(json.dumps(pending_rows(decision, record)))
    assert (row["name"], row["tasks"], row["decided_by"]) == (text, f"{text}.yml", f"rule {text}")
