# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the modules that keep the record of a roll."""

from __future__ import annotations


class ModuleDocFragment:
    """Options that say what is asked of the record; internal. `RUN`: for whoever works on a host of a
    roll, too. `PLAYBOOK`: for all who write."""

    RUN = r"""
options:
  roll_run:
    description:
      - Set by the action plugin. Which C(ansible-playbook) asks. Only the playbook of a roll that is under way may
        drain and restore its hosts; all others are refused, see M(virtops.maintenance.maintenance_roll).
    type: str
    default: ''
"""

    PLAYBOOK = r"""
options:
  playbook:
    description:
      - Set by the action plugin. The process of C(ansible-playbook). A module on the same machine writes nothing any
        more once that has ended.
    type: str
    default: ''
"""

    DOCUMENTATION = r"""
options:
  state:
    description: What to do with the record.
    type: str
    choices: [begun, planned, admitted, noted, homeward, came_back, renewed, ended, aborting, aborted, read]
    required: true
  request:
    description: The rest of it, with all keys of C(ROLL_SPEC) in C(_core/roll/options.py), which says what they are.
    type: dict
    default: {}
"""
