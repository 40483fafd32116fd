#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_roll
short_description: Keep the record of a roll, so that there is one at a time and it carries on
version_added: 0.1.0
description:
  - A roll maintains host after host of a fleet. Its record is kept on the platform, where every
    controller can read it. It says which hosts, how far each one is, and which C(ansible-playbook)
    carries the roll on.
  - There is one roll for a fleet or cluster. Whoever begins a second one is refused before anything
    is done, and so is a drain or restore of a host of a roll that lives by anybody else.
  - A roll whose playbook ended, was killed or was cut off is carried on by the same command, from
    any controller. It lives as long as its record is written, which a process beside
    C(ansible-playbook) does every ten seconds. When nobody has written for a minute it is dead.
  - How many hosts may be out at once is decided here, for all of the fleet.
  - The action plugin calls M(virtops.maintenance.virt_roll) or
    M(virtops.maintenance.kubevirt_roll), which take the options. The playbook
    C(virtops.maintenance.rolling_maintenance) shows how it is used.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  platform:
    description:
      - What the fleet runs. On V(libvirt) the options C(node), C(uri), C(peers) and C(slots_on) of
        M(virtops.maintenance.virt_roll) are needed; run it on a host of the fleet that counts
        the slots.
      - On V(kubevirt) those of M(virtops.maintenance.kubevirt_roll) say how the API is reached.
    type: str
    choices: [libvirt, kubevirt]
    default: libvirt
  faults:
    description:
      - With O(state=begun) what is wrong with the request, a sentence each. If there is anything, nothing is
        begun.
    type: list
    elements: str
    default: []
  reach_for:
    description:
      - Seconds for which a host that cannot be reached is tried again, since it may be rebooting.
      - With O(state=noted) V(0) stands for a minute.
    type: int
    default: 0
  must_answer:
    description:
      - Whether it is an error that the host cannot be reached. If not, RV(silent) is true then, so that another host
        that keeps the record can be asked. Ansible ends a play for an unreachable host of a task that has C(run_once),
        also where that is ignored.
      - With V(true) the task fails then, and says that no host that keeps the record could be reached. Without this
        option the host is unreachable, as in any other task.
    type: bool
  looks:
    description:
      - With O(state=planned) what M(virtops.maintenance.maintenance_host) returned for each host with its
        C(state=looked). If more hosts are not ready than O(max_failures), the roll is refused.
    type: list
    elements: dict
    default: []
  policy:
    description:
      - With O(state=planned) the options of M(virtops.maintenance.maintenance_plan) but for those that were read,
        O(virtops.maintenance.maintenance_plan#module:hosts) and the like, and C(metrics) of
        M(virtops.maintenance.kubevirt_fleet_info).
    type: dict
    default: {}
  must_fit:
    description: With O(state=planned), whether a roll that does not fit is refused.
    type: bool
    default: true
  plan_file:
    description:
      - With O(state=begun) a plan on the controller, from which the order of O(hosts) and O(seconds)
        are taken. One that does not fit is refused. With O(state=planned) its order and times stay.
    type: str
    default: ''
  restored:
    description:
      - With O(stage=given back) what the restore of O(roll_host) returned. The report has from it how far the drain
        came that was cut off.
    type: dict
    default: {}
extends_documentation_fragment:
  - virtops.maintenance._roll
  - virtops.maintenance._roll.run
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtgroup
attributes:
  check_mode:
    support: full
    details: Each host has its turn at once. Nothing is written.
  diff_mode:
    support: none
  idempotent:
    support: full
  action:
    description: Runs on the controller and calls a module on the host.
    support: full
"""

EXAMPLES = r"""
- name: Begin a roll of two nodes, or carry it on
  virtops.maintenance.maintenance_roll:
    platform: kubevirt
    state: begun
    hosts: [node-1, node-2]
  run_once: true
  delegate_to: localhost

- name: Wait for the turn of this node
  virtops.maintenance.maintenance_roll:
    platform: kubevirt
    state: admitted
    roll_host: "{{ inventory_hostname }}"
  delegate_to: localhost
  register: turn

- name: Record that the node is done
  virtops.maintenance.maintenance_roll:
    platform: kubevirt
    state: noted
    stage: done
    roll_host: "{{ inventory_hostname }}"
  delegate_to: localhost
"""

RETURN = r"""
answer:
  description:
    - V(go) or V(done). V(wait) for a place and V(watch) whether an old roll lives are handled by
      the action plugin. V(closed) means that the host is not begun in this roll, or that the roll
      has hosts left.
  returned: success
  type: str
  sample: go
silent:
  description: That the host could not be reached. There is nothing else then.
  returned: if O(must_answer=false)
  type: bool
  sample: true
targets:
  description:
    - Where the plan sends VMs when a host is emptied. The name of the host to UUID to the name of another host. Empty
      if there is no plan.
  returned: with O(state=planned)
  type: dict
  sample: {host-a: {7a1f0b1e-6a9f-4c0e-8f0b-3f0e4d2c9a11: host-b}}
ended:
  description: V(final), or V(out_of_time) when the call is to be made again.
  returned: success
  type: str
  sample: final
message:
  description: What people should know, or nothing.
  returned: success
  type: str
  sample: 'roll 7f3a1c: 7 hosts'
waits_for:
  description: The hosts that it waits for.
  returned: success
  type: list
  elements: str
is_next:
  description: Whether, of all hosts that wait, this one has the next turn.
  returned: with O(state=admitted) and V(wait) as RV(answer)
  type: bool
position:
  description: Which host of the roll this is, such as C(2/7) for the second of seven.
  returned: with O(state=admitted)
  type: str
  sample: 2/7
ready:
  description:
    - When the last host will be done, in UTC, by the plan and by what the hosts took that are done. Empty before the
      first one is, since nobody knows what your tasks and the reboot take.
  returned: with O(state=admitted)
  type: str
  sample: '2026-03-01T21:03:00Z'
lines:
  description: What the roll did, a table. The action plugin shows it.
  returned: with O(state=ended)
  type: list
  elements: str
event:
  description:
    - For notifications. C(event) is V(begin), V(done), V(failed) or V(end); C(host), its name, or empty; C(message), a
      sentence; and what RV(stats) has. Empty if there is nothing to tell.
  returned: with O(state=begun), O(state=noted) and O(state=ended)
  type: dict
stats:
  description:
    - The roll in figures. The playbooks leave them to later jobs of a workflow.
    - C(roll), its id; C(result), one of V(done), V(failed), V(paused), V(stopped), V(aborted) and V(running);
      C(hosts) and C(done), numbers; C(out) and C(failed), names; C(begun), UTC; and C(tally), what became of the VMs.
  returned: with O(state=ended)
  type: dict
why:
  description: Why the host failed, with what came of its recovery.
  returned: with O(state=noted)
  type: str
recovers:
  description: Whether the host is to be recovered now, by O(recovery) and by what it failed in.
  returned: with O(state=noted)
  type: bool
steps:
  description: What is left to be done with the host.
  returned: with O(state=admitted)
  type: list
  elements: str
  sample: [drain, work, reboot, check, restore]
order:
  description: The hosts that are not done, half done ones first.
  returned: with O(state=begun) and O(state=planned)
  type: list
  elements: str
  sample: [host-b, host-c]
to_plan:
  description: Whether no host of it was begun yet, so that it can still be planned.
  returned: with O(state=begun)
  type: bool
watch:
  description: For the next call. The action plugin takes it.
  returned: when RV(ended) is V(out_of_time)
  type: dict
roll:
  description: The record. None if there is none.
  returned: success
  type: dict
  contains:
    id:
      description: Name of the roll.
      type: str
    state:
      description: V(running), V(stopped), V(paused), V(aborting), V(aborted), V(ended), or
        V(refused) if it could not be done.
      type: str
    requester:
      description: Who requested it.
      type: str
    reason:
      description: Why.
      type: str
    begun:
      description: When it began, UTC.
      type: str
    written:
      description: When the record was last written, UTC of who wrote it.
      type: str
    hosts:
      description:
        - One entry a host in the order of the roll, with C(name), C(stage) and C(since), and where
          there is one C(message), C(failed_in), C(boot_id) (before its reboot), C(worked) (your tasks ended), C(begun),
          and C(tally) (its C(vms), of them C(moved), C(cold_moved), C(stopped), C(off) and C(kept), and the longest
          C(outage_ms)).
      type: list
      elements: dict
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: RollRefused
"""
