# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOCUMENTATION = r"""
name: failure
short_description: Why a task failed, as it may be told and kept
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Makes a line of C(ansible_failed_result), which has all that the task has said, with what C(no_log) hides. Ansible
    hides that from its own output alone.
  - The roles and playbooks of this collection use it. It is internal to them, and may change in any release.
options:
  _input:
    description: The result of the task. Of a loop the last item that failed is told of.
    type: dict
    required: true
  no_log:
    description:
      - The C(no_log) of the task. All but V(false) hides the result, a template that was not evaluated too.
    type: raw
    required: true
positional: no_log
"""

EXAMPLES = r"""
- name: Patch the host
  block:
    - name: Run your tasks
      ansible.builtin.include_tasks:
        file: patch.yml
  rescue:
    - name: Tell why it failed
      ansible.builtin.debug:
        msg: "{{ ansible_failed_result | virtops.maintenance.failure(ansible_failed_task.no_log | default(true)) }}"
"""

RETURN = r"""
_value:
  description: Its message, without a full stop, and the last five lines that it wrote to stderr.
  type: str
"""

_LINES = 5


def failure(result: Mapping[str, Any], no_log: Any) -> str:
    """Of a task file that could not be loaded there is no result. It raises nothing, whatever a module returned: in a
    rescue that would be one more failure, of which nobody is told."""
    last = _last_failed(result.get("results")) or result
    if last and no_log not in (False, None):
        return "its output is hidden (no_log)"
    text = str(last.get("msg") or "see above").strip()
    lines = last.get("stderr_lines")
    errors = " ".join(map(str, lines[-_LINES:])) if isinstance(lines, list) else ""
    return ": ".join(filter(None, (text.removesuffix("."), errors)))


def _last_failed(results: Any) -> Mapping[str, Any]:
    """Of the items of a loop; empty: none. Modules have results of this name, too, which may be anything."""
    items = results if isinstance(results, list) else ()
    failed = [item for item in items if isinstance(item, Mapping) and item.get("failed")]
    return failed[-1] if failed else {}


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"failure": failure}
