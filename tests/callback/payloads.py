"""Keeps what Ansible packs from one run of a test to the next.

Ansible packs each module with all that it imports once in a run, one and a half seconds of processor time for each
of ours, and keeps that in a folder of the run. In tests this folder is one for all runs from the same sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from ansible import constants
from ansible.executor import module_common
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: payloads
type: aggregate
short_description: Keeps the payloads of modules from run to run
author: The virtops.maintenance contributors (@virtops)
description:
  - Makes the folder of packed modules one for all runs of tests. It shows nothing.
requirements:
  - enabled in the configuration
"""

ROOT = Path(__file__).resolve().parents[2]
# Benchmarks have what a user has. Where faults are planted a source changes faster than its time stamp tells.
IN_A_TEST = bool({"PYTEST_CURRENT_TEST", "MOLECULE_PROJECT_DIRECTORY"} & {*os.environ})
WANTED = IN_A_TEST and "VIRTOPS_PLANTED" not in os.environ


def folder() -> Path:
    """Named by the sources: a change has a folder of its own, and those of an hour ago go."""
    stamp = hashlib.sha256(module_common.__file__.encode())
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        about = path.stat()
        stamp.update(f"{path} {about.st_mtime_ns} {about.st_size}\n".encode())
    found = ROOT / "build" / "cache" / "payloads" / stamp.hexdigest()[:16]
    if not found.exists():
        for other in found.parent.glob("*"):
            if time.time() - other.stat().st_mtime > 3600:
                shutil.rmtree(other, ignore_errors=True)
        found.mkdir(parents=True, exist_ok=True)
    return found


class CallbackModule(CallbackBase):
    """For tests; the product does not need it."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "payloads"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        # Older versions of ansible-core do not lock a payload against other runs.
        if WANTED and hasattr(module_common, "_locking"):
            with suppress(OSError):
                os.symlink(folder(), Path(constants.DEFAULT_LOCAL_TMP) / "ansiballz_cache")
