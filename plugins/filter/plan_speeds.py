# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

DOCUMENTATION = r"""
name: plan_speeds
short_description: Link speeds and VM rates from the inventory, for check mode's estimates
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Makes the O(virtops.maintenance.virt_drain#module:speeds) of a host from the variables of all
    hosts of its fleet.
  - Reads C(maintenance_speeds), C(maintenance_dirty_rates) and C(maintenance_working_sets) of the
    host itself, and C(maintenance_link_mib_s) of each host.
  - The roles and playbooks of this collection use it. It is internal to them, and may change in any release.
positional: hostvars, node
options:
  _input:
    description: Names of all hosts of the fleet.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts, normally C(hostvars).
    type: dict
    required: true
  node:
    description: The host itself.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: What would a drain do, and how long would it take?
  virtops.maintenance.virt_drain:
    node: "{{ inventory_hostname }}"
    peers: "{{ groups['kvm'] | virtops.maintenance.peers(hostvars, inventory_hostname) }}"
    speeds: "{{ groups['kvm'] | virtops.maintenance.plan_speeds(hostvars, inventory_hostname) }}"
  check_mode: true
"""

RETURN = r"""
_value:
  description: What is known, with the keys of the option.
  type: dict
"""


def plan_speeds(fleet: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]], node: str) -> dict[str, Any]:
    """Return the speeds that are known of each host; the others are left out."""
    # hostvars.get is undefined for a host that the inventory does not have.
    own: Mapping[str, Any] = hostvars[node] if node in hostvars else {}  # noqa: SIM401
    found = dict(own.get("maintenance_speeds") or {})
    links = {
        name: hostvars[name]["maintenance_link_mib_s"]
        for name in {*fleet, node}
        if name in hostvars and hostvars[name].get("maintenance_link_mib_s")
    }
    for key, more in (
        ("links", links),
        ("dirty_rates", own.get("maintenance_dirty_rates")),
        ("working_sets", own.get("maintenance_working_sets")),
    ):
        if more:
            found[key] = {**(found.get(key) or {}), **more}
    return found


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"plan_speeds": plan_speeds}
