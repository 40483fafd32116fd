"""docs/examples/pipeline as a project of its own, where this clone is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "pipeline"
PAGE = ROOT / "docs" / "pipelines.md"
LONGEST = 900  # seconds: for a hang alone


def molecule(scenario: str, folder: Path, lab: str = "") -> subprocess.CompletedProcess[str]:
    """The command that the page shows for this scenario. `lab`: not to take the place of another one."""
    command = f"molecule test -s {scenario}"
    assert command in PAGE.read_text(encoding="utf-8").splitlines()
    project = folder / "project"
    shutil.copytree(EXAMPLE, project)
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ANSIBLE_COLLECTIONS_PATH")}
    env |= {"VIRTOPS": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "NO_COLOR": "1"}
    if lab:
        env["VIRTOPS_LAB"] = lab
    return subprocess.run(
        command.split(),
        cwd=project,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LONGEST,
        check=False,
    )
