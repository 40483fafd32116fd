# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When it is a drain's turn to ask for the next migrations, while others drain too.

`other_drains` reads how many VMs the other drains have left; `turns` says when to ask. It knows no
VM.
"""
