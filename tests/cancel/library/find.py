# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in for the module find: the command for the reboot of a simulated node."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    spec = {name: {"type": "raw"} for name in ("paths", "patterns", "file_type")}
    AnsibleModule(argument_spec=spec).exit_json(files=[{"path": "/simulated/shutdown"}])


if __name__ == "__main__":
    main()
