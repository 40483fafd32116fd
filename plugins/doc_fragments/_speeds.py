# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the option speeds, which several modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """Speeds that are known for links, migrations and VMs."""

    DOCUMENTATION = r"""
options:
  speeds:
    description:
      - What is known of links, migrations and VMs, for predicted times. It does not change what is done.
    type: dict
    default: {}
    suboptions:
      link:
        description:
          - MiB/s that a host's network can carry for migrations. Default is V(110), which is what 1 Gbit/s carries.
        type: float
      links:
        description: The same for single hosts, name to MiB/s.
        type: dict
      setup:
        description:
          - Seconds that a migration takes before its first byte. Default is V(1); on KubeVirt,
            which makes a pod first, V(5).
        type: float
      switch:
        description:
          - Seconds from the last byte of a migration to its end. Default is V(0.5); on KubeVirt
            V(1).
        type: float
      overhead:
        description:
          - Seconds that a drain takes besides its migrations, to read, mark and certify. Default is V(2); on KubeVirt
            V(1).
        type: float
      pause:
        description:
          - Milliseconds for which a guest that writes nothing is paused at the end of a
            migration. Default is V(40).
        type: float
      dirty_rates:
        description: MiB/s that VMs write to their memory, by name.
        type: dict
      working_sets:
        description:
          - MiB that VMs write over and over, by name. It is the most that a migration sends again. Without it
            everything that a VM writes counts.
        type: dict
"""
