#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_migration_info
short_description: Show what the migration of a KubeVirt VM is waiting for
version_added: 0.1.0
description:
  - Looks where an operator would look. In this order, these are the migration itself, its target pod, policy and
    limits (and which migrations have the slots), then quota and storage. Fix the first finding first, since it may
    hide others.
  - It looks at one VM, at all VMs of a namespace, or at all VMs that leave a node or come to it.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  name:
    description: Name of one VM, in O(namespace).
    type: str
  namespace:
    description:
      - Namespace of the VM; V(default) with O(name).
      - Without O(name), all VMs of this namespace that have a migration or are marked for one.
    type: str
  node:
    description: All VMs that leave this node or come to it.
    type: str
extends_documentation_fragment:
  - virtops.maintenance._kubernetes
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.clusterinfo
  - virtops.maintenance._attributes.kubevirtgroup
"""

EXAMPLES = r"""
- name: Why does it not move?
  virtops.maintenance.kubevirt_migration_info:
    name: db-1
    namespace: shop
  register: why

- name: Say it
  ansible.builtin.debug:
    msg: "{{ why.migrations[0].findings }}"

- name: All that leaves a node, or comes to it
  virtops.maintenance.kubevirt_migration_info:
    node: node-1
"""

RETURN = r"""
not_read:
  description:
    - What the account may not read, verb and resource. What would be found there is missing below.
  returned: success
  type: list
  elements: str
migrations:
  description: One entry a VM, those with findings first.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Namespace and name of the VM.
      type: str
      sample: shop/db-1
    uuid:
      description: UID of the VirtualMachine, or of the instance if it is bare.
      type: str
    node:
      description: The node on which it runs.
      type: str
    strategy:
      description: The running instance's eviction strategy, or the cluster's default.
      type: str
    marked:
      description: The node that it is marked to be evacuated from. Empty if it is not marked.
      type: str
    migration:
      description: Name of the migration that is under way, else of the last one. Empty if there is none.
      type: str
    phase:
      description: Its phase, in KubeVirt's words.
      type: str
      sample: Pending
    seconds_in_phase:
      description: Seconds since it entered that phase, by this machine's clock.
      type: float
    source:
      description: The node whose outbound slot it takes.
      type: str
    target:
      description: The node to which it goes, empty while that is not known.
      type: str
    target_pod:
      description: Name of its target pod, empty if there is none.
      type: str
    mode:
      description: V(PreCopy), V(PostCopy), V(Paused), or empty.
      type: str
    requested_by:
      description: Who requested the migration.
      type: str
    policy:
      description: Name of the MigrationPolicy that applies, empty if none does.
      type: str
    findings:
      description: What stands in the way, the first one first. Empty if it moves.
      type: list
      elements: dict
      contains:
        where:
          description: V(migration), V(target pod), V(policy and limits) or V(quota, storage).
          type: str
        code:
          description: Reason code, see docs/reasons.md.
          type: str
          sample: WaitingForSlot
        plane:
          description: V(control) or V(data).
          type: str
        subject:
          description: The object that it is about.
          type: str
          sample: migration shop/kubevirt-evacuation-x7k2p
        sentence:
          description: What is wrong, in a sentence.
          type: str
        remedy:
          description: What to do.
          type: str
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: AccessDenied
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration_info.read import (
    InfoRequest,
    waiting,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={"name": {"type": "str"}, "namespace": {"type": "str"}, "node": {"type": "str"}, **AUTH_SPEC},
        required_one_of=[("name", "namespace", "node")],
        mutually_exclusive=[("name", "node"), ("namespace", "node")],
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = module.params
    namespace = params["namespace"] or ("default" if params["name"] else "")
    try:
        result = waiting(
            InfoRequest(auth=auth_of(module), name=params["name"] or "", namespace=namespace, node=params["node"] or "")
        )
    except FAILURES as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
