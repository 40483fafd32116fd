# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action.reboot import ActionModule as Reboot
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import too_old
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.reboot import in_vain
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.own_boot import BOOT_ID
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import clocks, playbook
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain, stamped
from ansible_collections.virtops.maintenance.plugins.plugin_utils._unanswered import within

# Seconds between two lines, and as much more as one try takes.
EVERY = 15.0
# Seconds for a host that was rebooted in vain to say which boot it is in. Its task has no deadline.
ANSWERS_WITHIN = 30


class Told:
    """Says now and then why the host is not back yet."""

    def __init__(self, host: str, show: Callable[[str], Any], mono: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._show = show
        self._mono = mono
        self._began = self._said = mono()

    def tries(self, what: Callable[..., Any], **more: Any) -> None:
        try:
            what(**more)
        except Exception as exc:
            now = self._mono()
            if now - self._said >= EVERY:
                self._said = now
                self._show(stamped(f"{self._host} has been rebooting for {now - self._began:.0f} s: {_why(exc)}"))
            raise


def _why(exc: Exception) -> str:
    if isinstance(exc, AnsibleConnectionFailure):
        return "it does not answer yet"
    text = plain(([line for line in str(exc).splitlines() if line.strip()] or [type(exc).__name__])[-1].strip())
    return "it has not gone down yet" if text == "boot time has not changed" else f"it answers, and {text}"


class ActionModule(Reboot):
    """Ansible's reboot, which says nothing until it has ended, and asks nobody before it."""

    def do_until_success_or_timeout(self, action: Any, *args: Any, **more: Any) -> Any:
        return super().do_until_success_or_timeout(partial(self._told.tries, action), *args, **more)

    def get_shutdown_command_args(self, distribution: Any) -> Any:
        """The last that Ansible asks for, right before it gives the command: the host has been read until then."""
        playbook()
        why = too_old(self._host, self._asked, clocks()) if self._asked else ""
        if why:
            raise AnsibleActionFail(plain(why))
        return super().get_shutdown_command_args(distribution)

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        playbook()
        self._host = host = str((task_vars or {}).get("inventory_hostname"))
        self._told = Told(host, Display().display)
        self._task.args = dict(self._task.args)
        before = str(self._task.args.pop("boot_id", "") or "")
        self._asked: dict[str, float] = dict(self._task.args.pop("asked", None) or {})
        result = super().run(tmp, task_vars)
        # Which Ansible refuses: it is the controller's boot that one would read.
        if result.get("failed") and self._connection.transport != "local":
            now = self._boot_id()
            result["rebooted"] = now not in ("", before)
            result["msg"] = in_vain(host, str(result["msg"]), result.get("elapsed", 0), before, now)
        return dict(result)

    def _boot_id(self) -> str:
        """Empty: it does not answer."""
        try:
            with within(ANSWERS_WITHIN):
                return str(self._low_level_execute_command(f"cat {BOOT_ID}")["stdout"]).strip()
        except (AnsibleConnectionFailure, TimeoutError):
            return ""
