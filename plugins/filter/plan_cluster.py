# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import plan_cluster

DOCUMENTATION = r"""
name: plan_cluster
short_description: A KubeVirt cluster, as the plan wants it
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Puts together what M(virtops.maintenance.kubevirt_fleet_info) returned and what the inventory
    says of the nodes.
  - Reads C(maintenance_reserve), C(maintenance_link_mib_s), C(maintenance_dirty_rates) and
    C(maintenance_working_sets) of each node that the inventory has. VMs are named namespace/name.
  - The roles and playbooks of this collection use it. It is internal to them, and may change in any release.
positional: hostvars, limits
options:
  _input:
    description: The result of the module.
    type: dict
    required: true
  hostvars:
    description: The variables of all hosts, normally C(hostvars).
    type: dict
    required: true
  limits:
    description: With C(outbound), what the drain itself asks for at once, if that is less.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Plan
  virtops.maintenance.maintenance_plan:
    platform: kubevirt
    hosts: "{{ fleet.hosts }}"
    vms: "{{ fleet.vms }}"
    limits: "{{ fleet.limits }}"
    roll: "{{ groups['nodes'] }}"
  vars:
    fleet: "{{ cluster | virtops.maintenance.plan_cluster(hostvars) }}"
"""

RETURN = r"""
_value:
  description: C(hosts), C(vms), C(budgets), C(quotas), C(limits) and C(migration), as the options
    of M(virtops.maintenance.maintenance_plan).
  type: dict
"""


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"plan_cluster": plan_cluster}
