# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import figures

DOCUMENTATION = r"""
name: drain_stats
short_description: The drains of a playbook in figures, for later jobs of a workflow
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Counts what the role C(drain) has left in C(drain_result) of the hosts. The playbook
    C(virtops.maintenance.drain) leaves it in the run's statistics.
positional: hostvars
options:
  _input:
    description: Names of the hosts that are to be drained.
    type: list
    elements: str
    required: true
  hostvars:
    description: Ansible's C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Leave the figures to later jobs
  ansible.builtin.set_stats:
    data:
      maintenance_drain_stats: "{{ ansible_play_hosts_all | virtops.maintenance.drain_stats(hostvars) }}"
"""

RETURN = r"""
_value:
  description: C(hosts), C(drained), C(moved) and C(stopped), numbers; and C(not_drained), names.
  type: dict
"""


def drain_stats(hosts: Sequence[str], hostvars: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """As the core has it."""
    return figures.of_drains(hosts, {name: hostvars[name].get("drain_result") or {} for name in hosts})


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"drain_stats": drain_stats}
