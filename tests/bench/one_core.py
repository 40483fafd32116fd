"""One processor for this process and all that it starts, also for QEMU, to which libvirt gives them all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CPUSETS = Path("/sys/fs/cgroup/cpuset")  # of version 1


@contextmanager
def one_core() -> Iterator[None]:
    """Raises SystemExit where the kernel's cpusets are not mounted. What it started has to end before it does."""
    if not (CPUSETS / "tasks").exists():
        raise SystemExit(f"bench-libvirt: one core needs the cpuset controller at {CPUSETS}")
    made = CPUSETS / f"virtops-bench-{os.getpid()}"
    made.mkdir()
    try:
        (made / "cpuset.cpus").write_text("0")
        (made / "cpuset.mems").write_text("0")
        (made / "tasks").write_text(str(os.getpid()))
        yield
    finally:
        (CPUSETS / "tasks").write_text(str(os.getpid()))
        made.rmdir()
