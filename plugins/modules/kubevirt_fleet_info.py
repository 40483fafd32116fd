#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_fleet_info
short_description: Read the nodes and KubeVirt VMs of a cluster, for the plan of a roll
version_added: 0.1.0
description:
  - Reads nodes, pods, VMs and budgets with one list each, and returns them in the form that
    M(virtops.maintenance.maintenance_plan) takes. It changes nothing.
  - A VM's memory and CPU are what its pod requests, and a node's are what it can allocate less what
    its other pods request.
  - Which nodes never take a VM is derived from selectors, node affinity, taints, CPU model, vendor
    and devices, and the zones of volumes. A required anti-affinity to VMs of the same labels makes
    them a group. Other affinity to pods is left to the scheduler.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  controller_uuid:
    description:
      - UUID of the machine that Ansible runs on, where the module runs on another one. The plan takes
        the node last on which that machine is a VM.
      - The default is what that machine's firmware reports, if it can be read there (mostly by
        root).
    type: str
    default: ''
  labels:
    description: Labels of the nodes that the plan asks for, as in C(maintenance_max_unavailable_per).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - virtops.maintenance._kubernetes
  - virtops.maintenance._metrics
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.clusterinfo
  - virtops.maintenance._attributes.kubevirtgroup
"""

EXAMPLES = r"""
- name: Read the cluster
  virtops.maintenance.kubevirt_fleet_info:
  register: cluster

- name: Read what its VMs write to their memory, too
  virtops.maintenance.kubevirt_fleet_info:
    metrics:
      url: https://thanos-querier.openshift-monitoring.svc:9091
      token: "{{ metrics_token }}"
      ca_cert: /etc/ssl/openshift-service-ca.pem
  register: cluster

- name: Plan a roll over two nodes
  virtops.maintenance.maintenance_plan:
    platform: kubevirt
    hosts: "{{ cluster.hosts }}"
    vms: "{{ cluster.vms }}"
    budgets: "{{ cluster.budgets }}"
    quotas: "{{ cluster.quotas }}"
    limits: "{{ cluster.limits }}"
    migration: "{{ cluster.migration }}"
    anti_affinity: required
    roll: [node-1, node-2]
"""

RETURN = r"""
hosts:
  description:
    - The nodes, with C(name), C(memory_mib), C(committed_mib) of pods that are not VMs, the
      same in thousandths of a CPU as C(cpu_milli) and C(committed_cpu_milli), C(cordoned) by others
      (or without a working virt-handler), C(reachable), C(message), C(runs_vms), false without KubeVirt's label,
      C(spare), what is free now of huge pages (MiB), devices and pods, and C(labels), those of O(labels).
  returned: success
  type: list
  elements: dict
vms:
  description:
    - The VMs that are on a node, with the keys of
      O(virtops.maintenance.maintenance_plan#module:vms).
  returned: success
  type: list
  elements: dict
budgets:
  description:
    - PodDisruptionBudgets of VMs that KubeVirt stops when they are evicted, with the keys of
      O(virtops.maintenance.maintenance_plan#module:budgets). A migration disturbs none.
  returned: success
  type: list
  elements: dict
quotas:
  description:
    - ResourceQuotas that leave too little for one more pod of a VM, which a migration needs, with
      the keys of O(virtops.maintenance.maintenance_plan#module:quotas).
  returned: success
  type: list
  elements: dict
limits:
  description: KubeVirt's limits of migrations at once, C(cluster) and C(outbound) (from one node). It has no limit for
    C(inbound) (to one node), so that one is very large.
  returned: success
  type: dict
migration:
  description: How KubeVirt migrates by its own object, with keys of
    O(virtops.maintenance.maintenance_plan#module:migration).
  returned: success
  type: dict
unread:
  description: Resources that the account may not list. The plan is made without them.
  returned: success
  type: list
  elements: str
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
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import METRICS_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.plan.fleet import read_fleet


def main() -> None:
    labels = {"type": "list", "elements": "str", "default": []}
    uuid = {"type": "str", "default": ""}
    spec = {"metrics": METRICS_SPEC, "labels": labels, "controller_uuid": uuid, **AUTH_SPEC}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    module.debug(_kept.STATE)
    try:
        metrics = options.metrics(module.params, always=True)
        result = read_fleet(auth_of(module), metrics, module.params["labels"], module.params["controller_uuid"])
    except FAILURES as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    for text in result.pop("warnings", ()):
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
