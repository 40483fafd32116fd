# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the KubeVirt modules: argument specs, and the core's objects made of them."""

from __future__ import annotations

import getpass
import os
import secrets
import time
from collections.abc import Mapping
from typing import Any

from .._core.model import OnNotMigratable
from .._core.policy import Limits, Policy
from .auth import settings

RUN_SPEC: dict[str, Any] = {
    "run_id": {"type": "str"},
    "requester": {"type": "str", "default": ""},
    "reason": {"type": "str", "default": ""},
    "slice": {"type": "int", "default": 12},
    "lock_namespace": {"type": "str", "default": "default"},
}
POLICY_SPEC: dict[str, Any] = {
    "on_not_migratable": {
        "type": "str",
        "choices": ["block", "shutdown", "skip"],
        "default": "block",
    },
    "allow_stop": {"type": "bool", "default": False},
    "max_attempts": {"type": "int", "default": 3},
    "backoff": {"type": "float", "default": 5.0},
    "shutdown_timeout": {"type": "float", "default": 300.0},
    "external_timeout": {"type": "float", "default": 300.0},
    "unknown_timeout": {"type": "float", "default": 60.0},
    "pending_timeout": {"type": "float", "default": 300.0},
    "drain_timeout": {"type": "float", "default": 3600.0},
}
# KubeVirt's migration controller queues by its own limits; asking for all at once is what lets
# it use them fully.
_KUBEVIRTS = Limits(10**6, 10**6, 10**6)


def auth(params: Mapping[str, Any]) -> dict[str, Any]:
    """How the API is reached: the options, else K8S_AUTH_* of the environment."""
    return settings(params, os.environ)


def policy(params: Mapping[str, Any]) -> Policy:
    """The policy. Raises PolicyError naming what is wrong."""
    names = (
        "allow_stop",
        "max_attempts",
        "backoff",
        "shutdown_timeout",
        "external_timeout",
        "unknown_timeout",
        "pending_timeout",
        "drain_timeout",
    )
    return Policy(
        on_not_migratable=OnNotMigratable(params["on_not_migratable"]),
        limits=_KUBEVIRTS,
        **{name: params[name] for name in names},
    )


def run_id(params: Mapping[str, Any]) -> str:
    """The run's id: given, or made of the time and a random part."""
    return params.get("run_id") or f"{int(time.time())}-{secrets.token_hex(3)}"


def requester(params: Mapping[str, Any]) -> str:
    """Who asks: given, or the user of this process."""
    if params.get("requester"):
        return str(params["requester"])
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
