# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.claims import admission

DOCUMENTATION = r"""
name: quorum_hosts
short_description: The hosts of a fleet that count its slots and keep the record of a roll
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Three hosts, or all of a smaller fleet, in the order in which they are asked.
positional: first
options:
  _input:
    description: Names of all hosts of the fleet.
    type: list
    elements: str
    required: true
  first:
    description:
      - One that is to be among them, as C(maintenance_slots_on) says. Empty for the first by name.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Show who counts
  ansible.builtin.debug:
    msg: "{{ groups['kvm'] | virtops.maintenance.quorum_hosts }}"
"""

RETURN = r"""
_value:
  description: Names of hosts.
  type: list
  elements: str
"""


def quorum_hosts(fleet: Iterable[str], first: str = "") -> list[str]:
    """As the modules have it."""
    return list(admission.quorum_hosts(fleet, first))


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"quorum_hosts": quorum_hosts}
