"""The example for other people's pipelines, on the simulator."""

from __future__ import annotations

import os
from pathlib import Path

import pipeline
import pytest

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("VIRTOPS_KUBECONFIG")), reason="needs the simulator: its nodes have names of their own"
)


@pytest.mark.full
def test_somebody_elses_project_is_tested_by_the_commands_of_the_page(tmp_path: Path) -> None:
    done = pipeline.molecule("simulator", tmp_path)
    assert done.returncode == 0, done.stdout
    assert "TASK [Each node was worked on once]" in done.stdout


@pytest.mark.full
def test_its_check_is_red_where_the_work_was_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = tmp_path / "example"
    pipeline.shutil.copytree(pipeline.EXAMPLE, example)
    tasks = example / "maintenance" / "firmware.yml"
    tasks.write_text(tasks.read_text(encoding="utf-8").partition("- name: Update")[0], encoding="utf-8")
    monkeypatch.setattr(pipeline, "EXAMPLE", example)
    assert pipeline.molecule("simulator", tmp_path).returncode != 0
