# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The other pods of a node: which of them have to go, and making them go.

`filters` judges by the filters of kubectl drain (pure), `read` looks at a node's pods, `evict` asks
them to go, again while a budget refuses. VMs are not its business.
"""
