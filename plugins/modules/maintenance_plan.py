#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_plan
short_description: Plan the maintenance of many hosts, or explain why it does not fit
version_added: 0.1.0
description:
  - Simulates the roll on a model of the fleet, with the same decisions that M(virtops.maintenance.virt_drain) takes,
    and returns the order of the hosts, which of them go together, and for each VM what happens to it, why, where it
    goes, when, and how long it takes.
  - If a step does not fit, it says which one, what is missing, and what would help.
  - It reads nothing and changes nothing but the file O(dest). Run it on the controller.
  - The action plugin of the same name prints the plan as a table.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  platform:
    description:
      - V(libvirt), where the drain chooses the targets, or V(kubevirt), where the scheduler does
        and the plan predicts them.
      - On V(kubevirt) take O(hosts), O(vms), O(budgets), O(quotas), O(limits) and O(migration) from
        M(virtops.maintenance.kubevirt_fleet_info). A group holds VMs that the scheduler
        never puts two on a node, so O(anti_affinity) is always V(required).
      - What has no meaning on KubeVirt is refused there, as by
        M(virtops.maintenance.kubevirt_drain), O(placement_profile) too. Of O(rules[].migration)
        a warning says that KubeVirt's own settings count.
    type: str
    choices: [libvirt, kubevirt]
    default: libvirt
  hosts:
    description:
      - All hosts of the fleet. The filter P(virtops.maintenance.plan_fleet#filter) makes them.
      - C(name) is required. C(memory_mib), C(reserve_mib); C(committed_mib) of VMs that are not
        listed; C(cpu_milli), thousandths of a CPU that may be requested (without it CPU is not
        counted), and C(committed_cpu_milli) that others request; C(link_mib_s) of its network;
        C(version) of its hypervisor; C(labels), C(taints); C(cordoned), C(reachable) and
        C(message); C(runs_vms), false for one that a share in O(max_unavailable) does not count;
        C(spare), what is free now of huge pages in MiB, devices and pods, without it not counted.
        Without C(memory_mib), or with a key that is not one of these, it is an error.
    type: list
    elements: dict
    required: true
  vms:
    description:
      - All VMs. The filter P(virtops.maintenance.plan_fleet#filter) makes them.
      - C(name) and C(host) are required. C(uuid), C(memory_mib), C(cpu_milli) that it requests,
        C(state), C(group) of
        anti-affinity, C(strategy) that it declares, C(migratable), C(reasons) why not,
        C(refused_by) with the reasons of single hosts, C(cold_refused_by) the same for while it
        is off, by default the same reasons, C(compared) with what of its machine type and CPU older
        hosts do not tell, empty if they tell all, C(needs), C(document) that rules see; C(known),
        false for one that could not be read; C(control_node), why it is taken for the machine that runs
        the maintenance, whose host is planned last;
        C(dirty_rate) in MiB/s; C(working_set_mib), which it writes over and over and which is the
        most that is sent again; C(takes), what it takes of C(spare) of hosts; C(sent_mib), what a
        migration sends if it is less than the memory.
      - One that is active needs C(memory_mib), and one with C(migratable=false) needs C(reasons).
    type: list
    elements: dict
    required: true
  roll:
    description: Hosts that are to be emptied, in any order.
    type: list
    elements: str
    required: true
  max_unavailable:
    description:
      - Hosts that may be out at once, a number or a share of O(hosts) such as V(20%), which is
        rounded down. It is at least one.
    type: str
    default: '1'
  max_unavailable_per:
    description:
      - How many hosts that have the same value of a label or variable may be out at once. With 1 for C(rack), at most
        one of each rack is out at once. It applies in addition to O(max_unavailable).
      - The value is in C(maintenance_labels) of the host, in its variable of that name, or in C(labels) of O(hosts).
    type: dict
    default: {}
  move_back:
    description:
      - Whether VMs that were migrated go back to where they were, after the last step. See RV(moves_back).
    type: bool
    default: false
  budgets:
    description:
      - How many VMs of a set may be disturbed in one step.
      - If more of them are on one host of the roll from the beginning, it does not fit.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the budget.
        type: str
        required: true
      vms:
        description: Names or UUIDs of its VMs.
        type: list
        elements: str
        required: true
      at_once:
        description: How many of them, 1 or more.
        type: int
        default: 1
      stops_only:
        description: Whether only VMs count that are stopped, and not those that are migrated.
        type: bool
        default: false
      never:
        description:
          - Why the budget can allow no stop at all. The plan does not fit then, if it has to stop
            one of the VMs. Empty if it can.
        type: str
        default: ''
      left:
        description:
          - Stops that it allows at the moment. With V(0) the plan has a warning, if it stops one of
            the VMs.
        type: int
  quotas:
    description:
      - Quotas on KubeVirt that have no room for another pod of some VMs. The plan has a warning, if
        it migrates one of them, since the migration waits for the quota.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Namespace and name of the quota.
        type: str
        required: true
      vms:
        description: Names or UUIDs of the VMs.
        type: list
        elements: str
        required: true
      why:
        description: What is missing, in words.
        type: str
        default: ''
  dest:
    description:
      - File on the machine where the module runs, into which the plan is written as JSON.
      - Not written in check mode.
    type: path
extends_documentation_fragment:
  - virtops.maintenance._libvirt.policy
  - virtops.maintenance._speeds
  - virtops.maintenance._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Where each VM is before the roll, and after it.
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Plan the roll over all hosts
  virtops.maintenance.maintenance_plan:
    hosts: "{{ fleet.hosts }}"
    vms: "{{ fleet.vms }}"
    roll: "{{ groups['kvm'] }}"
    max_unavailable: 2
    dest: /tmp/plan.json
  vars:
    fleet: >-
      {{ groups['kvm'] | map('extract', hostvars, 'host') | map(attribute='fleet') | list
      | virtops.maintenance.plan_fleet(hostvars) }}
  delegate_to: localhost
  run_once: true
  register: plan

- name: Stop here if it does not fit
  ansible.builtin.assert:
    that: plan.fits
    fail_msg: "{{ plan.summary }}"
"""

RETURN = r"""
fits:
  description: Whether every step was simulated and fits.
  returned: success
  type: bool
summary:
  description: The plan, or why it does not fit, in one line.
  returned: success
  type: str
  sample: >-
    step 4 does not fit: db-2 (96 GiB) has no target once host-c is out; free 12 GiB or allow
    cold_migrate
table:
  description: The plan as a table for people, a line each.
  returned: success
  type: list
  elements: str
targets:
  description: V(chosen) if the drain chooses the targets, V(predicted) if KubeVirt's scheduler does.
  returned: success
  type: str
refusal:
  description: Why it does not fit. None if it does.
  returned: success
  type: dict
  contains:
    step:
      description: The step that does not fit.
      type: int
    host:
      description: The host that would be out.
      type: str
    vm:
      description: UUID of the VM that has no target. Empty if the host itself cannot be read.
      type: str
    name:
      description: Its name, or that of the host.
      type: str
    memory_mib:
      description: Its memory, MiB.
      type: int
    missing_mib:
      description: MiB of memory that are missing on the host that comes closest, V(0) if only CPU is missing there.
        None if more memory or CPU would not help on any host.
      type: int
    cpu_milli:
      description: Thousandths of a CPU that it requests.
      type: int
    missing_cpu_milli:
      description: Thousandths of a CPU that are missing on that host, V(0) if only memory is missing there. None if
        RV(refusal.missing_mib) is.
      type: int
    sentence:
      description: All of it in a sentence.
      type: str
    reason:
      description: Reason code.
      type: str
    detail:
      description: The details of RV(refusal.reason), such as what each host lacks.
      type: str
    others:
      description: What else does not fit, one sentence each.
      type: list
      elements: str
fits_if:
  description: The VMs of all steps that their owners have to move, each as in RV(steps[].fits_if).
  returned: success
  type: list
  elements: dict
steps:
  description: The steps in their order.
  returned: success
  type: list
  elements: dict
  contains:
    number:
      description: Counted from 1.
      type: int
    hosts:
      description: Hosts that are emptied together.
      type: list
      elements: str
    begins:
      description: Seconds from the start of the roll to the start of the step, without the work on the hosts.
      type: float
    duration:
      description: Seconds that its migrations and stops take, with O(speeds.overhead).
      type: float
    spare_mib:
      description: MiB of memory that are left on all other hosts while these are out. Hosts that are cordoned or cannot
        be reached do not count.
      type: int
    largest_mib:
      description: MiB of memory that are left on the one of them that has most.
      type: int
    largest_on:
      description: Name of that host.
      type: str
    spare_cpu_milli:
      description:
        - Thousandths of a CPU that are left on all other hosts. None where CPU is not counted.
      type: int
    second_moves:
      description: Number of VMs that go to a host whose own step is still to come, and so move again.
      type: int
    fits_if:
      description:
        - VMs that their owners have to move (strategy V(External)), or the step does not fit.
        - Room for each is kept on a host where it fits. Its owner decides where it really goes.
      type: list
      elements: dict
      contains:
        vm:
          description: UUID.
          type: str
        name:
          description: Name.
          type: str
        host:
          description: Host that it has to leave.
          type: str
        place:
          description: Host on which room is kept for it.
          type: str
        memory_mib:
          description: Its memory, MiB.
          type: int
    moves:
      description: What becomes of each VM, in the order in which it begins.
      type: list
      elements: dict
      contains:
        vm:
          description: UUID.
          type: str
        name:
          description: Name.
          type: str
        way:
          description:
            - V(migrate), V(shutdown), V(save), V(cold_migrate), V(external), V(off), or V(swap) if
              it moves out of the way of another one.
          type: str
        swap_for:
          description: Name of the VM that it makes room for. Empty if it does not.
          type: str
        why:
          description: Strategy and who decided it, and the reason if it is not simply migrated.
          type: str
        reason:
          description: Reason code, empty if it is simply migrated.
          type: str
        source:
          description: The host that it leaves.
          type: str
        target:
          description: The host that it goes to. Empty if it stays.
          type: str
        order:
          description: Its position in the step, counted from 1.
          type: int
        memory_mib:
          description: Its memory, MiB.
          type: int
        start:
          description: Seconds from the start of the step. None if that cannot be predicted.
          type: float
        duration:
          description: Seconds that it takes. None if that cannot be predicted.
          type: float
        pause_ms:
          description: Milliseconds for which the guest is expected to be paused. None if it stays off or is not known.
          type: float
        sent_mib:
          description: MiB that are sent over the network.
          type: float
hosts_left:
  description: Hosts of the roll that are in no step, because RV(refusal) ended the plan before them.
  returned: success
  type: list
  elements: str
moves:
  description: Number of moves in all steps. One VM can move more than once. Moves by owners do not count.
  returned: success
  type: int
vms_moved:
  description: Number of VMs that move at least once.
  returned: success
  type: int
moves_per_vm:
  description: Moves for each of these VMs, on average.
  returned: success
  type: float
stops:
  description: Number of VMs that are stopped and stay where they are.
  returned: success
  type: int
moves_back:
  description:
    - With O(move_back) the VMs that go back after the last step, each with the keys of RV(steps[].moves). VMs that were
      off while they moved, or that their owners moved, stay where they are.
  returned: success
  type: list
  elements: dict
back_duration:
  description: Seconds that their moves back take.
  returned: success
  type: float
duration:
  description: Seconds that migrations and stops take in all steps, and the moves back. It does not include the work on
    the hosts.
  returned: success
  type: float
stats:
  description:
    - The plan in numbers. The playbook C(virtops.maintenance.plan) leaves them to later jobs of a workflow.
    - C(fits), C(hosts), C(steps), C(hosts_left), C(moves), C(stops), and C(minutes) of migrations and stops.
  returned: success
  type: dict
warnings_of_plan:
  description: VMs that wait for their owner, quotas that are used up, and the like.
  returned: success
  type: list
  elements: str
diff:
  description: Where each VM is before the roll and after it.
  returned: in diff mode
  type: dict
  contains:
    before:
      description: One line for each VM.
      type: str
    after:
      description: One line for each VM.
      type: str
error:
  description: The kind of error. RV(ignore:msg) says in words what is wrong and what to do.
  returned: failure
  type: str
  sample: PolicyError
"""
