# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small inputs that went wrong once, each with its right answer: on the lab and on the simulator.

`run` is the driver (`make cases`). A platform's file has the cases, functions named as `l1_nwfilter`, and may
have a `bed`: a context manager, whose value each case is given. A case returns None, or what is wrong.
"""
