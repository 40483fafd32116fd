"""What counts as a catch when faults are planted, and who is waited for only shortly."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RUN = Path(__file__).resolve().parents[2] / "sabotage" / "run.py"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("sabotage_run", RUN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "sabotage_run", module)
    spec.loader.exec_module(module)
    return module


def fault(run: ModuleType, *tests: str) -> Any:
    return run.Fault("a-fault", "code.py", "right", "wrong", tests, "why", "home.json")


def test_a_test_that_does_not_end_is_no_catch(run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And it ends nothing but its own fault; the file is as it was."""
    (tmp_path / "code.py").write_text("right", encoding="utf-8")

    def hang(*words: Any, **how: Any) -> Any:
        raise subprocess.TimeoutExpired("pytest", how["timeout"])

    monkeypatch.setattr(run.subprocess, "run", hang)
    assert run.plant(tmp_path, fault(run, "tests/a.py::test_a"), 8.0) == ("", False)
    assert (tmp_path / "code.py").read_text(encoding="utf-8") == "right"


def test_only_who_was_quick_without_the_fault_is_waited_for_shortly(run: ModuleType) -> None:
    said = """
============================= slowest durations ==============================
5.20s call     tests/kubevirt/test_a.py::test_slow[with a space]
4.10s setup    tests/kubevirt/test_b.py::test_c
12 passed in 9.00s
"""
    slow = run.slow_ones(said)
    assert run.patience_for(fault(run, "tests/kubevirt/test_a.py::test_quick"), slow) == run.SHORT
    for test in ("test_a.py::test_slow", "test_a.py", "test_b.py::test_c"):
        assert run.patience_for(fault(run, f"tests/kubevirt/{test}"), slow) == run.LONG


def test_a_file_that_cannot_be_imported_among_the_others_is_red(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Pytest then runs none of the others, so nothing is known of them; alone that file may be green."""
    said = {
        2: "ERROR tests/kubevirt/test_b.py - ImportError: cannot import name 'plays'\nInterrupted: 1 error during",
        0: "2 passed in 0.09s",
    }

    def ended(_tree: Path, *words: str, **how: Any) -> Any:
        code = 2 if "tests/a.py" in words else 0
        return subprocess.CompletedProcess(words, code, said[code], "")

    monkeypatch.setattr(run, "run_tests", ended)
    red, _slow = run.red_without_a_fault(tmp_path, ("tests/a.py", "tests/kubevirt/test_b.py"), 2)
    assert "cannot import name 'plays'" in red
