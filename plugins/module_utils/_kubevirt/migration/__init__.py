# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The migration of one VM: read, decide, ask, until it is final or the slice is over.

`decide` is pure: from a view to one step. Its memory is an annotation on the VMI, not the record of
a node, so that no right on nodes is needed.
"""
