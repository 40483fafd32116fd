# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lookup task_file: the real path of a user's task file, or an error if it cannot be run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: task_file
short_description: The real path of a task file that can be loaded
version_added: 0.1.0
author: virtops.maintenance contributors (@virtops)
description:
  - Made for C(file) of M(ansible.builtin.include_tasks). There a file with an error in its YAML, or
    with a module that does not exist, ends the whole run, and C(rescue) does not help. With this
    lookup the task fails on its host instead.
  - Files that the file itself includes or imports are not looked at.
options:
  _terms:
    description: Paths on the controller, also with C(~). A relative one starts where Ansible was started.
    type: list
    elements: str
    required: true
  role:
    description: Whether the tasks are included by a role, where C(meta=end_role) is possible.
    type: bool
    default: true
  asked:
    description:
      - When the record of a roll was asked whether to go on with the host, as C(turn.asked) of
        M(virtops.maintenance.maintenance_host) says. If the controller stood still since, that is an error.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Run the tasks of the user
  ansible.builtin.include_tasks:
    file: "{{ lookup('virtops.maintenance.task_file', 'work.yml') }}"
"""

RETURN = r"""
_list:
  description: The real paths.
  type: list
  elements: str
"""

import os
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import too_old
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import clocks
from ansible_collections.virtops.maintenance.plugins.plugin_utils._paths import on_controller
from ansible_collections.virtops.maintenance.plugins.plugin_utils._task_file import why_not


class LookupModule(LookupBase):
    """Raises AnsibleLookupError for the first file that cannot be run, or may not be any more."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        asked = self.get_option("asked")
        late = too_old(str((variables or {}).get("inventory_hostname")), asked, clocks()) if asked else ""
        if late:
            raise AnsibleLookupError(late)
        for path in terms:
            fault = why_not(str(path), self._loader, bool(self.get_option("role")))
            if fault:
                raise AnsibleLookupError(fault)
        return [os.path.realpath(on_controller(path)) for path in terms]
