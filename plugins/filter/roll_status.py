# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import status

DOCUMENTATION = r"""
name: roll_status
short_description: How far a roll and each host of a fleet are
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Puts together what M(virtops.maintenance.maintenance_roll) has read, and what
    the tasks C(info) of the role C(drain) have left in C(drain_info) of the hosts that are out. The
    playbook C(virtops.maintenance.status) prints it and keeps it in C(maintenance_status).
positional: hostvars
options:
  _input:
    description: What the module has returned.
    type: dict
    required: true
  hostvars:
    description: Ansible's C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Keep how far it is
  ansible.builtin.set_fact:
    maintenance_status: "{{ found | virtops.maintenance.roll_status(hostvars) }}"
"""

RETURN = r"""
_value:
  description: What docs/operating.md says of C(maintenance_status).
  type: dict
"""


def roll_status(found: Mapping[str, Any], hostvars: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """As the core has it."""
    names = [row["name"] for row in found["hosts"] if row["name"] in hostvars]
    infos = {name: hostvars[name].get("drain_info") for name in names}
    return status.report(found, {name: info for name, info in infos.items() if info})


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"roll_status": roll_status}
