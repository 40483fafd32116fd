#!/usr/bin/python
# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: maintenance_reboot_info
short_description: Ask a host's own tools whether it needs a reboot
version_added: 0.1.0
description:
  - Asks C(/run/reboot-required), C(needrestart) and C(dnf needs-restarting), whichever is there, and
    prints a line that says who answered what.
  - If one of them says yes, the host needs a reboot. That the file is missing means no only if a package is installed
    that would write it.
  - Each of them has 60 s to answer.
  - If none of them can answer, RV(reboot) is true, and the line is a warning. The same holds for a host that cannot be
    reached.
  - The playbook C(virtops.maintenance.rolling_maintenance) uses it with C(maintenance_reboot=auto).
author:
  - The virtops.maintenance contributors (@virtops)
options:
  node:
    description: Name of the host, for the line.
    type: str
    required: true
extends_documentation_fragment:
  - virtops.maintenance._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
  action:
    description: Prints the line.
    support: full
"""

EXAMPLES = r"""
- name: Ask whether the host needs a reboot
  virtops.maintenance.maintenance_reboot_info:
    node: "{{ inventory_hostname }}"
  become: true
  register: asked

- name: Reboot
  ansible.builtin.reboot:
  when: asked.reboot
"""

RETURN = r"""
reboot:
  description: Whether the host is to be rebooted.
  returned: success, or the host cannot be reached
  type: bool
known:
  description: Whether something on the host could answer.
  returned: success, or the host cannot be reached
  type: bool
message:
  description: Whether the host is rebooted, and what said so, in one line.
  returned: success, or the host cannot be reached
  type: str
  sample: 'host-a is not rebooted because it does not need it: needrestart says no'
answers:
  description: The answer of each tool on the host.
  returned: success
  type: list
  elements: dict
  contains:
    who:
      description: The tool that answered.
      type: str
    needed:
      description: Whether a reboot is needed. None if it could not tell.
      type: bool
    why:
      description: The answer in words.
      type: str
"""

import os
from collections.abc import Callable
from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import reboot


def main() -> None:
    module = AnsibleModule(argument_spec={"node": {"type": "str", "required": True}}, supports_check_mode=True)
    told = [one for one in (file_says(), *(command_says(module, *ask) for ask in COMMANDS)) if one is not None]
    found = reboot.need(module.params["node"], told)
    module.exit_json(changed=False, answers=[asdict(one) for one in told], **asdict(found))


def file_says() -> reboot.Told | None:
    packages = ""
    if os.path.exists(reboot.PACKAGES):
        with open(reboot.PACKAGES, encoding="utf-8", errors="replace") as stream:
            packages = stream.read()
    return reboot.of_file(os.path.exists(reboot.FILE), packages, any(map(os.path.exists, reboot.WRITERS)))


# (command, what reads its answer)
COMMANDS = ((reboot.NEEDRESTART, reboot.of_needrestart), (reboot.DNF, reboot.of_dnf))


def command_says(
    module: AnsibleModule, command: tuple[str, ...], read: Callable[[int, str, str], reboot.Told]
) -> reboot.Told | None:
    path = module.get_bin_path(command[0], opt_dirs=["/usr/sbin", "/sbin"])
    if path is None:
        return None
    ask = reboot.within([path, *command[1:]])
    rc, out, err = module.run_command(ask, environ_update={"LC_ALL": "C.UTF-8", "LANGUAGE": "C"})
    return read(rc, out, err)


if __name__ == "__main__":
    main()
