#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_host_reboot
short_description: Reboot a host, and show why it is not back yet
version_added: 0.1.0
description:
  - Reboots a host as M(ansible.builtin.reboot) does, which prints nothing until it has ended. This one prints a line
    every 15 to 40 seconds that says whether the host has not gone down yet, does not answer yet, or answers and still
    fails.
  - The playbook C(virtops.maintenance.rolling_maintenance) uses it.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  reboot_timeout:
    description:
      - How long to wait for the host, in seconds. All other options of M(ansible.builtin.reboot) can be given too.
    type: int
    default: 600
  boot_id:
    description: The boot id of the host before the reboot. With it a failure says whether the host went down at all.
    type: str
    default: ''
  asked:
    description:
      - When the record of a roll was asked whether the host is still to be rebooted, as C(turn.asked) of
        M(virtops.maintenance.maintenance_host) says. If the controller stood still since, the host is not rebooted,
        and the task fails. Leave it out for a reboot outside of a roll.
    type: dict
    default: {}
extends_documentation_fragment:
  - virtops.maintenance._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
  action:
    description: Runs on the controller.
    support: full
"""

EXAMPLES = r"""
- name: Reboot
  virtops.maintenance.maintenance_host_reboot:
    reboot_timeout: 900
  become: true
"""

RETURN = r"""
rebooted:
  description: Whether the host has rebooted and answers again.
  returned: always
  type: bool
elapsed:
  description: Seconds from the reboot command until the host was back, or the task gave up.
  returned: always
  type: int
"""
