# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

DOCUMENTATION = r"""
name: measured
short_description: What the hosts of a fleet answered, as virt_preflight wants it
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Makes the O(virtops.maintenance.virt_preflight#module:measured) list of the results of a command
    that was run on each host.
  - Each host's output is the time of whoever asked, its own time, both in seconds, and its
    C(vm.unprivileged_userfaultfd), V(-1) if it has none.
  - What may follow is about QEMU's certificates for migrations. V(1) if it wants one of who calls
    it, else V(0), then their directory, and each file that is missing there.
  - The hosts were asked one after the other, so who asked had the answer of one before the time at
    which the next one was asked, and that of the last one before O(ended). The clock is compared
    with the middle of the two times.
  - A host that could not be reached, or answered something else, is left out.
  - The roles and playbooks of this collection use it. It is internal to them, and may change in any release.
options:
  _input:
    description: Results of a loop over the names of the hosts.
    type: list
    elements: dict
    required: true
  ended:
    description:
      - The time of whoever asked after the last answer, in seconds.
      - Without it the clock of the last host is compared with the time at which it was asked.
    type: float
"""

EXAMPLES = r"""
- name: Read the clock and the setting of each host
  ansible.builtin.command:
    argv:
      - sh
      - -c
      - echo {{ now().timestamp() }} $(date +%s.%N) $(cat /proc/sys/vm/unprivileged_userfaultfd)
  delegate_to: "{{ item }}"
  loop: "{{ groups['kvm'] }}"
  register: answers
  changed_when: false

- name: Record when that finished
  ansible.builtin.set_fact:
    answered: "{{ now().timestamp() }}"

- name: Look
  virtops.maintenance.virt_preflight:
    node: "{{ inventory_hostname }}"
    peers: "{{ groups['kvm'] | virtops.maintenance.peers(hostvars, inventory_hostname) }}"
    measured: "{{ answers.results | virtops.maintenance.measured(answered) }}"
"""

RETURN = r"""
_value:
  description:
    - One entry a host, with C(name), C(clock), C(clock_within) (half of the time that the question took; both in
      seconds), C(userfaultfd), and if they are known C(tls_dir), C(tls_missing) and C(tls_verify).
  type: list
  elements: dict
"""


def measured(results: Iterable[Mapping[str, Any]], ended: float | None = None) -> list[dict[str, Any]]:
    """`clock`: of the host less that of whoever asked, right to `clock_within`."""
    found: list[dict[str, Any]] = []
    # From the last one back: the next one's question comes after the answer of this one.
    for result in reversed(list(results)):
        words = str(result.get("stdout") or "").split()
        try:
            asked, reported, setting = float(words[0]), float(words[1]), int(words[2])
        except (IndexError, ValueError):
            continue
        within = max(0.0, float(ended) - asked) / 2 if ended is not None else 0.0
        ended = asked
        one = {
            "name": result[result.get("ansible_loop_var", "item")],
            "clock": round(reported - asked - within, 3),
            "clock_within": round(within, 3),
            "userfaultfd": setting,
        }
        if len(words) > 4 and words[4].startswith("/"):
            one |= {"tls_verify": words[3] != "0", "tls_dir": words[4], "tls_missing": words[5:]}
        found.append(one)
    return found[::-1]


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"measured": measured}
