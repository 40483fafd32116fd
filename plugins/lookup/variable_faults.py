# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lookup variable_faults: what is wrong with the variables that the user gave."""

from __future__ import annotations

DOCUMENTATION = r"""
name: variable_faults
short_description: Find what is wrong with the variables of this collection
version_added: 0.1.0
author: virtops.maintenance contributors (@virtops)
description:
  - Looks at all variables of the host whose names begin with C(maintenance_), C(drain_),
    C(preflight_), C(restore_), C(plan_) or C(rules_).
  - A name that no role and no playbook knows is a fault, and so is a value of another kind than the
    roles' argument specs say. An empty text is as good as not given; no value at all, as YAML has it, is a fault. A
    value that builds on the variables of a role is left to the role.
  - Rules are checked, and hosts of the fleet must be in the inventory.
  - Names of your own that begin like this must be listed in C(maintenance_own_variables), for example a variable of
    your own task files. Any other unknown name is a fault, since it is most likely a typing error.
options:
  _terms:
    description: Hosts whose variables are looked at; none for this host.
    type: list
    elements: str
  roll:
    description:
      - The hosts are those of a roll, which works on the nodes of their names. So C(preflight_node), C(drain_node)
        and C(restore_node) must not name other ones.
      - C(preflight_fleet), C(drain_fleet), C(restore_fleet) and C(plan_fleet) must be the fleet of the roll, which the
        first of these hosts has, and so must C(maintenance_fleet) of each of them.
      - There must be a fleet, and it must be possible to load the task files of C(maintenance_tasks),
        C(maintenance_checks) and C(maintenance_notify), and those of O(hooks).
    type: bool
    default: false
  hooks:
    description: Hooks of rules are run, so it must be possible to load their task files.
    type: bool
    default: false
  own:
    description:
      - The variables of this host are looked at. Those of a host that is not in the fleet are another role's. Of these
        only one is a fault that nearly has the name of C(maintenance_peer_uri), with which it would be in the fleet.
    type: bool
    default: true
  others:
    description:
      - Hosts that are worked on in one play. Two of them that name one node, by C(drain_node) for example, are a
        fault.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Verify the variables
  ansible.builtin.assert:
    that: query('virtops.maintenance.variable_faults') | length == 0
"""

RETURN = r"""
_list:
  description: One sentence for each fault, with the variable, its value and what is expected.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import Fleet
from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll_plan import misnamed, one_node, other_fleet
from ansible_collections.virtops.maintenance.plugins.plugin_utils._task_file import why_not
from ansible_collections.virtops.maintenance.plugins.plugin_utils._variable_checks import faults

_IN_FLEET = "maintenance_peer_uri"
_NO_FLEET = (
    "No host of the inventory has maintenance_peer_uri, so there is no fleet. Give each of them that variable, or for "
    "KubeVirt set maintenance_platform to kubevirt."
)


class LookupModule(LookupBase):
    """Returns sentences; decides nothing."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        known = variables or {}
        hooks = bool(self.get_option("hooks") or self.get_option("roll"))
        told: dict[str, None] = {}  # each fault once, whichever hosts have it
        for given in [known["hostvars"][host] for host in terms] or [known]:
            names = list(given) if self.get_option("own") else get_close_matches(_IN_FLEET, list(given), 1, 0.9)
            found = faults(names, self._reader(given), known["groups"]["all"], self._loader, hooks)
            told |= dict.fromkeys(found)
        if self.get_option("roll"):
            told |= dict.fromkeys(self._of_roll(terms, known))
        others = {host: known["hostvars"][host] for host in self.get_option("others")}
        told |= dict.fromkeys(one_node({host: (given, self._reader(given)) for host, given in others.items()}))
        return list(told)

    def _of_roll(self, hosts: list[str], known: dict[str, Any]) -> list[str]:
        """Found before anything is done, and not on an emptied host."""
        fleet = Fleet(self._templar, known)
        told = [] if fleet.quorum_hosts() else [_NO_FLEET]
        members = [] if fleet.kubevirt else fleet.members
        for host in hosts:
            given = known["hostvars"][host]
            told += misnamed(host, given, self._reader(given))
            told += other_fleet(host, given, self._reader(given), members) if members else []
        for name in ("maintenance_tasks", "maintenance_checks", "maintenance_notify"):
            path = self._templar.template(known.get(name) or "")
            fault = why_not(str(path), self._loader, False) if path else ""
            told += [f"{name}: {fault}."] if fault else []
        return told

    def _reader(self, given: Mapping[str, Any]) -> Callable[[str], Any]:
        def value(name: str) -> Any:
            try:
                return self._templar.template(given[name])
            except AnsibleError as exc:
                raise LookupError(name) from exc

        return value
