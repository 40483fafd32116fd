# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt says of a domain: XML, metadata and states, read into plain data. Pure.

Text and numbers go in, a DomainSpec and the core's words come out. It makes no call and knows no
connection, host or store.
"""
