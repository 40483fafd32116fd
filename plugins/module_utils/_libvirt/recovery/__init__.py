# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that died: what its peers keep of it, how it looks from one of them, and its VMs started elsewhere.

`keep` runs on the host while it lives; `look` and `service` on a peer. What is started where decides the core's
`recovery`; nothing is started here that it did not name, and nothing before the record says so.
"""
