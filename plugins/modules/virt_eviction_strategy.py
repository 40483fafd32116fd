#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_eviction_strategy
short_description: Declare the eviction strategy of VMs on a libvirt host
version_added: 0.1.0
description:
  - Writes an eviction strategy into the metadata of domains, or removes it. What a VM declares counts after the rules
    of M(virtops.maintenance.virt_drain), and before its default.
  - Running VMs need no restart. What runs and what is defined are both written, each where it
    differs.
  - Nothing is written before all VMs were found and none of those to be changed has a job, since
    libvirt writes no metadata during one.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  name:
    description: Names or UUIDs of the VMs.
    type: list
    elements: str
  when:
    description:
      - JMESPath on the VM's document
        (RV(virtops.maintenance.virt_host_info#module:documents)); the VMs for which it is true.
      - If that is not known for a VM, because a value is not known, the module fails and names
        the VM and the value.
    type: str
  strategy:
    description: The strategy that they declare. Required with O(state=present).
    type: str
    choices: [None, LiveMigrate, LiveMigrateIfPossible, External]
  state:
    description: V(absent) removes the declaration.
    type: str
    choices: [present, absent]
    default: present
  node:
    description: Name of the host that the module runs on. Default is its own name.
    type: str
  uri:
    description: URI of the host's own libvirt.
    type: str
    default: qemu:///system
  shared_paths:
    description:
      - Directories and devices of which you know that all hosts see the same data at that path,
        for O(when) that asks C(volumes[].shared).
    type: list
    elements: str
    default: []
requirements:
  - python >= 3.9
  - libvirt-python (Debian package python3-libvirt) on the host
  - libvirt >= 9.0
  - jmespath (Debian and RHEL package python3-jmespath) on the host, for O(when)
extends_documentation_fragment:
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: The owner moves these two
  virtops.maintenance.virt_eviction_strategy:
    name: [db-1, db-2]
    strategy: External

- name: Test VMs may be stopped if they cannot move
  virtops.maintenance.virt_eviction_strategy:
    when: labels.tier == 'test'
    strategy: LiveMigrateIfPossible

- name: Leave it to rules and default again
  virtops.maintenance.virt_eviction_strategy:
    name: db-1
    state: absent
"""

RETURN = r"""
diff:
  description: What each VM declared and declares, a line for what runs and one for what is defined.
  returned: in diff mode
  type: dict
  contains:
    before:
      description: As it was found.
      type: str
    after:
      description: As it is now; in check mode, as it would be.
      type: str
  sample:
    before: "VM db-1 (live): declares none\nVM db-1 (config): declares none\n"
    after: "VM db-1 (live): External\nVM db-1 (config): External\n"
node:
  description: The host.
  returned: success
  type: str
  sample: host-a
vms:
  description: The VMs that were chosen.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
    uuid:
      description: Its UUID.
      type: str
    live:
      description: What the running domain declared before, empty if nothing. None if it is off.
      type: str
    config:
      description: What its definition declared before. None if it is transient.
      type: str
    written:
      description: Where it was written, or in check mode would be, V(live) and V(config).
      type: list
      elements: str
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: LibvirtMissing
"""

import socket

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import EvictionStrategy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.declare import (
    DeclareError,
    DeclareRequest,
    declare,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import (
    HostUnreachable,
    LibvirtMissing,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import VMNotHere
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str"},
            "when": {"type": "str"},
            "strategy": {"type": "str", "choices": [s.value for s in EvictionStrategy]},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **{key: options.HOSTS_SPEC[key] for key in ("node", "uri", "shared_paths")},
        },
        required_one_of=[("name", "when")],
        mutually_exclusive=[("name", "when")],
        required_if=[("state", "present", ("strategy",))],
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = options.params_of(module)
    try:
        request = DeclareRequest(
            own=HostConfig(
                name=params["node"] or socket.gethostname(),
                uri=options.without_password("uri", params["uri"]),
                shared_paths=tuple(params["shared_paths"]),
            ),
            strategy=params["strategy"] if params["state"] == "present" else "",
            names=params["name"] or (),
            when=params["when"],
            check=module.check_mode,
        )
        result = declare(request)
    except (PolicyError, DeclareError, VMNotHere, HostUnreachable, LibvirtMissing) as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    if not module._diff:
        result.pop("diff", None)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
