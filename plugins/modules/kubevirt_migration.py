#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubevirt_migration
short_description: Migrate one KubeVirt VM, or abort its migration
version_added: 0.1.0
description:
  - Moves one running VM to another node by a migration object of its own, or takes over the one
    that is under way, and watches it to its end. Attempts are bounded, and what waits in vain is
    withdrawn; KubeVirt itself has no deadline for a quota, a slot or a stuck preparation.
  - An abort is stage-aware. Where an eviction requested the migration, its mark is cancelled first,
    or KubeVirt would make a new migration; then the migration is deleted. In post-copy, or once
    the VM runs on the target, the abort is refused and the result says that the VM moves. Where
    the VM runs is read afterwards, twice.
  - Who asked, when and why is stored as annotation C(virtops.maintenance/request) on the instance and
    on the migration before anything is requested. A call that was killed is continued by the
    next.
  - The module works in slices. The action plugin of the same name calls it until the state is
    final and prints a line for each change.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  name:
    description: Name of the VM.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    default: default
  uid:
    description:
      - UID of the VirtualMachine, or of the instance if it is bare. A VM that was deleted and made anew with the same
        name has another one, and is then refused.
      - Default is whichever VM has the name.
    type: str
    default: ''
  state:
    description:
      - V(migrated) moves it. What is under way already is taken over, whoever began it.
      - V(aborted) ends what is under way, whoever began it. A drain or another loop that still
        wants the VM to move may request it again.
    type: str
    choices: [migrated, aborted]
    default: migrated
  node:
    description:
      - The node that it is to leave. If it is on another one, there is nothing to do.
      - Without this and without a target, each call moves the VM once more.
    type: str
    default: ''
  target:
    description:
      - Name of the node to move it to. Default is the one that the scheduler finds.
      - Needs KubeVirt 1.6 or newer; with an older one it is refused, and nothing is changed.
    type: str
    default: ''
  added_node_selector:
    description:
      - Labels of the node to move it to, KubeVirt's C(addedNodeSelector).
      - Needs KubeVirt 1.6 or newer; with an older one it is refused, and nothing is changed.
    type: dict
    default: {}
  max_attempts:
    description: How often the migration is tried in one run. One that was taken over counts as well.
    type: int
    default: 3
  backoff:
    description: Seconds before the second attempt. Doubled for each further one.
    type: float
    default: 5.0
  pending_timeout:
    description:
      - Seconds that a migration may wait for something other than a slot, for example for a node
        that takes its target pod, for a quota, a backup, or the preparation of the target. After
        them it is withdrawn.
    type: float
    default: 300.0
  migration_timeout:
    description:
      - Seconds for all attempts together, the wait for a slot within KubeVirt's limits included.
        After them it is withdrawn.
    type: float
    default: 3600.0
  abort_timeout:
    description:
      - Seconds after which an abort that KubeVirt puts off is forced. That is so while the target
        was never prepared; its pod is then deleted, on which there is nothing of the guest yet.
    type: float
    default: 60.0
extends_documentation_fragment:
  - virtops.maintenance._roll.playbook
  - virtops.maintenance._kubernetes
  - virtops.maintenance._kubernetes.run
  - virtops.maintenance._kubernetes.slice
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtgroup
attributes:
  check_mode:
    support: full
    details:
      - Reads, and lets the server judge the request by a dry run. Nothing is written.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - With O(node), O(target) or O(added_node_selector), and with O(state=aborted).
      - Without them each call with O(state=migrated) moves the VM once more.
"""

EXAMPLES = r"""
- name: Move a VM away from a node
  virtops.maintenance.kubevirt_migration:
    name: db-1
    namespace: shop
    node: node-1
    reason: fan of node-1 is loud

- name: Move it to a node of your choice
  virtops.maintenance.kubevirt_migration:
    name: db-1
    namespace: shop
    target: node-3

- name: Move it to a node of a kind
  virtops.maintenance.kubevirt_migration:
    name: db-1
    namespace: shop
    added_node_selector:
      topology.kubernetes.io/zone: east

- name: Abort it
  virtops.maintenance.kubevirt_migration:
    name: db-1
    namespace: shop
    state: aborted
"""

RETURN = r"""
diff:
  description: Where the VM was and is.
  returned: in diff mode
  type: dict
  contains:
    before:
      description: As the slice found it.
      type: str
    after:
      description: As it is now; in check mode, as it would be.
      type: str
  sample:
    before: "VM shop/db-1: running on node-1\n"
    after: "VM shop/db-1: running on node-3\n"
phase:
  description:
    - V(Migrated), V(Active) after an abort, V(Blocked), or V(Migrating) and V(Aborting) in between.
    - An abort that came too late ends as V(Migrated), or as V(Migrating) in post-copy, and fails.
  returned: success
  type: str
  sample: Migrated
ended:
  description: V(final), or V(out_of_time) when the slice was over first.
  returned: success
  type: str
vm:
  description: Namespace and name of the VM.
  returned: success
  type: str
  sample: shop/db-1
node:
  description: The node that it left, or on which it is.
  returned: success
  type: str
run_id:
  description: The run's id.
  returned: success
  type: str
findings:
  description: Why an abort came too late, if the VM has moved. Every other reason, also why an abort is refused in
    post-copy, is in RV(vms).
  returned: success
  type: list
  elements: dict
counts:
  description: How many VMs have which verdict. There is only one VM here.
  returned: success
  type: dict
  sample: {moved: 1, blocked: 0, pending: 0, total: 1}
certificate:
  description: Always none, because one VM's migration does not empty a node.
  returned: success
  type: dict
msg:
  description: Why the VM is not where it was wanted.
  returned: on failure
  type: str
planned:
  description: What would be done now, in this order.
  returned: in check mode
  type: list
  elements: dict
  contains:
    do:
      description:
        - V(migrate), V(adopt) for one that is under way, V(cancel) for the mark of an eviction, or
          V(abort).
      type: str
    vm:
      description: Namespace and name of the VM.
      type: str
    target:
      description: Node that it would go to; empty when the scheduler chooses it.
      type: str
  sample:
    - {do: migrate, vm: shop/db-1, target: node-3}
vms:
  description: The VM, as one row.
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
      description: The running instance's eviction strategy.
      type: str
    decided_by:
      description: Who decided what is done with it, here always the request.
      type: str
    way:
      description: V(migrate) or V(abort).
      type: str
    verdict:
      description: V(pending), V(moved), V(restored) after an abort, or V(blocked).
      type: str
    phase:
      description:
        - Phase of the migration. V(Succeeded) as soon as the guest has moved, even if KubeVirt
          keeps the object V(Running).
      type: str
    source:
      description: The node that it left, or is to leave.
      type: str
    target:
      description: The node to which it goes, as far as that is known.
      type: str
    at:
      description: The node on which it was read last.
      type: str
    mode:
      description: V(PreCopy), V(PostCopy) or V(Paused).
      type: str
    method:
      description: V(LiveMigration) with shared storage, V(BlockMigration) with copied storage. Empty if that is
        not known.
      type: str
    attempts:
      description: Migrations that were tried in this run.
      type: int
    start:
      description: When the migration object was created, UTC.
      type: str
    end:
      description: When the guest had moved, UTC, as KubeVirt reports it. Empty until then.
      type: str
    abort_status:
      description: What came of the abort of its migration, V(Aborting), V(Succeeded) (the VM stays where it was), or
        V(Failed) (too late, the VM moves). Empty if no abort was requested.
      type: str
    processed_mib:
      description: MiB that the migration moved; KubeVirt does not report it, so V(0).
      type: float
    duration:
      description: Seconds that the migration took. V(0) until it has ended.
      type: float
    outage_ms:
      description: Milliseconds for which the guest did not run. None, since KubeVirt does not report it.
      type: int
    hooks:
      description: Always empty, because no rule's hooks are run for it.
      type: dict
    migration:
      description: Name of the migration object.
      type: str
    requested_by:
      description: Who requested that migration.
      type: str
    handed_off:
      description: When the guest began to run on the target, UTC, as KubeVirt reports it. Empty if it has not.
      type: str
    policy:
      description: Name of the MigrationPolicy that applies, empty if none does or before hand-off.
      type: str
    reason:
      description:
        - Reason code, empty if nothing is wrong. While it waits, what for, in the words of
          M(virtops.maintenance.kubevirt_migration_info).
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
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: AccessDenied
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import slice_seconds
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.auth import AUTH_SPEC, auth_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import FAILURES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.migration import (
    plan_migration,
    run_migration,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.model import (
    MigrationRequest,
    WantedState,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "uid": {"type": "str", "default": ""},
            "state": {"type": "str", "choices": ["migrated", "aborted"], "default": "migrated"},
            "node": {"type": "str", "default": ""},
            "target": {"type": "str", "default": ""},
            "added_node_selector": {"type": "dict", "default": {}},
            **AUTH_SPEC,
            **{key: options.RUN_LIMITS_SPEC[key] for key in ("max_attempts", "backoff", "pending_timeout")},
            "migration_timeout": {"type": "float", "default": 3600.0},
            "abort_timeout": {"type": "float", "default": 60.0},
            **options.RUN_SPEC,
            **lives.SPEC,
            **options.SLICE_SPEC,
        },
        mutually_exclusive=[("target", "added_node_selector")],
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = module.params
    try:
        request = MigrationRequest(
            auth=auth_of(module),
            name=params["name"],
            namespace=params["namespace"],
            want=WantedState(params["state"]),
            run_id=options.run_id(params),
            requester=options.requester(params),
            reason=params["reason"],
            uid=params["uid"],
            node=params["node"],
            target=params["target"],
            selector={str(k): str(v) for k, v in params["added_node_selector"].items()},
            max_attempts=params["max_attempts"],
            backoff=params["backoff"],
            pending_timeout=params["pending_timeout"],
            migration_timeout=params["migration_timeout"],
            abort_timeout=params["abort_timeout"],
            seconds=slice_seconds(params["slice"]),
            begun=params["begun"],
            playbook=params["playbook"],
        )
        result = plan_migration(request) if module.check_mode else run_migration(request)
    except FAILURES as exc:
        module.fail_json(msg=str(exc), error=type(exc).__name__)
    if not module._diff:
        result.pop("diff", None)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
