"""Which taints keep which VM away, as the scheduler has it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import tolerations

TAINT = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "keeps_away"),
    [
        ({"operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "gpu", "value": "a100"}, False),
        ({"key": "gpu", "operator": "Equal", "value": "a100", "effect": ""}, False),
        ({"key": "gpu", "value": "h100"}, True),
        ({"key": "gpu"}, True),
        ({"key": "other", "operator": "Exists"}, True),
        ({"value": "a100"}, True),
    ],
)
def test_a_toleration(toleration: dict[str, Any], keeps_away: bool) -> None:
    assert bool(tolerations.untolerated([TAINT], [toleration])) == keeps_away


def test_every_taint_has_to_be_tolerated() -> None:
    other = {"key": "spot", "effect": "NoExecute"}
    left = tolerations.untolerated([TAINT, other], [{"key": "gpu", "operator": "Exists"}])
    assert left == [other] and tolerations.shown(other) == "spot:NoExecute"
    assert tolerations.shown(TAINT) == "gpu=a100:NoSchedule"


def test_a_wish_keeps_nobody_away() -> None:
    soft = {"key": "busy", "effect": "PreferNoSchedule"}
    assert tolerations.hard({"spec": {"taints": [soft, TAINT]}}) == [TAINT]
    assert tolerations.hard({}) == []


def test_the_pod_is_believed_rather_than_the_vm() -> None:
    mine, added = {"key": "gpu"}, {"key": "spot"}
    vmi, pod = {"spec": {"tolerations": [mine]}}, {"spec": {"tolerations": [mine, added]}}
    assert tolerations.of(vmi) == [mine] and tolerations.of(vmi, pod) == [mine, added]
    assert tolerations.of(vmi, {"spec": {}}) == [mine] and tolerations.of({}) == []


def test_the_order_does_not_matter() -> None:
    one, two = {"key": "a", "value": "b"}, {"key": "c"}
    assert tolerations.key([one, two]) == tolerations.key([two, {"value": "b", "key": "a"}])
    assert tolerations.key([one]) != tolerations.key([two])
