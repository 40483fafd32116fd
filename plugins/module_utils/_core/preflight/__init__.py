# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands in the way of a drain before it begins: from facts to blockers and warnings. Pure.

A platform puts what it read into `facts`; `check` judges; what can be
found is the table in `reasons`. It asks `decision` which way each VM would go, and reads nothing.
"""
