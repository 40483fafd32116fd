#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_migration
short_description: Migrate one VM of a libvirt host, or abort its migration
version_added: 0.1.0
description:
  - Moves one VM away from the host that the module runs on, with the same checks, limits and
    records as M(virtops.maintenance.virt_drain).
  - The VM's eviction strategy does not count, since that is for a drain of its host. Of rules only C(allow_stop),
    C(priority), C(migration) and C(unknown) count, and of O(on_not_migratable) only V(cold_migrate).
  - An abort is stage-aware. What has not started is withdrawn; a migration in pre-copy is aborted;
    in post-copy, or once the VM runs on the target, the abort is refused and the result says
    that the VM moves. Where the VM runs is read afterwards.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  name:
    description: Name or UUID of the VM.
    type: str
    required: true
  state:
    description: What is wanted.
    type: str
    choices: [migrated, aborted]
    default: migrated
  target:
    description: Name of the peer to move it to. Default is the one that fits best.
    type: str
    default: ''
  begun:
    description: Set by the action plugin from the second slice on.
    type: bool
    default: false
extends_documentation_fragment:
  - virtops.maintenance._roll.playbook
  - virtops.maintenance._libvirt
  - virtops.maintenance._libvirt.policy
  - virtops.maintenance._libvirt.run
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.actiongroup
attributes:
  check_mode:
    support: full
    details:
      - Reads only, and returns what would be done.
      - To see a disk that libvirt on a peer does not know yet, it has libvirt read the directory of
        the peer's storage pool again (C(virsh pool-refresh)). There is no other way to know.
      - A storage pool C(virtops) that is off is not started, unlike in a run; its host counts as not readable.
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Move a VM to a host of your choice
  virtops.maintenance.virt_migration:
    name: db-1
    target: host-b
    node: host-a
    peers:
      - name: host-b
        uri: qemu+tls://host-b/system
        memory: 65536

- name: Abort it
  virtops.maintenance.virt_migration:
    name: db-1
    state: aborted
    node: host-a
    peers:
      - name: host-b
        uri: qemu+tls://host-b/system
"""

RETURN = r"""
diff:
  description: Where each VM was and is, and whether the host takes VMs, a line each.
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
    before: "VM web-1: running on host-a\nhost host-a: takes VMs\n"
    after: "VM web-1: running on host-b\nhost host-a: takes VMs\n"
vm:
  description: Name of the VM, also where O(name) is its UUID.
  returned: success
  type: str
  sample: web-1
phase:
  description:
    - V(Migrated), V(Active) after an abort, V(Blocked), or V(Migrating) and V(Restoring) before.
    - An abort that came too late ends as V(Blocked), and fails. The VM's row in RV(vms) then has
      the reason V(TooLateToAbort) and says where the VM runs.
  returned: success
  type: str
  sample: Migrated
ended:
  description: V(final), or V(out_of_time) when the slice was over first.
  returned: success
  type: str
node:
  description: The host.
  returned: success
  type: str
run_id:
  description: The run's id.
  returned: success
  type: str
findings:
  description: Reasons that concern the host itself, each with C(reason), C(plane), C(message) and C(remedy).
  returned: success
  type: list
  elements: dict
cordoned_by_others:
  description: Whether someone else had cordoned the host. Such a cordon is left in place.
  returned: success, unless the VM was on a peer already
  type: bool
  sample: false
certificate:
  description: Always none, because one VM's migration does not empty a host.
  returned: success
  type: dict
counts:
  description: How many VMs have which verdict; C(total) is all.
  returned: success
  type: dict
  sample: {moved: 1, blocked: 0, pending: 0, total: 1}
msg:
  description: Where the VM is, or why it is not where it was wanted.
  returned: when the VM was on a peer already, and on failure
  type: str
  sample: web-1 (11111111-2222-3333-4444-555555555555) is on host-b
planned:
  description: What would be done now, in this order; see RV(diff) for what comes of it.
  returned: in check mode, unless the VM is on a peer already
  type: list
  elements: dict
  contains:
    do:
      description: The act, for example V(migrate), V(abort), V(finish) or V(release).
      type: str
    vm:
      description: Name of the VM.
      type: str
    target:
      description: Host that the VM would go to; empty when it would not move.
      type: str
  sample:
    - {do: migrate, vm: web-1, target: host-b}
vms:
  description: The VM. Empty for the abort of a migration that an earlier result reports as aborted.
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
      description: How it is accounted for. V(pending), V(moved), V(stopped), V(saved), V(cold_moved), V(off),
        V(gone), V(blocked), V(skipped), V(lost) or V(restored).
      type: str
    phase:
      description: Phase of its last migration, in KubeVirt's words. V(Pending) (also before its first one),
        V(Scheduled), V(Running), V(Succeeded), V(Failed), or empty.
      type: str
    source:
      description: The host that the module runs on.
      type: str
    target:
      description: Target of its last migration.
      type: str
    at:
      description: The host on which it was read last.
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
    steps:
      description: What was done so that its last migration comes to its end, in order. The seconds are those
        in which it had the link.
      returned: when something was done
      type: list
      elements: str
      sample:
        - a pause of 2.0 s allowed after 9 s
        - post-copy after 84 s
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
    abort_status:
      description: What came of the abort of its migration, V(Aborting), V(Succeeded) (the VM stays where
        it was), or V(Failed) (too late, the VM moves). Empty if no abort was requested.
      type: str
    processed_mib:
      description: MiB that the last migration moved.
      type: float
    duration:
      description: Seconds that the last migration took. V(0) until it has ended.
      type: float
    outage_ms:
      description: Milliseconds for which the guest did not run. Of a live migration the pause that libvirt
        measured; of a guest that is stopped from the request to the moment at which it was seen to run again,
        to the second. None if it is not known or not over.
      type: int
    progress:
      description: How far a migration or a save under way is, C(percent), C(processed_mib), C(total_mib),
        C(remaining_mib), C(rate_mib_s), and C(eta), the seconds that are left (None if they are not known).
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
    - Sentences for people. If fewer than two peers (with one peer, none) took a copy of the host's record and of its
      VMs' definitions, they name the peers and why. A transient VM is stopped only when a peer has a copy.
    - They also name reservations of dead drains that were removed or stay, half copies of disks that somebody has to
      look at, and hosts that failed as targets.
  returned: when there are any
  type: list
  elements: str
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: LibvirtMissing
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import slice_seconds
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.errors import Failed, as_failed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.migration import (
    MigrationRequest,
    run_migration,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["migrated", "aborted"], "default": "migrated"},
            "target": {"type": "str", "default": ""},
            "begun": {"type": "bool", "default": False},
            **options.HOSTS_SPEC,
            **options.POLICY_SPEC,
            **options.RUN_SPEC,
            **lives.SPEC,
        },
        supports_check_mode=True,
    )
    module.debug(_kept.STATE)
    params = options.params_of(module)
    try:
        with as_failed():
            request = MigrationRequest(
                name=params["name"],
                own=options.own_config(params),
                peers=options.peer_configs(params),
                policy=options.policy(params),
                intent=Intent.MIGRATED if params["state"] == "migrated" else Intent.ACTIVE,
                run_id=options.run_id(params),
                requester=options.requester(params),
                reason=params["reason"],
                controller_uuid=params["controller_uuid"],
                seconds=slice_seconds(params["slice"]),
                begun=params["begun"],
                playbook=params["playbook"],
                to=params["target"],
                check=module.check_mode,
            )
            result = run_migration(request)
    except Failed as exc:
        module.fail_json(msg=str(exc), error=exc.error)
    if not module._diff:
        result.pop("diff", None)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
