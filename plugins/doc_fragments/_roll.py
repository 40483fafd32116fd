# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the modules that keep the record of a roll."""

from __future__ import annotations


class ModuleDocFragment:
    """What is asked of the record. `RUN`: for whoever works on a host of a roll, too. `PLAYBOOK`: for all who write."""

    RUN = r"""
options:
  roll_run:
    description:
      - Set by the action plugin. Which C(ansible-playbook) asks. A host of a roll that lives is
        drained and restored by the playbook of that roll alone, and refused to all others; see
        M(virtops.maintenance.maintenance_roll).
    type: str
    default: ''
"""

    PLAYBOOK = r"""
options:
  playbook:
    description:
      - Set by the action plugin. Which process C(ansible-playbook) is. A module that runs on the same machine writes
        nothing when it has ended.
    type: str
    default: ''
"""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - V(begun) begins the roll that the other options describe, or carries an unfinished one on
        that has the same hosts and O(settings). Any other roll is refused that lives or is not
        finished.
      - V(planned) gives the roll the order of O(hosts) and their O(seconds), before its first host has begun. With
        O(objections) it is refused, and is over.
      - V(admitted) waits until O(roll_host) may go out of service, and says what is left to be done
        with it.
      - V(noted) writes down that O(roll_host) has come to O(stage).
      - V(homeward) says which VMs are to go back to where they were before the roll, by the O(hosts) of the play. None
        are before all hosts are done, and without C(maintenance_move_back) in O(settings). V(came_back) writes down
        what came of O(vm), whose home is O(roll_host).
      - V(renewed) writes to the record now and then for as long as O(slice), so that everybody sees
        that the roll lives.
      - V(ended) says how the roll ended. One with hosts left waits for the same command.
      - V(aborting) stops the roll, whoever has it, and says which hosts are to be given back.
        V(aborted) ends that, once O(stage=given back) was noted of all of them.
      - V(read) only reads.
    type: str
    choices: [begun, planned, admitted, noted, homeward, came_back, renewed, ended, aborting, aborted, read]
    required: true
  hosts:
    description:
      - With O(state=begun) and O(state=planned) the hosts of the roll, in their order. With O(state=homeward) those of
        the play.
    type: list
    elements: str
    default: []
  roll_host:
    description: With O(state=admitted), O(state=noted) and O(state=came_back) the host.
    type: str
    default: ''
  stage:
    description:
      - With O(state=noted) how far the host is. V(waiting) is for one with which nothing was done, V(given back)
        for one that an abort has given back.
    type: str
    choices: [waiting, empty, at work, rebooting, checking, restoring, done, failed, given back]
  why:
    description: With O(stage=failed) the reason. With O(state=came_back) why O(vm) is still to go back.
    type: str
    default: ''
  targets:
    description:
      - With O(state=admitted) the hosts to which the plan sends the VMs of O(roll_host). While one of them is out in
        this roll, O(roll_host) waits, unless it is the last one.
    type: list
    elements: str
    default: []
  tally:
    description:
      - With O(state=noted) what became of the VMs of the host, their number C(vms), how many were C(moved),
        C(cold_moved), C(stopped), C(off) before, and are C(kept) on it, and the longest C(outage_ms).
    type: dict
    default: {}
  moved:
    description:
      - With O(stage=empty) VMs that the drain migrated, and the hosts where they are. On libvirt by UUID, on KubeVirt
        as namespace/name/UID.
    type: dict
    default: {}
  recovery:
    description:
      - With O(stage=failed) what is wanted of a host that does not come back from its reboot, C(on_dead) and C(fenced),
        whether it has a fence agent. Once it was recovered, C(result), what that returned, or its C(failure).
    type: dict
    default: {}
  vm:
    description: With O(state=came_back) the VM, named as in O(moved).
    type: str
    default: ''
  let_finish:
    description: With O(state=aborting), slices that are under way let migrations end that run.
    type: bool
    default: false
  is_back:
    description: With O(state=came_back), whether O(vm) is on O(roll_host).
    type: bool
    default: false
  roll_id:
    description: Name of a new roll. The action plugin makes one up.
    type: str
    default: ''
  requester:
    description: Who requests it, for the record.
    type: str
    default: ''
  reason:
    description: Why, for the record.
    type: str
    default: ''
  settings:
    description:
      - What another command must share to carry this roll on, names and texts. With other ones it
        is another roll, and is refused while this one is not finished.
    type: dict
    default: {}
  max_unavailable:
    description:
      - How many hosts of the fleet may be out of service at once, a number or a share such as
        V(20%), which is rounded down. It is at least one.
      - Hosts that others cordoned or drain, and those that do not answer, count as well; see
        O(count_others).
    type: str
    default: '1'
  max_unavailable_per:
    description:
      - How many hosts that have the same value of a label or variable may be out at once. With 1 for C(rack) it is one
        of each rack. It holds beside O(max_unavailable).
      - The value is that of O(groups), or the label of the Node. A host of the roll that has none is an error.
    type: dict
    default: {}
  groups:
    description:
      - To which rack, for example, each host belongs, a dict of dicts. The action plugin takes it from
        C(maintenance_labels) of the host, or a variable of that name.
    type: dict
    default: {}
  max_failures:
    description: How many hosts may fail before no further one begins.
    type: int
    default: 0
  count_others:
    description: Whether hosts that are out of service for other reasons than this roll count.
    type: bool
    default: true
  take_over:
    description:
      - Carry an unfinished roll on though it may live, or has other hosts or O(settings). The
        playbook that had it stops at its next step. Hosts that are half done stay in the roll.
    type: bool
    default: false
  soak:
    description:
      - Time after a host is done before the next one begins, seconds or a number with C(s), C(m) or C(h).
    type: str
    default: '0'
  pause_after:
    description:
      - Host after which no further one begins. The roll ends well, and the same command goes on.
    type: str
    default: ''
  until:
    description:
      - By when hosts have to be done, in UTC. One that would not be is not begun, and the roll ends
        well. M(virtops.maintenance.maintenance_roll) takes times as the controller has them, such
        as V(06:00).
      - What a host takes is O(seconds), and the most that another host of the roll took beyond its own.
    type: str
    default: ''
  seconds:
    description: What each host takes by the plan, a mapping from its name.
    type: dict
    default: {}
  objections:
    description: With O(state=planned) all that stands against the roll, a sentence each.
    type: list
    elements: str
    default: []
  patience:
    description:
      - With O(state=admitted), seconds to wait for hosts that others drain. After that the host is
        not begun.
    type: float
    default: 3600
  slice:
    description: Seconds after which one call hands back, so that progress can be shown.
    type: int
    default: 20
  watch:
    description: Set by the action plugin. What the call before saw.
    type: dict
    default: {}
  rank:
    description:
      - With O(state=renewed), how patient this one is. V(0) writes after ten seconds in which
        nobody did, V(1) after twenty.
    type: int
    default: 0
"""
