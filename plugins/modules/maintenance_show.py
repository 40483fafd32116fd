#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_show
short_description: Print lines as they are, or the outcome for the hosts of a play
description:
  - Prints a table or a report for people, without quotes, as C(ansible.builtin.debug) cannot.
  - Control characters are written out, so that no name can break a line or change its colour.
  - The playbooks of this collection use it. It is internal to them, and may change in any release.
author:
  - The virtops.maintenance contributors (@virtops)
options:
  lines:
    description: The lines.
    type: list
    elements: str
    default: []
  warnings:
    description: Lines that are shown as warnings.
    type: list
    elements: str
    default: []
  of:
    description:
      - Which outcome of the hosts of the play to show, from the variables that the roles have set. It is returned as
        well.
      - V(drains) shows nothing and leaves its numbers to later jobs of a workflow, as V(status) and V(abort) do.
      - V(recovery) shows nothing and leaves O(request) in the folder that C(maintenance_report) names. If that cannot
        be written, it is a warning.
    type: str
    choices: [drains, preflight, status, abort, recovery]
  request:
    description: Further input for O(of).
    type: dict
    default: {}
  dest:
    description: A file on the controller that gets what O(of) returns, as JSON.
    type: path
extends_documentation_fragment:
  - virtops.maintenance._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
  action:
    description: Runs on the controller.
    support: full
"""

EXAMPLES = r"""
- name: Show the two lines of a report
  virtops.maintenance.maintenance_show:
    lines:
      - host-a is empty
      - host-b is next
  run_once: true
"""

RETURN = r"""# """
