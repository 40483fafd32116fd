#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_roll
short_description: Keep the record of a roll in a cluster
description:
  - What M(virtops.maintenance.maintenance_roll) calls on KubeVirt.
  - The playbooks of this collection use it. It is internal to them, and may change in any release.
  - The record is an annotation on the Lease C(virtops-roll), of which there is one for the cluster.
  - From its first node on, nodes that the roll has still to empty have the taint C(virtops.maintenance/roll) with the
    effect C(PreferNoSchedule), so that VMs go to others first. It goes when the node is done, and from all nodes when
    the roll stops. An account that may not patch nodes has its roll without.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  lock_namespace:
    description: Namespace of that Lease, the same as for M(virtops.maintenance.kubevirt_drain).
    type: str
    default: default
extends_documentation_fragment:
  - virtops.maintenance._kubernetes
  - virtops.maintenance._roll
  - virtops.maintenance._roll.playbook
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtgroup
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
- name: Read the record of the roll, as maintenance_roll does where the API is reached
  virtops.maintenance.kubevirt_roll:
    state: read
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

import functools

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.options import ASKED_SPEC, answer_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import system_clock
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll_fleet import (
    RollOfCluster,
    boot_id,
    check_targets,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "lock_namespace": {"type": "str", "default": "default"},
            **AUTH_SPEC,
            **ASKED_SPEC,
            **lives.SPEC,
        },
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = {**module.params, **module.params["request"]}
    try:
        client = Client(auth_of(module))
        client.before_write = lambda: lives.check(params["playbook"])
        store = RollOfCluster(client, params["lock_namespace"])
        clock = system_clock()
        boot = functools.partial(boot_id, client, params["roll_host"])
        check_targets(client, params)
        result = answer_of(params, store, clock, boot, module.check_mode)
    except FAILURES as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
