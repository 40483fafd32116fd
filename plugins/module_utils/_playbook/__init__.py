# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Does the ansible-playbook live for which this works? In: what its worker says of it. Out: yes, or an error.

Knows no platform and no roll: on the controller alone, where a module can see that process."""
