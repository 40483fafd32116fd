# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Claims on a target: may one stay, and is its owner dead? Pure.

Runs that know nothing of each other never fill a target too far by `admission`; `owners` says what
proves that nobody comes back for a claim. In go claims as they were read, out come verdicts.
"""
