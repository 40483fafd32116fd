"""The simulator as a process of its own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
from kubesim.process import Process

with Process(Path(sys.argv[1])) as server:
    print((server.directory / "pid").read_text(), flush=True)
    sys.stdin.read()
"""
PATIENCE = 60.0


def test_a_simulator_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        simulator = os.pidfd_open(int(program.stdout.readline()))
        program.kill()
    try:
        assert select.select([simulator], [], [], PATIENCE)[0]
    finally:
        os.close(simulator)
