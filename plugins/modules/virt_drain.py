#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_drain
short_description: Drain a libvirt host, or return it to service
version_added: 0.1.0
description:
  - Brings the host that the module runs on into a maintenance state. V(drained) moves every VM
    to other hosts by live migration, or does what its strategy and the policy say.
  - V(Drained) is reported only with a certificate. The host was read empty twice, and every VM
    that the run ever saw is accounted for.
  - Intent and progress are kept in a record on the host, not in a process. A run that was killed is continued by
    running it again.
  - The module works in slices. The action plugin of the same name calls it until the state is
    final and prints a line for each change.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  state:
    description:
      - V(drained) cordons the host and empties it.
      - V(cordoned) only cordons it, so that no run of this collection places a VM there.
      - V(active) aborts migrations that are under way, starts what was stopped for the maintenance, and removes the
        cordon if this collection set it. VMs that were moved stay where they are.
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
      - They are written into the record on the host, and RV(needs) no longer names them. The roles C(drain) and
        C(restore) do all this.
    type: list
    elements: dict
    default: []
extends_documentation_fragment:
  - virtops.maintenance._libvirt
  - virtops.maintenance._libvirt.policy
  - virtops.maintenance._libvirt.run
  - virtops.maintenance._roll.run
  - virtops.maintenance._roll.playbook
  - virtops.maintenance._speeds
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.actiongroup
attributes:
  check_mode:
    support: full
    details:
      - Reads only, and returns for each VM what would be done, how long it would take and how long
        the VM would be paused.
      - What would stay on the host is named in a warning. Check mode does not fail for it.
      - To see a disk that libvirt on a peer does not know yet, it has libvirt read the directory of
        the peer's storage pool again (C(virsh pool-refresh)). There is no other way to know.
      - A storage pool C(virtops) that is off is not started, unlike in a run; its host counts as not readable.
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Empty a host
  virtops.maintenance.virt_drain:
    state: drained
    node: host-a
    memory: 65536
    peers:
      - name: host-b
        uri: qemu+tls://host-b/system
        memory: 65536
      - name: host-c
        uri: qemu+tls://host-c/system
        memory: 65536

- name: Empty a host, shutting down what cannot move
  virtops.maintenance.virt_drain:
    state: drained
    on_not_migratable: shutdown
    allow_stop: true
    memory: 65536
    peers:
      - name: host-b
        uri: qemu+tls://host-b/system
        memory: 65536

- name: Put it back, or abort a drain
  virtops.maintenance.virt_drain:
    state: active
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
    after: "VM web-1: running on host-b\nhost host-a: cordoned\n"
phase:
  description:
    - Where the host is. V(Drained) comes with a certificate.
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
node:
  description: The host.
  returned: success
  type: str
  sample: host-a
run_id:
  description: The run's id, as stored in records and metadata.
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
      description: Name of the VM.
      type: str
    at:
      description: The host on which it is, as far as known.
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
    - name: web-1
      at: host-a
      outcome: aborted
      message: migration aborted, runs on host-a
cordoned_by_others:
  description: Whether someone else had cordoned the host. Such a cordon is left in place.
  returned: success
  type: bool
  sample: false
closed:
  description:
    - Why the host takes no VMs although it is restored. Empty if it does.
  returned: with O(state=active), not in check mode
  type: list
  elements: str
  sample: [it is still cordoned, by others]
certificate:
  description: The proof that the host was empty. None unless RV(phase) is V(Drained).
  returned: success
  type: dict
  contains:
    node:
      description: The host.
      type: str
    boot_id:
      description: Its boot id at both reads.
      type: str
    run_id:
      description: The run that read it.
      type: str
    first_read:
      description: Time of the first read, seconds of the host's boot-time clock.
      type: float
    second_read:
      description: Time of the second read, by the same clock.
      type: float
    vms:
      description: UUID of each VM to what became of it, such as C(moved to host-b).
      type: dict
    unread:
      description: Hosts that did not answer, each with the reason why none of the VMs can be there.
      type: dict
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
      description: Name of the VM.
      type: str
    uuid:
      description: Its UUID.
      type: str
    namespace:
      description: Empty on libvirt.
      type: str
    node:
      description: The host that is drained or restored.
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
  description: Reasons that concern the host itself, each with C(reason), C(plane), C(message) and C(remedy).
  returned: success
  type: list
  elements: dict
counts:
  description: How many VMs have which verdict; C(total) is all.
  returned: success
  type: dict
  sample: {moved: 3, blocked: 0, total: 3}
planned:
  description: What would be done now, in this order; see RV(diff) for what comes of it.
  returned: in check mode
  type: list
  elements: dict
  contains:
    do:
      description: The act, for example V(migrate), V(shutdown) or V(cordon).
      type: str
    vm:
      description: Name of the VM; empty when the act concerns the host.
      type: str
    target:
      description: Host that the VM would go to; empty when it would not move.
      type: str
  sample:
    - {do: cordon, vm: '', target: ''}
    - {do: migrate, vm: web-1, target: host-b}
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
  description: Names of the VMs because of which the host would not be drained.
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
    - Sentences for people. If fewer than two peers (with one peer, none) took a copy of the host's record and of its
      VMs' definitions, they name the peers and why. A transient VM is stopped only when a peer has a copy.
    - They also name reservations of dead drains that were removed or stay, half copies of disks that somebody has to
      look at, hosts that failed as targets, and an unfinished roll that this run is not part of.
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
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.speeds import SPEEDS_SPEC
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.errors import Failed, as_failed
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.check_mode import plan
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request, run_slice
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["drained", "cordoned", "active"], "default": "drained"},
            "begun": {"type": "bool", "default": False},
            **options.ABORT_SPEC,
            "hooks_done": {"type": "list", "elements": "dict", "default": []},
            "roll_run": {"type": "str", "default": ""},
            "speeds": SPEEDS_SPEC,
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
            request = Request(
                own=options.own_config(params),
                peers=options.peer_configs(params),
                policy=options.policy(params),
                intent=Intent(params["state"]),
                run_id=options.run_id(params),
                requester=options.requester(params),
                reason=params["reason"],
                controller_uuid=params["controller_uuid"],
                roll_run=params["roll_run"],
                seconds=slice_seconds(params["slice"]),
                live=True,
                begun=params["begun"],
                playbook=params["playbook"],
                speeds=params["speeds"],
                hooks_done=params["hooks_done"],
            )
            result = plan(request) if module.check_mode else run_slice(request)
    except Failed as exc:
        module.fail_json(msg=str(exc), error=exc.error)
    if not module._diff:
        result.pop("diff", None)
    # Ansible takes what module.warn is told out of the result, and shows it when the task has ended.
    result["warned"] = result.pop("warnings", [])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
