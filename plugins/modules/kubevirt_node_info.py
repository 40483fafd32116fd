#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_node_info
short_description: Read a Kubernetes node, its KubeVirt VMs, and what a drain would do with each
version_added: 0.1.0
description:
  - Reads a node and its VMs, and changes nothing.
  - For each VM it returns whether it can migrate and why not, and what M(virtops.maintenance.kubevirt_drain) would do
    with it under the same policy. Blockers of M(virtops.maintenance.kubevirt_preflight) are reported as check mode of
    the drain reports them.
author:
  - The virtops.maintenance contributors (@virtops)
extends_documentation_fragment:
  - virtops.maintenance._kubernetes
  - virtops.maintenance._kubernetes.node
  - virtops.maintenance._kubernetes.policy
  - virtops.maintenance._kubernetes.severity
  - virtops.maintenance._kubernetes.stops
  - virtops.maintenance._metrics
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtinfo
  - virtops.maintenance._attributes.kubevirtgroup
"""

EXAMPLES = r"""
- name: What would a drain of this node do?
  virtops.maintenance.kubevirt_node_info:
    node: node-1
  register: node

- name: Show what stands in the way
  ansible.builtin.debug:
    msg: "{{ node.vms | selectattr('verdict', 'eq', 'blocked') }}"
"""

RETURN = r"""
node:
  description: The node.
  returned: success
  type: str
  sample: node-1
boot_id:
  description: Its boot ID, which changes with each reboot.
  returned: success
  type: str
ready:
  description: Whether the node is Ready. A node that is not cannot be drained by migration.
  returned: success
  type: bool
cordoned:
  description: Whether it is cordoned.
  returned: success
  type: bool
cordoned_by_us:
  description: Whether a run of this collection cordoned it.
  returned: success
  type: bool
schedulable:
  description: The label C(kubevirt.io/schedulable), as virt-handler sets it.
  returned: success
  type: bool
heartbeat:
  description: Time of virt-handler's last heartbeat, as its annotation on the Node has it. Empty if there is none.
  returned: success
  type: str
target_exists:
  description:
    - Whether another node is Ready, schedulable and uncordoned, and one of the VMs of this node tolerates its taints.
      For a node without VMs, whether a VM without tolerations would.
  returned: success
  type: bool
inbound:
  description: VMs that migrate to this node, or start on it, now. Namespace and name of each.
  returned: success
  type: list
  elements: str
kubevirt:
  description: What KubeVirt's own object says. Empty if it could not be read.
  returned: success
  type: dict
  contains:
    version:
      description: Major and minor version.
      type: str
    default_strategy:
      description: Eviction strategy of VMs that name none.
      type: str
    parallel_migrations_per_cluster:
      description: KubeVirt's limit of migrations at once in the cluster.
      type: int
    parallel_outbound_migrations_per_node:
      description: KubeVirt's limit of migrations at once from one node.
      type: int
    upgrading:
      description: Whether KubeVirt is being upgraded. Maintenance should then wait.
      type: bool
pods:
  description:
    - The other pods of the node. Those of VMs are left out, finished ones among them.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Namespace and name.
      type: str
    verdict:
      description:
        - V(pending) if it has to go, V(stays) if a filter leaves it
          where it is, V(blocked) if it has to go and cannot.
      type: str
    reason:
      description: Reason code, empty if nothing is wrong.
      type: str
    plane:
      description: V(control) or V(data).
      type: str
    message:
      description: Details; of a pod that stays, why.
      type: str
    remedy:
      description: What to do.
      type: str
findings:
  description: Reasons that concern the node itself, and pods that a drain would refuse, each with C(reason), C(plane),
    C(message) and C(remedy).
  returned: success
  type: list
  elements: dict
documents:
  description:
    - The VMs as rules see them, with the fields of
      RV(virtops.maintenance.virt_host_info#module:documents).
  returned: success
  type: list
  elements: dict
record:
  description: The record of the node's maintenance. None if there is none under way.
  returned: success
  type: dict
  contains:
    run_id:
      description: Id of the run that worked on it last.
      type: str
    intent:
      description: The state that was asked for, V(drained), V(cordoned) or V(active).
      type: str
    requester:
      description: Who requested it.
      type: str
    reason:
      description: The reason that was given, or empty.
      type: str
    started:
      description: When the maintenance began, UTC.
      type: str
    blocked:
      description: When its last run ended as V(Blocked), UTC. Empty if it did not.
      type: str
    left:
      description: Whether the playbook of its last run was interrupted. Only the machine on which that playbook ran
        can know this; on any other one it is V(false).
      type: bool
    stays:
      description: The VMs that its last run left as V(blocked) or V(lost), each with C(name), C(uuid), C(reason),
        C(plane), C(message) and C(remedy).
      type: list
      elements: dict
    cordoned_by_us:
      description: Whether this maintenance set the cordon, so that a restore removes it.
      type: bool
    runs:
      description: IDs of all runs of this maintenance.
      type: list
      elements: str
counts:
  description: How many VMs have which verdict; C(total) is all.
  returned: success
  type: dict
  sample: {pending: 3, blocked: 1, total: 4}
certificate:
  description: Always none, because reading proves nothing.
  returned: success
  type: dict
vms:
  description: The VMs of the node and of its record, with what a drain would do.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Namespace and name.
      type: str
    uuid:
      description: UID of the VirtualMachine, or of the instance if it is bare.
      type: str
    strategy:
      description: The effective eviction strategy.
      type: str
    decided_by:
      description: Who decided what is done with the VM, a rule, the VM's declaration, the default or V(asked
        for).
      type: str
    way:
      description: What is done with it, for example V(migrate) or V(shutdown).
      type: str
    verdict:
      description: How it is accounted for. V(pending), V(moved), V(stopped), V(cold_moved) (stopped here,
        started elsewhere), V(off), V(gone), V(blocked), V(skipped), V(lost) or V(restored).
      type: str
    phase:
      description: Phase of its last migration, as KubeVirt reports it. V(Pending) also before its first one.
      type: str
    source:
      description: The node that is drained or read.
      type: str
    target:
      description: Target of its last migration.
      type: str
    at:
      description: The node on which it was read last.
      type: str
    mode:
      description: Mode of its last migration, V(PreCopy), V(PostCopy) or V(Paused). Empty if it had none.
      type: str
    method:
      description: V(LiveMigration) with shared storage, V(BlockMigration) with copied storage. Empty if that
        is not known.
      type: str
    attempts:
      description: Migrations that were tried in this maintenance.
      type: int
    start:
      description: When its last migration was requested, UTC. Empty if someone else requested it.
      type: str
      sample: '2026-03-01T02:10:00Z'
    end:
      description: When that migration was seen to have ended. Empty until then, or without a start.
      type: str
      sample: '2026-03-01T02:10:42Z'
    requested_by:
      description: Who requested it. Empty if someone else requested it.
      type: str
      sample: alice@ctl
    nudges:
      description: How often the VM was marked without a migration, and a write to the Node made KubeVirt
        go on. Counted over all runs until the node is restored.
      type: int
    handed_off:
      description: When the guest began to run on the target, UTC, as KubeVirt reports it. The migration object
        may stay Running for longer. Empty if it has not moved.
      type: str
    settings:
      description: The settings with which KubeVirt migrates the VM, from its own object and the MigrationPolicy
        that applies. KubeVirt chooses them. Empty if they could not be read.
      type: dict
      contains:
        policy:
          description: Name of the MigrationPolicy that applies, empty if none does.
          type: str
        allow_post_copy:
          description: Whether it may run on the target before all of its memory is there.
          type: bool
        allow_auto_converge:
          description: Whether the guest may be slowed down so that the migration ends.
          type: bool
        completion_timeout_per_gib:
          description: Seconds for each GiB of memory, after which C(on_timeout) applies.
          type: int
        progress_timeout:
          description: Seconds without progress, after which KubeVirt aborts the migration.
          type: int
        bandwidth_mib_s:
          description: MiB/s of one migration, V(0) for no limit.
          type: int
        max_downtime_ms:
          description: Milliseconds that the guest may be paused at the end, V(0) for QEMU's own; null if
            KubeVirt's version is not known.
          type: int
        on_timeout:
          description: What KubeVirt does after the completion timeout, V(abort), V(post_copy) or V(pause).
            With V(stall_detection) (KubeVirt 1.9 and newer, by a feature gate) it goes by what the passes
            over the memory send, and not by the two timeouts.
          type: str
        downtime_tuning:
          description: Whether KubeVirt raises the pause step by step up to C(max_downtime_ms) (KubeVirt 1.10
            and newer, by a feature gate).
          type: bool
        tls:
          description: Whether memory and disks are encrypted on their way.
          type: bool
        warning:
          description: Why the bandwidth cannot suffice for the completion timeout. Empty if it can.
          type: str
    unmet_settings:
      description: What the VM's rule requires in C(migration) and KubeVirt does not apply. Empty if there
        is nothing, and for a VM that does not migrate.
      type: list
      elements: dict
      contains:
        setting:
          description: Name of the setting, as in the rule.
          type: str
        wanted:
          description: The value that the rule requires.
          type: str
        applies:
          description: The value that KubeVirt uses, V(not known) if the account may not read it.
          type: str
        remedy:
          description: Where the setting is made.
          type: str
    abort_status:
      description: What came of the abort of its migration, V(Aborting), V(Succeeded) (the VM stays where
        it was), or V(Failed) (too late, the VM moves). Empty if no abort was requested.
      type: str
    processed_mib:
      description: MiB that the last migration moved; KubeVirt does not report it, so V(0).
      type: float
    duration:
      description: Seconds that the last migration took. V(0) until it has ended.
      type: float
    outage_ms:
      description: Milliseconds for which the guest did not run, from the request to stop it to the moment
        at which it was seen to run again, to the second. None if it is not known or not over; of a live migration
        KubeVirt does not report it.
      type: int
    progress:
      description: The keys C(percent), C(processed_mib), C(total_mib), C(remaining_mib), C(rate_mib_s) and
        C(eta) of a migration under way. KubeVirt does not report them, so they are V(0), and C(eta) is None.
      returned: while one is under way
      type: dict
    hooks:
      description: Task files of its rule's hooks, by V(before) and V(after). Empty if it has none.
      type: dict
    reason:
      description: Reason code, empty if nothing is wrong.
      type: str
    plane:
      description: V(control) or V(data).
      type: str
    message:
      description: Details, such as the disk or the network.
      type: str
    remedy:
      description: What to do.
      type: str
warnings:
  description:
    - Why no C(dirty_rate) is known although O(metrics.url) is given, with the server's URL and
      its answer.
    - Settings of rules that KubeVirt does not apply, see RV(vms[].unmet_settings).
  returned: when there are any
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
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import LOOKS
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import METRICS_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.info import read_node
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.unsupported import lines
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.work import Request


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "metrics": METRICS_SPEC,
            **AUTH_SPEC,
            **options.POLICY_SPEC,
            **options.SEVERITY_SPEC,
            **options.STOP_SPEC,
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
            metrics=options.metrics(params, always=True),
            pods=options.pods(params),
            machines=options.needs_virtual_machines(params),
            intent=Intent.DRAINED,
            run_id=LOOKS,
        )
        result = read_node(request, severity)
    except FAILURES as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    for line in lines(result["vms"]):
        module.warn(line)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
