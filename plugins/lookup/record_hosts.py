# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: record_hosts
short_description: The hosts that keep the record of a roll
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - On libvirt these are three hosts of the fleet, or all of a smaller one, in the order in which they are asked. They
    count its slots as well.
  - On KubeVirt it is the host that asks the API.
  - Reads C(maintenance_platform), C(maintenance_fleet), C(maintenance_slots_on) and C(maintenance_api_host).
options:
  without:
    description: A host of the fleet that cannot be asked.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Show who keeps the record
  ansible.builtin.debug:
    msg: "{{ query('virtops.maintenance.record_hosts') }}"
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
        return Fleet(self._templar, variables or {}).record_hosts(self.get_option("without"))
