"""Quantities, in each form that the API keeps."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import facts, quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("64e9", 64e9),
        ("1E3", 1000.0),
        ("1E", 1e18),
        ("1Ei", 2.0**60),
        ("250u", 250e-6),
        (".5", 0.5),
        ("+2.k", 2000.0),
        ("x", 0.0),
        ("1.2.3", 0.0),
        (None, 0.0),
        (0, 0.0),
    ],
)
def test_a_number_of_something(text: object, number: float) -> None:
    assert quantity.amount(text) == pytest.approx(number)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("128Mi", 128),
        ("2Gi", 2048),
        ("1G", 954),
        ("1073741824", 1024),
        ("129e6", 123),
        ("12E", 11444091796875),
        ("2Pi", 2147483648),
        ("128974848000m", 123),
        ("10Ki", 1),
        ("0Mi", 0),
        ("", 0),
        ("x", 0),
    ],
)
def test_memory_of_a_guest(text: str, mib: int) -> None:
    vmi = {"metadata": {}, "spec": {"domain": {"memory": {"guest": text}}}}
    assert quantity.mib(text) == facts.memory_mib(vmi) == mib
