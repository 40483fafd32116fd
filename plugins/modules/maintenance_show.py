#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_show
short_description: Print lines as they are
version_added: 0.1.0
description:
  - Prints a table or a report for people, without quotes, as C(ansible.builtin.debug) cannot.
  - What a terminal would obey is written out, so a name is no line and no colour.
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
- name: Show how far the roll is
  virtops.maintenance.maintenance_show:
    lines: "{{ maintenance_status.lines }}"
  run_once: true
"""

RETURN = r"""# """
