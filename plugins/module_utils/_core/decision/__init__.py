# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From an observation, the records and a policy to the next actions. Pure.

`decide` is the way in; `strategy` says what shall be done with a VM, `reconcile` where it is,
`placement` which node takes it; the others make the actions;
`certificate` is the only ground for "drained". It knows the model, no platform and no clock.
"""
