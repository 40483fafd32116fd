"""For all tests: what Hypothesis tries, and what is told of a lab when a test on it fails.

A busy machine is slow, and that is no fault of what is looked at. In the quick tier the examples
are fewer, and the same in each run; elsewhere each run has new ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tier import QUICK

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "quick", settings.get_profile("any machine"), max_examples=30, derandomize=True, database=None
)
settings.load_profile("quick" if QUICK else "any machine")

REPO = Path(__file__).resolve().parents[1]
# Tests are compiled once, not in each process: that is most of the time of collecting them. Not where
# faults are planted: there a source changes faster than its time stamp tells.
if "VIRTOPS_PLANTED" not in os.environ:
    sys.pycache_prefix = str(REPO / "build" / "cache" / "bytecode")
    sys.dont_write_bytecode = False
BEGAN = pytest.StashKey[float]()  # of its set-up


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Now, while the lab stands."""
    report = yield
    since = item.stash.setdefault(BEGAN, call.start)
    if report.failed and item.get_closest_marker("lab"):
        from lab import autopsy

        report.sections.append(("the lab", autopsy.tell(REPO / "build" / "lab", since)))
    return report
