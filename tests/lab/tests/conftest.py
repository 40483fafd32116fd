"""A lab of its own for the lab's tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab import GuestSpec, Lab, need_lab

# Each process of pytest has its own.
LAB_NAME = "-".join([os.environ.get("VIRTOPS_LAB", "lab")[:20], os.environ.get("PYTEST_XDIST_WORKER", "selftest")])


@pytest.fixture(scope="session")
def lab_name() -> str:
    need_lab()
    return LAB_NAME


@pytest.fixture(scope="session")
def _running(lab_name: str) -> Iterator[None]:
    Lab.down(lab_name)
    Lab.up(lab_name)
    yield
    Lab.down(lab_name)


@pytest.fixture
def lab(lab_name: str, _running: None) -> Lab:
    """The lab, up and repaired."""
    return Lab.up(lab_name)


@pytest.fixture
def guest(lab: Lab) -> Iterator[object]:
    """A function that starts a guest on host-a and waits until it ticks."""
    made: list[str] = []

    def make(name: str, host: str = "host-a", **fields: object) -> GuestSpec:
        spec = GuestSpec(name, **fields)
        made.append(name)
        lab.run(host, spec)
        lab.wait_ticking([name])
        return spec

    yield make
    for name in made:
        lab.remove_guest(name)
