# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is, now: all hosts read once and put together as the core's Observation.

`host` is one host as it is now, `vm` what does not change about a VM, `observe` the whole. It only
reads; what is made of it is for the core to decide.
"""
