"""Writes what drains and migrations returned, a JSON object a line, to VIRTOPS_RESULTS' file."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: virt_drain_results
type: aggregate
short_description: Keeps what drains and migrations returned
author: The virtops.maintenance contributors (@virtops)
description:
  - Appends the result of every task of virt_drain, virt_migration and virt_migration_info, and of
    maintenance_host where it drained or restored, to the file that VIRTOPS_RESULTS names.
requirements:
  - enabled in the configuration
"""

KEPT = ("maintenance_host", "virt_drain", "virt_migration", "virt_migration_info")


class CallbackModule(CallbackBase):
    """For the demo and the tests; the product does not need it."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "virt_drain_results"
    CALLBACK_NEEDS_ENABLED = True

    def _keep(self, result: Any) -> None:
        task = getattr(result, "task", None) or result._task
        if task.action.rpartition(".")[2] not in KEPT:
            return
        host = getattr(result, "host", None) or result._host
        data = result.result if hasattr(result, "result") else result._result
        if task.action.endswith("maintenance_host") and ("not_ready" in data or not {"vms", "msg"} & set(data)):
            return  # a check, or a host that was not drained
        path = os.environ.get("VIRTOPS_RESULTS")
        if path:
            line = json.dumps({"host": host.get_name(), **data}, default=str) + "\n"
            with open(path, "a", encoding="utf-8") as stream:
                stream.write(line)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._keep(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._keep(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._keep(result)
