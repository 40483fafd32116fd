# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The volumes in a host's pool `virtops`: exclusive to create, listed with one call.

A volume is a record, a lock and a reservation at once; its name carries the facts. Here are names,
volumes, the cordon, and notes on copied disks. What the texts mean is for others to know.
"""
