# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a drain decides, for any platform. Pure: the standard library only.

The loop (engine) asks a platform for observations and hands it actions; result and diff say what
came of it. Nothing here knows Ansible, libvirt or Kubernetes, reads a file or a clock.
"""
