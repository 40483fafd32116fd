"""Paths on the controller that the user gave: whoever opens, writes or looks for one reads it alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.utils.path import unfrackpath


def on_controller(given: Any) -> Path:
    """As Ansible reads an option of type path, with ~ and $HOME. A relative one starts where Ansible was started."""
    return Path(unfrackpath(str(given), follow=False))


__all__ = ["on_controller"]
