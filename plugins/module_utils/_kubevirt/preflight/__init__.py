# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands in the way of draining a node: lists, access reviews and dry runs, as facts.

`check` puts the core's facts together, and the core judges them. Nothing is marked or evicted.
"""
