# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import peers

DOCUMENTATION = r"""
name: peers
short_description: The other hosts of a fleet, as the libvirt modules want them
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Makes the O(virtops.maintenance.virt_drain#module:peers) list of a host from the variables of
    all hosts of its fleet.
  - Reads C(maintenance_peer_uri) (required), C(maintenance_memory), C(maintenance_reserve),
    C(maintenance_migrate_uri), C(maintenance_labels) and C(maintenance_taints) of each host.
positional: hostvars, node, roll
options:
  _input:
    description: Names of all hosts of the fleet. The host itself may be among them.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts, normally C(hostvars).
    type: dict
    required: true
  node:
    description: The host itself, which is left out.
    type: str
    required: true
  roll:
    description: Hosts of the roll that are still to come, in their order. They are chosen last.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Empty a host of the group kvm
  virtops.maintenance.virt_drain:
    node: "{{ inventory_hostname }}"
    peers: "{{ groups['kvm'] | virtops.maintenance.peers(hostvars, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: One entry a peer, with C(name), C(uri), C(migrate_uri), C(memory), C(reserve),
    C(roll_rank), C(labels) and C(taints).
  type: list
  elements: dict
"""


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"peers": peers}
