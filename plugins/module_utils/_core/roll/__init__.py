# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A roll: host after host of a fleet is drained, worked on and restored. Pure.

The record says which hosts, how far each one is, and who carries the roll on. `rules` decide from
it who may begin, carry on, take a turn or touch a host; `run` reads, asks the rules, and writes
what they say, through a store that a platform gives. `words` has the sentences.
"""
