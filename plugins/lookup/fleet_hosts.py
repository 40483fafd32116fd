# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_hosts
short_description: The hosts of a fleet, or its quorum hosts
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - A libvirt fleet is the hosts that C(maintenance_fleet) names, else all of the inventory that have a
    C(maintenance_peer_uri).
  - The quorum hosts of a libvirt fleet are the first three by name. They store the record of a roll and count the
    migration slots.
  - For KubeVirt this is the host that asks the API, C(maintenance_api_host).
options:
  keep_record:
    description: Only the quorum hosts, in the order in which they are asked.
    type: bool
    default: false
  without:
    description: With O(keep_record), a host of the fleet that cannot be asked.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Show the quorum hosts
  ansible.builtin.debug:
    msg: "{{ query('virtops.maintenance.fleet_hosts', keep_record=true) }}"
"""

RETURN = r"""
_raw:
  description: Names of hosts.
  type: list
  elements: str
"""

from typing import Any

from ansible.plugins.lookup import LookupBase

from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import Fleet


class LookupModule(LookupBase):
    """Asks nobody: they follow from the inventory."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        fleet = Fleet(self._templar, variables or {})
        return fleet.quorum_hosts(self.get_option("without")) if self.get_option("keep_record") else fleet.members
