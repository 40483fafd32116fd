#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_preflight
short_description: Check whether a Kubernetes node can be drained of its VMs
version_added: 0.1.0
description:
  - Reports blockers and warnings, each with a typed code, what it is about, what to do, and what decides it.
    M(virtops.maintenance.kubevirt_drain) decides by the same code, so it has to be given the same policy.
  - Lists objects, creates access reviews, and evicts each VM, and each other pod that has to go,
    as a dry run on the server. None of these changes anything.
  - What C(kubectl drain) would refuse among the other pods keeps the drain from beginning, so it is
    about the node. What a budget or a missing replica holds back is about the pod, and the VMs move
    all the same. See O(pods).
author:
  - The virtops.maintenance contributors (@virtops)
extends_documentation_fragment:
  - virtops.maintenance._kubernetes
  - virtops.maintenance._kubernetes.node
  - virtops.maintenance._kubernetes.policy
  - virtops.maintenance._kubernetes.severity
  - virtops.maintenance._metrics
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtinfo
  - virtops.maintenance._attributes.kubevirtgroup
options:
  controller_uuid:
    description:
      - UUID of the machine that Ansible runs on, where the module runs on another one, to see
        whether it is a VM of the node.
      - The default is what that machine's firmware reports, if it can be read there (mostly by
        root).
    type: str
    default: ''
notes:
  - Whether a node takes a VM is derived from labels, taints, CPU, room, the zones of volumes and a
    required anti-affinity by host name. Other rules about pods are left to the scheduler.
"""

EXAMPLES = r"""
- name: Can this node be drained?
  virtops.maintenance.kubevirt_preflight:
    node: node-1
  register: preflight

- name: Stop here if not
  ansible.builtin.assert:
    that: preflight.blockers | length == 0
    fail_msg: "{{ preflight.blockers }}"

- name: The same, where a descheduler has to be stopped first
  virtops.maintenance.kubevirt_preflight:
    node: node-1
    severity:
      DeschedulerAtWork: blocker
      StorageOnlyHere: ignore
"""

RETURN = r"""
node:
  description: The node.
  returned: success
  type: str
findings:
  description: Everything that was found, blockers first, then by what it is about.
  returned: success
  type: list
  elements: dict
  contains:
    code:
      description: Typed code, see docs/reasons.md.
      type: str
    severity:
      description:
        - V(blocker), or V(warning).
        - What is a blocker by default is a warning if the drain can handle it, for example because
          policy says what to do with a VM that cannot migrate.
      type: str
    about:
      description: V(cluster), V(node), V(vm) or V(pod).
      type: str
    plane:
      description: V(control) or V(data).
      type: str
    node:
      description: The node that was checked.
      type: str
    subject:
      description: Name of what it is about.
      type: str
    sentence:
      description: What the code means.
      type: str
    message:
      description: Details, such as the disk or the network. Empty if there are none.
      type: str
    remedy:
      description: What to do.
      type: str
    decided_by:
      description:
        - What decides it. For a VM this is the effective strategy and who set it, then the fact that it depends on.
      type: str
blockers:
  description: The blockers as one line each, with the remedy.
  returned: success
  type: list
  elements: str
  sample:
    - "BLOCKER DisksNotLiveMigratable VM db: Disk vdb is local -> Move the disk to shared storage"
node_blockers:
  description: The blockers that are not about a single VM or pod. They keep all VMs on the node.
  returned: success
  type: list
  elements: str
cautions:
  description: The warnings as one line each, with the remedy.
  returned: success
  type: list
  elements: str
vms_checked:
  description: How many VMs of the node were checked.
  returned: success
  type: int
warnings:
  description:
    - Why no C(dirty_rate) is known although O(metrics.url) is given, with the server's URL and
      its answer.
  returned: when no rate could be read from the server of metrics
  type: list
  elements: str
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: AccessDenied
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.severity import parse_severity
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import METRICS_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.work import Request


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "controller_uuid": {"type": "str", "default": ""},
            "metrics": METRICS_SPEC,
            **AUTH_SPEC,
            **options.POLICY_SPEC,
            **options.SEVERITY_SPEC,
        },
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = module.params
    try:
        severity = parse_severity(params["severity"])
        request = Request(
            auth=auth_of(module),
            node=params["node"],
            policy=options.policy(params),
            pods=options.pods(params),
            metrics=options.metrics(params, always=False),
            intent=Intent.DRAINED,
            run_id="preflight",
            controller_uuid=params["controller_uuid"],
        )
        result = preflight(request, severity)
    except FAILURES as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    for text in result.pop("warnings", ()):
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
