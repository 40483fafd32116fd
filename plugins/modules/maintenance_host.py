#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_host
short_description: Take a host out of service or bring it back, on libvirt or KubeVirt
version_added: 0.1.0
description:
  - Calls the actions of the platform one after the other, so that a roll prints little.
  - In a roll it keeps the record, with M(virtops.maintenance.maintenance_roll). A host has its work
    or its reboot recorded only while the certificate of its drain stands there, and is recorded as
    done only after its restore; the record refuses anything else.
  - In a roll a host that cannot be reached is a failure, so that the playbook can record it.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  state:
    description:
      - V(looked) checks it before the roll, for the plan. What it finds is shown, and is no failure here.
        V(reached) tries the connection that a reboot would need, RV(unreached); without one in O(reboot) it is skipped.
      - V(out) waits for the turn of O(roll_host), checks it and drains it. V(empty) drains it again,
        as after work on it. V(reboots) asks the record right before its reboot whether it is still to be
        done. V(healthy) waits until it is healthy. V(back) does that too, restores it
        and records that it is done. V(home) moves O(moves) back to where they were before the roll.
      - Outside of a roll V(drained), V(active) and V(checked) drain a host, restore it, or check it. V(moved) moves one
        VM.
    type: str
    choices: [looked, reached, out, empty, reboots, healthy, back, home, drained, active, moved, checked]
    required: true
  platform:
    description: What the host runs.
    type: str
    choices: [libvirt, kubevirt]
    default: libvirt
  roll_host:
    description: Name of the host in its roll.
    type: str
    default: ''
  preflight:
    description: Options of M(virtops.maintenance.virt_preflight) or M(virtops.maintenance.kubevirt_preflight).
    type: dict
    default: {}
  drain:
    description: Options of M(virtops.maintenance.virt_drain) or M(virtops.maintenance.kubevirt_drain).
    type: dict
    default: {}
  restore:
    description: As O(drain), for the way back.
    type: dict
    default: {}
  move:
    description:
      - With O(state=home) and O(state=moved) options of M(virtops.maintenance.virt_migration) or
        M(virtops.maintenance.kubevirt_migration).
    type: dict
    default: {}
  moves:
    description:
      - With O(state=home) the VMs, as C(moves) of M(virtops.maintenance.maintenance_roll) says. They move one after the
        other. One that cannot is recorded and is no failure here; one that somebody else moved meanwhile is left
        there.
    type: list
    elements: dict
    default: []
  steps:
    description: With O(state=empty), the steps that are left, as RV(steps) of the task before had them.
    type: list
    elements: str
    default: []
  turn:
    description: With O(state=empty), O(state=reboots), O(state=healthy) and O(state=back), RV(turn) of the task before.
    type: dict
    default: {}
  work:
    description: With O(state=out), whether tasks are to be run on the empty host.
    type: bool
    default: false
  checks:
    description:
      - Whether there are checks to be run before VMs come back. With O(state=back), whether they were run. They waited
        until the host was healthy, so that is not checked again.
    type: bool
    default: false
  reboot:
    description:
      - Whether the host is to be rebooted, as the variable C(maintenance_reboot) has it. With V(auto) only if the host
        says that it needs it. Nothing or an empty text is V(always).
    type: raw
  hooks_were_run:
    description: Whether the hooks that were due have run. With O(state=empty) and O(state=back), hooks that are still
      due then are a failure.
    type: bool
    default: false
  lost:
    description: With O(state=healthy) and O(state=back), whether the host did not answer after its reboot.
    type: bool
    default: false
  fail_on:
    description: Which findings of the check stop the drain before anything moves.
    type: str
    choices: [blockers, node_blockers, nothing]
    default: node_blockers
  healthy_within:
    description:
      - Seconds for which the check is repeated, every two seconds, while the host has blockers. With O(state=reboots)
        it is only shown, as the time that the reboot may take.
      - With O(state=out) only for a host that was in its reboot when the roll was carried on. If it does not answer, it
        is tried again for as long.
    type: int
    default: 0
  shown:
    description: With O(state=out) findings that were shown before the roll, RV(lines) of V(looked).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - virtops.maintenance._attributes
  - virtops.maintenance._attributes.kubevirtgroup
attributes:
  check_mode:
    support: full
    details: As the modules that it calls. Nothing is recorded.
  diff_mode:
    support: full
  idempotent:
    support: full
  action:
    description: Runs on the controller and calls modules on the host.
    support: full
"""

EXAMPLES = r"""
- name: Take a node out of service when it is its turn
  virtops.maintenance.maintenance_host:
    state: out
    platform: kubevirt
    roll_host: "{{ inventory_hostname }}"
    preflight: {node: "{{ inventory_hostname }}"}
    drain: {node: "{{ inventory_hostname }}"}
  delegate_to: localhost
  register: out

- name: Bring it back
  virtops.maintenance.maintenance_host:
    state: back
    platform: kubevirt
    roll_host: "{{ inventory_hostname }}"
    preflight: {node: "{{ inventory_hostname }}"}
    restore: {node: "{{ inventory_hostname }}", state: active}
  delegate_to: localhost
"""

RETURN = r"""
not_ready:
  description: Why the host is not ready, or empty.
  returned: with O(state=looked) and O(state=checked)
  type: str
lines:
  description: What the check found, a line each.
  returned: with O(state=looked)
  type: list
  elements: str
fleet:
  description: The host and its VMs, for the plan. None on KubeVirt, where the cluster is read as a whole.
  returned: with O(state=looked)
  type: dict
unreached:
  description: Why the host cannot be rebooted, in a sentence, or empty.
  returned: with O(state=reached), and with O(state=looked) of a libvirt host that is to be rebooted in any case
  type: str
answer:
  description:
    - V(go), or V(done) or V(closed) where nothing is to be done with the host in this roll.
    - With O(state=back) only V(closed), if the roll was aborted or taken over.
  returned: with O(state=out), O(state=empty) and O(state=back)
  type: str
  sample: go
next:
  description:
    - What is to be done before the host is brought back, of V(hooks), V(work), V(reboot), V(reboot_if_needed) and
      V(checks), in this order. After hooks and after work, O(state=empty) returns what is left.
    - With O(state=reboots) V(reboot), or nothing if it has rebooted since. With O(state=back) V(hooks_back), and the
      task fails, if hooks are due before the restore can end.
  returned: with O(state=out), O(state=empty), O(state=reboots) and O(state=back)
  type: list
  elements: str
  sample: [work]
steps:
  description: The steps that are left for this host, in their order.
  returned: with O(state=out) and O(state=empty)
  type: list
  elements: str
  sample: [reboot, check, restore]
turn:
  description: What the record said of the host when its turn came. Give it back as O(turn).
  returned: with O(state=out), O(state=empty), O(state=reboots) and O(state=healthy)
  type: dict
  contains:
    position:
      description: Which host of the roll this is, such as C(2/7) for the second of seven.
      type: str
      sample: 2/7
    ready:
      description: When the roll will be done, in UTC. Empty before its first host is.
      type: str
      sample: '2026-03-01T21:03:00Z'
    to_come:
      description: The hosts of the roll that are not done. They get VMs last.
      type: list
      elements: str
    targets:
      description:
        - Where the plan of the roll sends its VMs, UUID to host. A VM that cannot go there any more goes where it can,
          and its line says so. With O(platform=kubevirt) the scheduler chooses.
      type: dict
    asked:
      description: When the record was last asked whether to go on. Seconds by each of the controller's clocks.
      type: dict
      sample: {boot: 5212.7, wall: 1772398980.1}
    boot_id:
      description: With O(state=reboots), the boot ID of the host before its reboot.
      type: str
event:
  description:
    - For notifications. C(event) is V(begin), V(done), V(failed) or V(end); C(host) is its name, or empty; C(message)
      is a sentence; then the numbers of the roll. Empty if there is nothing to report.
  returned: with O(state=back)
  type: dict
left_as:
  description: How the host is left if nothing more is done with it.
  returned: in a roll
  type: str
  sample: it is empty and stays cordoned, and what was stopped for it stays off
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: RollRefused
"""
