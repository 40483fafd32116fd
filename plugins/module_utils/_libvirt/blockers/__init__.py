# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a domain can move, or cannot: every obstacle that is known before it is tried.

In go a DomainSpec and the facts of both hosts, out come findings: for a migration (live), for a VM
that is off (cold), and where each disk's data is. It knows no holder, no record and no other VM.
"""
