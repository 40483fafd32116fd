# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a drain writes down on hosts: its record, definitions, copies on peers, claims.

Written before the acts that they cover, read again by the run that carries on. It decides nothing:
which text counts is said by generations, what it means by the core.
"""
