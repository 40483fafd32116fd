# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that died: how it looks, what proves that it is off, what is started where.

In: what observers saw, what its peers keep of its VMs, what is now on the other hosts. Out: a judgement, and for each
VM where it is to be started or why it stays. It may not know how a platform reads, fences or starts.
"""
