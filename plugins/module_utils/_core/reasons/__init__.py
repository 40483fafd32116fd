# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why something cannot go on: every reason by its code, and the sentences that users read.

`codes` names the reasons, `catalogue` says what each one means and what to do, `reason` is one
finding in a result. A change of words is made here. It knows nothing else of the core.
"""
