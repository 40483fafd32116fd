# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of what the modules share that recover a host."""

from __future__ import annotations


class ModuleDocFragment:
    """How a module is given a proof that the host is off."""

    DOCUMENTATION = r"""
options:
  proof:
    description:
      - What proves that the host is off. C(kind) is V(agent), V(tasks) or V(person); C(at) is when its power state was
        read, UTC; C(by) is who read it; C(how) is how it was read.
    type: dict
    default: {}
  confirm:
    description:
      - A person's word that the host is off, as V(HOST@TIME). The time is RV(found_dead) of the run before.
    type: str
    default: ''
  said:
    description:
      - What the user's own tasks say of the host's power state. C(tasks) is their file, C(said) is what they set
        C(maintenance_off) to, C(before) is its value before they ran.
    type: dict
    default: {}
"""
