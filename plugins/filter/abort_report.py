# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import status

DOCUMENTATION = r"""
name: abort_report
short_description: What became of the hosts and VMs of a roll that was aborted
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Puts together what the role C(restore) has left in C(restore_result) of the hosts that were out.
    The playbook C(virtops.maintenance.abort) prints it and keeps it in C(maintenance_aborted).
positional: hostvars, roll, play_hosts
options:
  _input:
    description: Names of the hosts that were out.
    type: list
    elements: str
    required: true
  hostvars:
    description: Ansible's C(hostvars).
    type: dict
    required: true
  roll:
    description: The record of the roll, as the abort found it. None if there was none.
    type: dict
    required: true
  play_hosts:
    description: Names of all hosts of the play, C(ansible_play_hosts_all).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Keep what became of the VMs
  ansible.builtin.set_fact:
    maintenance_aborted: >-
      {{ ['host-a'] | virtops.maintenance.abort_report(hostvars, roll, ansible_play_hosts_all) }}
"""

RETURN = r"""
_value:
  description:
    - C(roll), the record; C(hosts), each with C(name), C(stage) (in which the abort found it),
      C(given_back) and C(message); C(vms), each with C(host), C(name), C(at), C(outcome) and
      C(message) as RV(virtops.maintenance.virt_drain#module:outcomes) has them; C(lines), the
      same for people; and C(stats), the roll in figures.
  type: dict
"""


def abort_report(
    out: Sequence[str],
    hostvars: Mapping[str, Mapping[str, Any]],
    roll: Mapping[str, Any] | None,
    play_hosts: Sequence[str],
) -> dict[str, Any]:
    """As the core has it."""
    restores = {name: _restore(name, hostvars, play_hosts) for name in out}
    return status.aborted(roll, out, restores)


def _restore(name: str, hostvars: Mapping[str, Mapping[str, Any]], play_hosts: Sequence[str]) -> Mapping[str, Any]:
    if name not in hostvars:
        return {"msg": "it is not in the inventory, so nothing was done with it"}
    if name not in play_hosts:
        return {"msg": "it is not among the hosts of this command, so nothing was done with it: abort without a limit"}
    return hostvars[name].get("restore_result") or {}


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"abort_report": abort_report}
