# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a roll: the order of the hosts, where each VM goes, when, and for how long. Pure.

In goes a fleet as plain data, out come steps with times, or the sentence that says why none fits.
Where a VM goes is asked of `decide`, step by step; nothing is decided here a second time.
"""
