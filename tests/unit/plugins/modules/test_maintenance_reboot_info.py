"""The tools of a host are asked, and not for ever."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import reboot
from ansible_collections.virtops.maintenance.plugins.modules.maintenance_reboot_info import COMMANDS, command_says


@pytest.mark.parametrize(("command", "read"), COMMANDS)
def test_a_tool_that_hangs_gives_no_answer(command, read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As dnf does, in silence, beside another one that waits for its mirror."""
    tool = tmp_path / command[0]
    tool.write_text("#!/bin/sh\nsleep 30\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setattr(reboot, "ANSWERS_WITHIN", 0.2)

    def run_command(args: list[str], **_more: object) -> tuple[int, str, str]:
        done = subprocess.run(args, capture_output=True, text=True, check=False, timeout=20)
        return done.returncode, done.stdout, done.stderr

    module = SimpleNamespace(get_bin_path=lambda *_args, **_more: str(tool), run_command=run_command)
    told = command_says(module, command, read)
    assert told is not None and told.needed is None
    assert told.why.startswith("nothing") and told.why.endswith("(no answer in 0.2 s)")
