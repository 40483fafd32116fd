#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_drain
short_description: Drain a KubeVirt node, or return it to service
version_added: 0.1.0
description:
  - Brings a node into a maintenance state. V(drained) cordons it and moves every VM away by live
    migration, or does what its eviction strategy and the policy say.
  - KubeVirt does the migrations, within its own limits and at the priority of evacuations. Each VM is evicted once and
    watched. An answer of 429 in which KubeVirt says so means that the migration has begun.
  - V(Drained) is reported only with a certificate. The node was read empty twice, and every VM
    that the run ever saw is accounted for.
  - Intent and progress are kept in annotations on the Node, not in a process. A run that was killed is continued by
    running it again.
  - VMs go first. Then the other pods go, by the filters of C(kubectl drain), all at once, and again
    those that a PodDisruptionBudget holds back. What the VMs and the API need (virt-api,
    virt-controller, webhooks, storage, network) goes last, and only while another replica is Ready
    elsewhere. virt-handler stays.
  - A pod that C(kubectl drain) would refuse (without a controller, with an emptyDir) is reported
    before anything is requested. See O(pods).
  - Who asks, when and why is stored on each VM and its migrations as the annotation
    C(virtops.maintenance/request), and as an Event.
  - The module works in slices. The action plugin of the same name calls it until the state is
    final and prints a line for each change.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  state:
    description:
      - V(drained) cordons the node and empties it of VMs, then of its other pods (see O(pods)).
      - V(cordoned) only cordons it.
      - V(active) withdraws migrations that are under way, starts what was stopped for the maintenance and does not
        start by itself, and removes the cordon if this collection set it. VMs that were moved stay where they are.
    type: str
    choices: [drained, cordoned, active]
    default: drained
  abort:
    description:
      - With O(state=active), what to do with migrations that are under way.
      - V(now) aborts them. V(finish) waits for them, and only aborts those that have not begun to
        move memory. VMs that have moved stay where they are.
    type: str
    choices: [now, finish]
    default: now
  begun:
    description:
      - Set by the action plugin from the second slice on. Set it, with O(run_id), when the same run
        is called again with O(hooks_done).
    type: bool
    default: false
  hooks_done:
    description:
      - Hooks that were run, as RV(needs) of the previous call had them; only C(uuid) and C(hook) matter.
      - They are written into the record on the node, and RV(needs) no longer names them. The roles C(drain) and
        C(restore) do all this.
    type: list
    elements: dict
    default: []
  lock_namespace:
    description: Namespace of the Lease that lets one run at a time work on a node.
    type: str
    default: default
  cursor:
    description:
      - Set by the action plugin. What the previous slice passed on, empty for the first. It saves requests; nothing
        else depends on it.
    type: str
  controller_uuid:
    description:
      - UUID of the machine that Ansible runs on, where the module runs on another one. A VM of the
        node that has it, or that of the machine on which the module runs, is moved last and never
        stopped.
      - The default is what that machine's firmware reports, if it can be read there (mostly by
        root).
      - A VM is known as well by the address from which the API is reached.
    type: str
    default: ''
extends_documentation_fragment:
  - virtops.maintenance._roll.run
  - virtops.maintenance._roll.playbook
  - virtops.maintenance._kubernetes
  - virtops.maintenance._kubernetes.node
  - virtops.maintenance._kubernetes.run
  - virtops.maintenance._kubernetes.slice
  - virtops.maintenance._kubernetes.policy
  - virtops.maintenance._kubernetes.severity
  - virtops.maintenance._kubernetes.stops
  - virtops.maintenance._kubernetes.course
  - virtops.maintenance._metrics
  - virtops.maintenance._speeds
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtgroup
attributes:
  check_mode:
    support: full
    details:
      - Reads, and evicts as a dry run on the server. Returns for each VM what would be done, about how long it would
        take and how long the VM would be paused.
      - What would stay on the node is named in a warning. Check mode does not fail for it.
      - The times follow KubeVirt's own limits and settings; MigrationPolicies are ignored.
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Empty a node
  virtops.maintenance.kubevirt_drain:
    node: node-1
    state: drained
    reason: firmware

- name: Empty a node, stopping what KubeVirt would stop on an eviction
  virtops.maintenance.kubevirt_drain:
    node: node-1
    allow_stop: true
    kubeconfig: ~/.kube/production

- name: Empty a node of VMs and of pods with scratch data, batch VMs by a stop
  virtops.maintenance.kubevirt_drain:
    node: node-1
    rules:
      - name: batch
        when: labels.tier == 'batch'
        strategy: None
        allow_stop: true
    pods:
      delete_emptydir_data: true

- name: Only the VMs, other pods stay
  virtops.maintenance.kubevirt_drain:
    node: node-1
    pods:
      selector: kubevirt.io=virt-launcher

- name: VMs that write much to their memory go last
  virtops.maintenance.kubevirt_drain:
    node: node-1
    metrics:
      url: https://thanos-querier.openshift-monitoring.svc:9091
      token: "{{ metrics_token }}"
    rules:
      - name: memory writers
        when: dirty_rate > `100`
        priority: -5
        unknown: next

- name: Put it back, or abort a drain
  virtops.maintenance.kubevirt_drain:
    node: node-1
    state: active
"""

RETURN = r"""
diff:
  description: Where each VM was and is, and whether the node takes VMs, a line each.
  returned: in diff mode
  type: dict
  contains:
    before:
      description: As the run found it.
      type: str
    after:
      description: As it is now; in check mode, as it would be.
      type: str
  sample:
    before: "VM shop/web-1: running on node-1\nnode node-1: takes VMs\n"
    after: "VM shop/web-1: running on node-2\nnode node-1: cordoned\n"
phase:
  description:
    - Where the node is. V(Drained) comes with a certificate.
    - V(Blocked) means that something stands in the way; see RV(vms) and RV(findings).
  returned: success
  type: str
  sample: Drained
ended:
  description:
    - V(final), V(out_of_time) when the slice was over first, or V(needs) when hooks wait. The
      task fails then, and RV(ignore:msg) says what to do.
  returned: success
  type: str
  sample: final
cursor:
  description: For the next slice. The action plugin takes it.
  returned: when O(cursor) is given and RV(ended) is V(out_of_time)
  type: str
waits_for:
  description:
    - What keeps the run from beginning, as a sentence; nothing was read or done. The action plugin
      prints it and calls again.
  returned: when O(cursor) is given and another run has the node's Lease
  type: str
node:
  description: The node.
  returned: success
  type: str
  sample: node-1
run_id:
  description: The run's id, as stored in annotations.
  returned: success
  type: str
  sample: 1790000000-a1b2c3
outcomes:
  description:
    - What became of each VM that the drain ever saw, by name.
  returned: with O(state=active), not in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Namespace and name of the VM.
      type: str
    at:
      description: The node on which it is, as far as known.
      type: str
    outcome:
      description:
        - V(untouched), V(aborted) (its migration was, and it stays), V(moved) (and it stays there),
          V(started) (again, after it was stopped), V(off) (it stays off), or V(open) (not
          restored).
      type: str
    message:
      description: The same as a sentence, with the reason where there is one.
      type: str
  sample:
    - name: shop/web-1
      at: node-1
      outcome: aborted
      message: migration aborted, runs on node-1
cordoned_by_others:
  description: Whether someone else had cordoned the node. Such a cordon is left in place.
  returned: success
  type: bool
  sample: false
closed:
  description:
    - Why the node takes no VMs although it is restored. Empty if it does.
  returned: with O(state=active), not in check mode
  type: list
  elements: str
  sample: [it is still cordoned, by others]
certificate:
  description: The proof that the node was empty. None unless RV(phase) is V(Drained).
  returned: success
  type: dict
  contains:
    node:
      description: The node.
      type: str
    boot_id:
      description: Its boot id at both reads.
      type: str
    run_id:
      description: The run that read it.
      type: str
    first_read:
      description: Time of the first read, seconds since the epoch where the module runs.
      type: float
    second_read:
      description: Time of the second read, by the same clock.
      type: float
    vms:
      description: UID of each VirtualMachine (of the instance, if it is bare) to what
        became of it, such as C(moved to node-2).
      type: dict
    pods:
      description: Namespace and name of the other pods that had to go. None of them is left.
      type: list
      elements: str
needs:
  description:
    - Hooks that have to be run before it can go on. Give the list back as O(hooks_done).
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: V(hook).
      type: str
    hook:
      description: V(before) or V(after).
      type: str
    tasks:
      description: The task file, as the rule has it.
      type: str
    name:
      description: Name of the VM, without its namespace.
      type: str
    uuid:
      description: Its UUID.
      type: str
    namespace:
      description: Its namespace.
      type: str
    node:
      description: The node that is drained or restored.
      type: str
    target:
      description: Where the VM will go, as far as that is known, or where it is now.
      type: str
    way:
      description: What is done with it, for example V(migrate) or V(shutdown).
      type: str
    verdict:
      description: How it is accounted for, V(pending) before anything was done.
      type: str
    decided_by:
      description: The rule.
      type: str
findings:
  description: Reasons that concern the node itself, each with C(reason), C(plane), C(message) and C(remedy).
  returned: success
  type: list
  elements: dict
counts:
  description: How many VMs have which verdict; C(total) is all.
  returned: success
  type: dict
  sample: {moved: 3, blocked: 0, total: 3}
nudges:
  description: The sum of RV(vms[].nudges).
  returned: success
  type: int
  sample: 0
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
        - V(gone) if the run made it go, V(pending) if it has to go, V(stays) if a filter leaves it
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
planned:
  description: What would be done first, in this order. The other pods come later.
  returned: in check mode
  type: list
  elements: dict
  contains:
    do:
      description: The act, for example V(cordon) or V(migrate).
      type: str
    vm:
      description: Namespace and name of the VM; empty when the act concerns the node.
      type: str
    target:
      description: The target, empty where the scheduler chooses it.
      type: str
predicted_duration:
  description: Seconds that the drain would take by O(speeds), without the VMs of RV(predicted_without).
  returned: in check mode, with O(state=drained)
  type: float
predicted_without:
  description: Names of VMs of which nobody knows how long they take, such as those that their owners move.
  returned: in check mode, with O(state=drained)
  type: list
  elements: str
would_stay:
  description: Names of the VMs because of which the node would not be drained.
  returned: in check mode, with O(state=drained)
  type: list
  elements: str
msg:
  description: Why the wanted state was not reached, with every VM that is in the way and a remedy.
  returned: failure
  type: str
vms:
  description: Every VM that the run ever saw.
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
    predicted_start:
      description: In check mode, seconds from now until its migration or stop would begin. None if that is
        not known.
      type: float
    predicted_duration:
      description: In check mode, seconds that its migration or stop would take. None if that is not known.
      type: float
    predicted_pause_ms:
      description: In check mode, milliseconds for which the guest would be paused. None if it stays off,
        or if that is not known.
      type: float
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
    - Sentences for people. They name VMs that others deleted or stopped during the maintenance, VMs that the drain
      stopped and that have not started elsewhere, a cordon that others removed, and an unfinished roll that this run is
      not part of.
    - Why no C(dirty_rate) is known although O(metrics.url) is given, with the server's URL and its answer.
    - A missing right without which the run goes on, such as that to write Events on the Node.
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
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import slice_seconds
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.speeds import SPEEDS_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.severity import parse_severity
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import METRICS_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.check_mode import plan
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.service import run_slice
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.work import Request
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "cordoned", "active"], "default": "drained"},
            "lock_namespace": {"type": "str", "default": "default"},
            **options.ABORT_SPEC,
            "hooks_done": {"type": "list", "elements": "dict", "default": []},
            "roll_run": {"type": "str", "default": ""},
            "cursor": {"type": "str"},
            "controller_uuid": {"type": "str", "default": ""},
            "speeds": SPEEDS_SPEC,
            "metrics": METRICS_SPEC,
            **AUTH_SPEC,
            **options.RUN_SPEC,
            **lives.SPEC,
            **options.SLICE_SPEC,
            **options.POLICY_SPEC,
            **options.SEVERITY_SPEC,
            **options.STOP_SPEC,
            **options.RUN_LIMITS_SPEC,
        },
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = module.params
    try:
        parse_severity(params["severity"])  # what it says is for the preflight beside check mode
        request = Request(
            auth=auth_of(module),
            node=params["node"],
            policy=options.policy(params),
            metrics=options.metrics(params, always=module.check_mode),
            pods=options.pods(params),
            machines=options.needs_virtual_machines(params),
            intent=Intent(params["state"]),
            run_id=options.run_id(params),
            requester=options.requester(params),
            reason=params["reason"],
            seconds=slice_seconds(params["slice"]),
            live=True,
            begun=params["begun"],
            playbook=params["playbook"],
            cursor=params["cursor"],
            controller_uuid=params["controller_uuid"],
            roll_run=params["roll_run"],
            lock_namespace=params["lock_namespace"],
            hooks_done=params["hooks_done"],
        )
        if module.check_mode:
            result = plan(request, params["speeds"])
        else:
            result = run_slice(request)
    except FAILURES as exc:
        cursor = getattr(exc, "cursor", "")  # for the slice that goes on
        module.fail_json(msg=str(exc), error=type(exc).__name__, **({"cursor": cursor} if cursor else {}))
    if not module._diff:
        result.pop("diff", None)
    # Ansible takes what module.warn is told out of the result, and shows it when the task has ended.
    result["warned"] = result.pop("warnings", [])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
