# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of what the modules support."""

from __future__ import annotations


class ModuleDocFragment:
    """Check mode, diff mode, idempotence, action group."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description:
      - Can run in C(check_mode) and report what it would change, without changing it.
  diff_mode:
    description: Reports in diff mode what has changed, or would change in check mode.
  idempotent:
    description: When run twice in a row with the same arguments, the second time changes nothing.
"""

    INFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module only reads.
      - To see a disk that libvirt on a peer does not know yet, it has libvirt read the directory of
        the peer's storage pool again (C(virsh pool-refresh)). There is no other way to know.
      - A storage pool C(virtops) that is off is not started, unlike in a run; its host counts as not readable.
  diff_mode:
    support: N/A
    details: This module only reads.
  idempotent:
    support: full
    details: This module only reads.
"""

    KUBEVIRTINFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: This module only reads, and asks the server by dry runs, which write nothing.
  diff_mode:
    support: N/A
    details: This module only reads.
  idempotent:
    support: full
    details: This module only reads.
"""

    CLUSTERINFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: This module only reads.
  diff_mode:
    support: N/A
    details: This module only reads.
  idempotent:
    support: full
    details: This module only reads.
"""

    ACTIONGROUP = r"""
options: {}
attributes:
  action_group:
    description:
      - Use C(group/virtops.maintenance.libvirt) in C(module_defaults) to set defaults for it.
    support: full
    membership:
      - virtops.maintenance.libvirt
"""

    KUBEVIRTGROUP = r"""
options: {}
attributes:
  action_group:
    description:
      - Use C(group/virtops.maintenance.kubevirt) in C(module_defaults) to set defaults for it.
    support: full
    membership:
      - virtops.maintenance.kubevirt
"""
