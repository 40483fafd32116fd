#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_roll
short_description: Keep the record of a roll in a fleet of libvirt hosts
description:
  - What M(virtops.maintenance.maintenance_roll) calls on libvirt.
  - The playbooks of this collection use it. It is internal to them, and may change in any release.
  - The record is a volume in the pool C(virtops) of the quorum hosts, three or fewer.
    It can be read and written as long as most of them answer.
author:
  - The virtops.maintenance contributors (@virtops)
extends_documentation_fragment:
  - virtops.maintenance._libvirt
  - virtops.maintenance._roll
  - virtops.maintenance._roll.playbook
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: Each host has its turn at once. Nothing is written.
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Read the record of the roll, as maintenance_roll does on a quorum host
  virtops.maintenance.virt_roll:
    state: read
    node: host-a
    uri: qemu:///system
  register: found
"""

RETURN = r"""
roll:
  description: The record, as M(virtops.maintenance.maintenance_roll) describes it. None if there is none.
  returned: success
  type: dict
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: RollRefused
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.claims.admission import quorum_hosts
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.options import ASKED_SPEC, answer_of
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.errors import Failed, as_failed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.own_boot import own_boot_id
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.roll import (
    RollVolumes,
    fleet_of,
    system_clock,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


def main() -> None:
    module = AnsibleModule(argument_spec={**options.HOSTS_SPEC, **ASKED_SPEC, **lives.SPEC}, supports_check_mode=True)
    module.debug(_kept.STATE)
    params = {**module.params, **module.params["request"]}
    try:
        with as_failed():
            own, peers = options.own_config(params), options.peer_configs(params)
            hosts = fleet_of(own, peers, acts=not module.check_mode)
            store = RollVolumes(hosts, quorum_hosts(hosts))
            store.before_write = lambda: lives.check(params["playbook"])
            check = module.check_mode
            result = answer_of(params, store, system_clock(), own_boot_id, check)
    except Failed as exc:
        module.fail_json(msg=str(exc), error=exc.error)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
