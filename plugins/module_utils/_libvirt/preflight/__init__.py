# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands in the way of draining a libvirt host: one pass of reads, as the core's facts.

`check` reads and hands the facts to the core, which judges. It changes nothing on any host.
"""
