# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The platform as the core's loop needs it: observe a node, carry out actions, keep the record.

`observe` and `departed` read, `act` and `withdraw` ask, `progress` says how far the node is.
What is done is decided in the core.
"""
