#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_roll
short_description: Keep the record of a roll, so that only one runs at a time and can be resumed
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
  - The playbooks of this collection use it. It is internal to them, and may change in any release.
author:
  - The virtops.maintenance contributors (@virtops)
extends_documentation_fragment:
  - virtops.maintenance._roll
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
- name: Read the record of the roll, as the playbook status does
  virtops.maintenance.maintenance_roll:
    state: read
  register: found
"""

RETURN = r"""
event:
  description:
    - For notifications. C(event) is V(begin), V(done), V(failed) or V(end); C(host) is its name, or empty; C(message)
      is a sentence; then what RV(stats) has. Empty if there is nothing to report.
  returned: with O(state=begun), O(state=noted) and O(state=ended)
  type: dict
stats:
  description:
    - The roll in numbers. The playbooks leave them to later jobs of a workflow.
    - C(roll), its ID; C(result), one of V(done), V(failed), V(paused), V(stopped), V(aborted), V(refused), V(running)
      and V(none) (there is no record); C(hosts) and C(done), how many; C(out) and C(failed), names of hosts; C(begun),
      UTC; and C(tally), what became of the VMs.
  returned: with O(state=ended), and with O(state=planned) if the roll is refused
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
      description: The reason that was given, or empty.
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
