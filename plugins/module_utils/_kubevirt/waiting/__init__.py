# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a migration waits for, in the order in which an operator should look.

`causes` judges objects (pure), `read` gets what of them a run needs, with few requests. The drain,
the migration of one VM and kubevirt_migration_info give the same answer by it.
"""
