# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight import report

DOCUMENTATION = r"""
name: preflight_report
short_description: What prevents the drain of each of several hosts
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Puts together what the role C(preflight) has left in C(preflight_result) of each host. The
    playbook C(virtops.maintenance.preflight) prints it and keeps it in C(maintenance_preflight).
positional: hostvars, fail_on
options:
  _input:
    description: Names of the hosts. Those that were not checked are left out.
    type: list
    elements: str
    required: true
  hostvars:
    description: Ansible's C(hostvars).
    type: dict
    required: true
  fail_on:
    description:
      - What makes a host blocked. V(blockers), or V(node_blockers) for those of them that are not
        about a single VM or pod, or V(nothing). A host that could not be checked is blocked anyway.
    type: str
    choices: [blockers, node_blockers, nothing]
    default: blockers
"""

EXAMPLES = r"""
- name: Keep what prevents the drains
  ansible.builtin.set_fact:
    maintenance_preflight: >-
      {{ ansible_play_hosts_all | virtops.maintenance.preflight_report(hostvars) }}
"""

RETURN = r"""
_value:
  description: What docs/operating.md says of C(maintenance_preflight).
  type: dict
"""


def preflight_report(
    names: Sequence[str], hostvars: Mapping[str, Mapping[str, Any]], fail_on: str = "blockers"
) -> dict[str, Any]:
    """As the core has it."""
    results = {name: hostvars[name].get("preflight_result") for name in names}
    return report.report({name: found for name, found in results.items() if found}, fail_on)


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"preflight_report": preflight_report}
