# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The small process on the source host that makes the calls that block.

Orders go in over a socket (client), events and outcomes come out: migrations with their link and
deadlines, saves, requests to stop. It outlives the module that started it. It knows no module, no
decision and no record of a drain.
"""
