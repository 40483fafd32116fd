# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: plan_fleet
short_description: Hosts and VMs of a fleet, in the form the plan expects
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Puts together what M(virtops.maintenance.virt_host_info) returned as C(fleet) on each host, and
    what the inventory says of the hosts.
  - Reads C(maintenance_memory), C(maintenance_reserve), C(maintenance_link_mib_s),
    C(maintenance_labels), C(maintenance_taints), C(maintenance_dirty_rates) and
    C(maintenance_working_sets) of each host. The last two are mappings from the name of a VM to
    MiB/s, and to the MiB that it writes over and over.
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

# Inventory variable -> key of a host
_FROM_INVENTORY = {
    "maintenance_memory": "memory_mib",
    "maintenance_reserve": "reserve_mib",
    "maintenance_link_mib_s": "link_mib_s",
    "maintenance_labels": "labels",
    "maintenance_taints": "taints",
}
# The same for VMs: name of a VM -> value
_OF_VMS = {"maintenance_dirty_rates": "dirty_rate", "maintenance_working_sets": "working_set_mib"}


def plan_fleet(
    found: Iterable[Mapping[str, Any]], hostvars: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Raises AnsibleFilterError for what is not the result of virt_host_info."""
    hosts: list[dict[str, Any]] = []
    vms: list[dict[str, Any]] = []
    for one in found:
        if not isinstance(one, Mapping) or "host" not in one or "vms" not in one:
            raise AnsibleFilterError("plan_fleet: a list of what virt_host_info returns as fleet is expected")
        host, rows = from_inventory(one["host"], one["vms"], hostvars)
        hosts.append(host)
        vms += rows
    return {"hosts": hosts, "vms": vms}


def from_inventory(
    host: Mapping[str, Any],
    vms: Iterable[Mapping[str, Any]],
    hostvars: Mapping[str, Mapping[str, Any]],
    variables: Iterable[str] = tuple(_FROM_INVENTORY),
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A host and its VMs with what the inventory says of them. `variables`: of the host."""
    facts: Mapping[str, Any] = hostvars.get(host["name"], {})
    reported = {_FROM_INVENTORY[name]: facts[name] for name in variables if facts.get(name)}
    rows = []
    for vm in vms:
        row = dict(vm)
        for variable, key in _OF_VMS.items():
            value = (facts.get(variable) or {}).get(vm["name"])
            if value:
                row[key] = value
        rows.append(row)
    return {**host, **reported}, rows


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"plan_fleet": plan_fleet}
