"""The example for other people's pipelines, on a lab of its own."""

from __future__ import annotations

from pathlib import Path

import pipeline
import pytest

from lab import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.full]


def test_somebody_elses_project_is_tested_by_the_commands_of_the_page(tmp_path: Path) -> None:
    need_lab()
    done = pipeline.molecule("lab", tmp_path, lab="pipeline")
    assert done.returncode == 0, done.stdout
    assert "TASK [Each host was worked on once]" in done.stdout
