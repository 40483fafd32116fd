#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_recovery
short_description: Have Kubernetes restart the VMs of a dead node elsewhere, once the node is proven to be off
version_added: 0.1.0
description:
  - Reads how the node looks to Kubernetes, by its kubelet's Lease too, and to virt-handler. Without a proof that it is
    off it records on the Node when it was found dead, and changes nothing else.
  - With a proof it cordons the node and gives it the taint V(node.kubernetes.io/out-of-service) in one write. That is
    refused by the API if the kubelet has reported in between. Kubernetes then deletes its pods, and KubeVirt starts
    the VMs again that their run strategy lets it start. It ends migrations from and to the node, too.
  - VMs are watched for ten minutes. A VM that nothing starts again is named.
  - If the node is back and Ready, and its boot id is another one, taint, cordon and record are removed. With the boot
    id of before it was never off, and the taint stays.
  - One run has the Lease of the node, as for a drain. Another recovery, or a drain, of the node meanwhile is refused,
    and so is this one while a roll that has the node runs.
  - A node that an operator recovers already (FenceAgentsRemediation, SelfNodeRemediation, NodeHealthCheck,
    MachineHealthCheck) is left alone.
  - The playbook C(recover) calls it; see docs/dead-host.md.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  node:
    description: Name of the Node.
    type: str
    required: true
  inventory_host:
    description: Name of the node in the inventory and in O(confirm). Default is O(node).
    type: str
  watched:
    description:
      - RV(watched) of the slice before, and C(seconds), those since the first slice of this run. Set by the action
        plugin.
    type: dict
    default: {}
  slice:
    description:
      - Seconds after which the module returns V(Recovering) if it is not done. The action plugin calls it again.
    type: int
    default: 15
  start_manual:
    description: Whether VMs of run strategy V(Manual) or V(Once) that ran on the node are started again, too.
    type: bool
    default: false
  lock_namespace:
    description: Namespace of the Lease of the node, the same as for M(virtops.maintenance.kubevirt_drain).
    type: str
    default: default
extends_documentation_fragment:
  - virtops.maintenance._recovery
  - virtops.maintenance._roll.playbook
  - virtops.maintenance._roll.run
  - virtops.maintenance._kubernetes
  - virtops.maintenance._kubernetes.run
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtgroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Recover the VMs of a node, after a person has seen that it is off
  virtops.maintenance.kubevirt_recovery:
    node: n1
    confirm: n1@2026-11-27T14:03:00Z
"""

RETURN = r"""
host:
  description: The node, as the inventory names it.
  returned: success
  type: str
phase:
  description:
    - V(Alive), the node lives, and there was nothing to do. V(Returned), it lives, and taint and cordon were removed.
      V(Unproven), it is not proven to be off, and nothing was changed. V(Recovering), the slice was over first.
      V(Recovered), each VM runs elsewhere. V(Blocked), some VMs do not run, each with a reason. V(Refused), somebody
      else recovers it, or it was not off; RV(message) says which.
  returned: success
  type: str
looks:
  description: How the node looks, V(Alive), V(NotReady) (its kubelet says so), V(KubeletDead) (its virt-handler still
    reports), V(ProbablyDead), or V(NotKnown).
  returned: success
  type: str
may_be_fenced:
  description: Whether what was seen allows fencing the node.
  returned: success
  type: bool
message:
  description: What was seen of the node, as a sentence.
  returned: success
  type: str
found_dead:
  description: When it was found dead, UTC. O(confirm) needs this time. Empty if it was not.
  returned: success
  type: str
proof:
  description: What proved that it is off, as recorded, with the keys of O(proof). Empty if nothing did.
  returned: success
  type: dict
vms:
  description: The VMs of the node, each with C(name) (namespace and name), C(uuid), C(verdict), which is V(runs),
    V(waits) or V(stays), C(target), where it runs, and C(message), why it does not.
  returned: success
  type: list
  elements: dict
watched:
  description:
    - What the first slice of this run saw of the node's own reports, in seconds since the epoch by its own clock.
      C(lease), when its kubelet renewed its Lease; C(beat), when virt-handler reported; 0 without one. Only a report
      that changes is a sign of life.
  returned: success
  type: dict
run_id:
  description: ID of the run, O(run_id) or the time, with a random part.
  returned: success
  type: str
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: AccessDenied
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import slice_seconds
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.nodes import Watched
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import SPEC, given_by
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.recovery.service import Request, recover
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "inventory_host": {"type": "str"},
            **SPEC,
            "watched": {"type": "dict", "default": {}},
            "slice": {"type": "int", "default": 15},
            "start_manual": {"type": "bool", "default": False},
            "lock_namespace": {"type": "str", "default": "default"},
            "roll_run": {"type": "str", "default": ""},
            **AUTH_SPEC,
            **options.RUN_SPEC,
            **lives.SPEC,
        },
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = module.params
    try:
        request = Request(
            auth=auth_of(module),
            node=params["node"],
            host=params["inventory_host"] or params["node"],
            run_id=options.run_id(params),
            requester=options.requester(params),
            reason=params["reason"],
            seconds=slice_seconds(params["slice"]),
            **given_by(params),
            watched=Watched(**{key: float(seconds) for key, seconds in params["watched"].items()}),
            ask=lambda: lives.check(params["playbook"]),
            starts=params["start_manual"],
            processes=lives.noted(params["playbook"]),
            lock_namespace=params["lock_namespace"],
            roll_run=params["roll_run"],
        )
        result = recover(request, acts=not module.check_mode)
    except FAILURES as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    # Its action shows them at once, and each one once. Ansible takes what it calls warnings out of the result.
    result["warned"] = result.pop("warnings", [])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
