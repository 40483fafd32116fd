#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_eviction_strategy
short_description: Declare the eviction strategy of KubeVirt VMs
version_added: 0.1.0
description:
  - Writes C(evictionStrategy) into the templates of VirtualMachines, or removes it.
  - A running VM keeps the strategy with which it was started until it is restarted, since KubeVirt
    does not let it be changed. RV(restart_needed) names those that do. What a drain does with
    them in the meantime can be decided by C(rules).
  - Nothing is written before all VMs were found and the server accepted each change in a dry run.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  name:
    description: Names of the VMs, in O(namespace).
    type: list
    elements: str
  namespace:
    description:
      - Namespace of the VMs. With O(name) the default is V(default).
      - Without O(name), the module reads VMs of all namespaces if this is not given.
    type: str
  when:
    description:
      - JMESPath on the VM's document, see docs/policy.md; the VMs for which it is true.
      - For a VM that is off, the document is that of the instance that would be started.
        C(eviction_strategy) is what the template declares.
      - If that is not known for a VM, because a value is not known, the module fails and names
        the VM and the value.
    type: str
  label_selectors:
    description:
      - Label selectors on the VirtualMachine, for example V(tier=test). All must hold, and
        O(when) too if it is given.
    type: list
    elements: str
  strategy:
    description: The strategy that they declare. Required with O(state=present).
    type: str
    choices: [None, LiveMigrate, LiveMigrateIfPossible, External]
  state:
    description: V(absent) removes the declaration; the cluster's default then applies.
    type: str
    choices: [present, absent]
    default: present
requirements:
  - jmespath (Python package) where the module runs, for O(when)
extends_documentation_fragment:
  - virtops.maintenance._kubernetes
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtgroup
attributes:
  check_mode:
    support: full
    details: Reads, and lets the server judge each change by a dry run.
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: The owner moves these two
  virtops.maintenance.kubevirt_eviction_strategy:
    name: [db-1, db-2]
    namespace: shop
    strategy: External

- name: Test VMs may be stopped if they cannot move
  virtops.maintenance.kubevirt_eviction_strategy:
    label_selectors: [tier=test]
    strategy: LiveMigrateIfPossible

- name: What has a device of its host
  virtops.maintenance.kubevirt_eviction_strategy:
    namespace: shop
    when: length(host_devices) > `0`
    strategy: LiveMigrateIfPossible

- name: Leave it to rules and default again
  virtops.maintenance.kubevirt_eviction_strategy:
    name: db-1
    namespace: shop
    state: absent
"""

RETURN = r"""
diff:
  description: What each VM's template declared and declares, and what its instance runs with.
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
    before: "VM shop/db-1 (running): LiveMigrate\nVM shop/db-1 (template): declares none\n"
    after: "VM shop/db-1 (running): LiveMigrate\nVM shop/db-1 (template): External\n"
restart_needed:
  description: VMs that run with another strategy than the template now declares.
  returned: success
  type: list
  elements: str
  sample: [shop/db-1]
vms:
  description: The VMs that were chosen.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the VM.
      type: str
    namespace:
      description: Its namespace.
      type: str
    uuid:
      description: UID of the VirtualMachine.
      type: str
    template:
      description: What its template declared before, empty if nothing.
      type: str
    running:
      description: What its running instance was started with, or the cluster's default. None if it is off.
      type: str
    written:
      description: Whether the template was written, or in check mode would be.
      type: bool
    restart_needed:
      description: Whether the running instance keeps another strategy until it is restarted.
      type: bool
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: AccessDenied
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import EvictionStrategy
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.declare import (
    DeclareError,
    DeclareRequest,
    declare,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str"},
            "namespace": {"type": "str"},
            "when": {"type": "str"},
            "label_selectors": {"type": "list", "elements": "str"},
            "strategy": {"type": "str", "choices": [s.value for s in EvictionStrategy]},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **AUTH_SPEC,
        },
        required_one_of=[("name", "when", "label_selectors")],
        mutually_exclusive=[("name", "when"), ("name", "label_selectors")],
        required_if=[("state", "present", ("strategy",))],
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = module.params
    chosen = params["name"] or ()
    try:
        result = declare(
            DeclareRequest(
                auth=auth_of(module),
                strategy=params["strategy"] if params["state"] == "present" else "",
                names=chosen,
                namespace=params["namespace"] or ("default" if chosen else ""),
                when=params["when"],
                labels=",".join(params["label_selectors"] or ()),
                check=module.check_mode,
            )
        )
    except (DeclareError, *FAILURES) as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    if not module._diff:
        result.pop("diff", None)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
