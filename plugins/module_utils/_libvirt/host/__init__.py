# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a host is reached, and what it offers to a VM that comes to it.

`connection` gives connections that answer or fail; `facts` reads capabilities, networks and pools
once. It does not know what a drain is.
"""
