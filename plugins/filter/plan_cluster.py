# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.filter.plan_fleet import from_inventory

DOCUMENTATION = r"""
name: plan_cluster
short_description: A KubeVirt cluster, as the plan wants it
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Puts together what M(virtops.maintenance.kubevirt_fleet_info) returned and what the inventory
    says of the nodes.
  - Reads C(maintenance_reserve), C(maintenance_link_mib_s), C(maintenance_dirty_rates) and
    C(maintenance_working_sets) of each node that the inventory has. VMs are named namespace/name.
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


# The rest (memory, CPU, labels, taints) is the cluster's to tell.
_OF_NODES = ("maintenance_reserve", "maintenance_link_mib_s")


def plan_cluster(
    found: Mapping[str, Any], hostvars: Mapping[str, Mapping[str, Any]], limits: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Raises AnsibleFilterError for what is not the result of kubevirt_fleet_info."""
    if not isinstance(found, Mapping) or "hosts" not in found or "limits" not in found:
        raise AnsibleFilterError("plan_cluster: the result of kubevirt_fleet_info is expected")
    fleet: dict[str, Any] = {"hosts": [], "vms": []}
    for host in found["hosts"]:
        here = [vm for vm in found["vms"] if vm["host"] == host["name"]]
        row, vms = from_inventory(host, here, hostvars, _OF_NODES)
        fleet["hosts"].append(row)
        fleet["vms"] += vms
    outbound = (limits or {}).get("outbound") or found["limits"]["outbound"]
    fleet["limits"] = {**found["limits"], "outbound": min(int(outbound), found["limits"]["outbound"])}
    fleet["quotas"] = found.get("quotas", [])  # an older result, from a file, has none
    return {**fleet, **{key: found[key] for key in ("budgets", "migration")}}


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"plan_cluster": plan_cluster}
