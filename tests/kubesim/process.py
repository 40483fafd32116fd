"""A simulated cluster in a process of its own, for programs that must not share one with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

TESTS = Path(__file__).resolve().parents[1]


class Process:
    """`python -m kubesim` in `directory` (see there). `accounts`: name -> file of a ClusterRole.

    It ends with this program, however that ends.
    """

    def __init__(self, directory: Path, accounts: Mapping[str, Path] | None = None, *options: str) -> None:
        self.directory = directory
        self._command = [sys.executable, "-m", "kubesim", str(directory), "--parent", str(os.getpid()), *options]
        for name, role in (accounts or {}).items():
            self._command += ["--account", f"{name}={role}"]

    def kubeconfig(self, account: str = "") -> Path:
        """The administrator's without `account`."""
        return self.directory / (f"kubeconfig-{account}" if account else "kubeconfig")

    def __enter__(self) -> Process:
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        # A Ctrl-C is for the one who started it; it is ended by us, after its log is read.
        self._process = subprocess.Popen(self._command, env=environment, start_new_session=True)
        deadline = time.monotonic() + 120
        while not (self.directory / "pid").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError("the simulator did not start")
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(30)
        if code and kind is None:
            raise RuntimeError(f"the simulator ended with {code}: see what it said above")
