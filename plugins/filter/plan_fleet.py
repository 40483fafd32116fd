# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import plan_fleet

DOCUMENTATION = r"""
name: plan_fleet
short_description: Hosts and VMs of a fleet, in the form the plan expects
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Puts together what M(virtops.maintenance.virt_host_info) or M(virtops.maintenance.virt_preflight)
    returned as C(fleet) on each host, and what the inventory says of the hosts.
  - A host that was not read itself is known from its peers, with the sums of its VMs alone.
  - Reads C(maintenance_memory), C(maintenance_reserve), C(maintenance_link_mib_s),
    C(maintenance_labels), C(maintenance_taints), C(maintenance_dirty_rates) and
    C(maintenance_working_sets) of each host. The last two are mappings from the name of a VM to
    MiB/s, and to the MiB that it writes over and over.
  - The roles and playbooks of this collection use it. It is internal to them, and may change in any release.
positional: hostvars
options:
  _input:
    description: The C(fleet) of each host.
    type: list
    elements: dict
    required: true
  hostvars:
    description: The variables of all hosts, normally C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  virtops.maintenance.maintenance_plan:
    hosts: "{{ fleet.hosts }}"
    vms: "{{ fleet.vms }}"
    roll: "{{ groups['kvm'] }}"
  vars:
    fleet: >-
      {{ groups['kvm'] | map('extract', hostvars, 'host') | map(attribute='fleet') | list
      | virtops.maintenance.plan_fleet(hostvars) }}
"""

RETURN = r"""
_value:
  description: C(hosts) and C(vms), as the options of M(virtops.maintenance.maintenance_plan).
  type: dict
"""


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"plan_fleet": plan_fleet}
