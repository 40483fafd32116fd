#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_fence
short_description: Switch a host off with a fence agent, and verify that it is off
version_added: 0.1.0
description:
  - Calls an agent of the package C(fence-agents) on the machine that the module runs on. There is one for every common
    BMC, PDU, hypervisor and cloud. Its options go to its standard input, so no process list shows them.
  - The agent gets the command to switch the host off, and is then asked for its state. Only the answer off is a proof.
  - In check mode the agent is asked for the state only.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  agent:
    description: The agent, for example V(fence_ipmilan) or V(fence_redfish), or the path of one with the same
      interface.
    type: str
    required: true
  options:
    description:
      - Options of the agent as its manual page has them, without dashes, for example C(ip), C(username), C(password),
        C(plug), as JSON. None of their values is shown or logged.
      - Best given as text (P(ansible.builtin.to_json#filter)). If it is a dictionary, ansible-core 2.22 hides each of
        its values, even the name of the host, in everything that it shows until the playbook ends.
    type: json
  timeout:
    description: Seconds that one call of the agent may take, and that the host may take to be off.
    type: int
    default: 60
extends_documentation_fragment:
  - virtops.maintenance._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Switch the host off
  virtops.maintenance.maintenance_fence:
    host: host-a
    agent: fence_ipmilan
    options: "{{ {'ip': '192.0.2.10', 'username': 'admin', 'password': bmc_password, 'lanplus': true} | to_json }}"
  delegate_to: localhost
  register: fenced
"""

RETURN = r"""
powered_off:
  description: Whether the agent answered that the host is off.
  returned: success
  type: bool
proof:
  description: Who read that it is off, when (UTC) and how, as O(virtops.maintenance.virt_recovery#module:proof) has it.
  returned: if the host is off
  type: dict
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: AgentMissing
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook.fence import FenceError, fence, options_of


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "agent": {"type": "str", "required": True},
            "options": {"type": "json", "no_log": True},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = module.params
    try:
        options = options_of(params["options"])
        result = fence(params["host"], params["agent"], options, params["timeout"], not module.check_mode)
    except FenceError as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
