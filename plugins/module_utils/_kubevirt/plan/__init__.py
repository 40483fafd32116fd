# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What would be done: check mode, the node's info, and the fleet for the plan of a roll.

Objects go in, the plan's plain form comes out; evictions are tried out by the server (dry_run). It
changes nothing.
"""
