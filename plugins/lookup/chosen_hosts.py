# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lookup chosen_hosts: which hosts a playbook is for, or an error before anything is done."""

from __future__ import annotations

DOCUMENTATION = r"""
name: chosen_hosts
short_description: Which hosts a maintenance playbook is for
version_added: 0.1.0
author: virtops.maintenance contributors (@virtops)
description:
  - Made for C(hosts) of a play. There a name with a typo would match no host, and Ansible would end
    with success after having done nothing.
  - There only extra vars are known, not what the inventory sets.
  - With C(--tags), C(--skip-tags) or C(--start-at-task) that leave out tasks without tags it is an error, for the
    same reason.
options:
  _terms:
    description:
      - A host pattern, or a list of names and patterns.
      - Empty means that nobody said which. Then C(--limit) says it, and if that is not given either
        O(otherwise) does.
    type: list
    elements: raw
    required: true
  otherwise:
    description: The pattern if nobody said which hosts. Without one that is an error.
    type: str
  begun:
    description:
      - Not these hosts, but those that are left in the roll that the playbook has begun for them, in its order. That no
        quorum host has answered is an error.
      - In check mode no host is meant; with C(--list-hosts) those that were asked for.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Drain the hosts that were chosen, or stop
  hosts: "{{ lookup('virtops.maintenance.chosen_hosts', maintenance_hosts | default('')) }}"
  roles:
    - role: virtops.maintenance.drain
"""

RETURN = r"""
_list:
  description: One host pattern.
  type: list
  elements: str
  sample: ["host-a,host-b"]
"""

import difflib
import re
from typing import Any

from ansible import context
from ansible.errors import AnsibleLookupError
from ansible.inventory.manager import split_host_pattern
from ansible.playbook.task import Task
from ansible.plugins.loader import lookup_loader
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll import begun
from ansible_collections.virtops.maintenance.plugins.plugin_utils._variable_checks import unknown

_NAMES = re.compile(r"[^\s,:;]")  # else it is separators only
_LEFT_OUT = re.compile(r"![\w.-]+")  # by its name


class LookupModule(LookupBase):
    """Raises AnsibleLookupError if no host is meant, or none matches."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        known = variables or {}
        names = [name for term in terms for name in (term if isinstance(term, list) else [term])]
        pattern = ",".join(str(name).strip() for name in names if str(name or "").strip())
        # These have no fleet or ask it nothing, and do nothing, so nobody has to say which hosts.
        if any(map(context.CLIARGS.get, ("syntax", "listtasks", "listtags"))):
            return [pattern or "all"]
        _check_all_run()
        limit = str(known.get("ansible_limit") or "")
        if limit and not _NAMES.search(limit):
            raise AnsibleLookupError(
                f"--limit {limit!r} names no host, which Ansible treats as all hosts. Nothing was done. Name the "
                "hosts, or leave it out; for every host of the inventory: -e maintenance_hosts=all."
            )
        if not _NAMES.search(pattern):
            pattern = self._nobody_said(known)
        self._check_parts(pattern, "maintenance_hosts:", known)
        if limit and "@" not in limit:  # a limit of a file is not read here
            self._check_parts(limit, "--limit", known)
            # Ansible would do nothing, and call that a success.
            if not set(self._hosts(pattern, known)) & set(self._hosts(limit, known)):
                raise AnsibleLookupError(f"None of the hosts of {pattern} is in --limit {limit}. Nothing was done.")
        if not self.get_option("begun") or context.CLIARGS.get("listhosts"):
            return [pattern]
        return ["!all" if context.CLIARGS.get("check") else self._left(pattern, known)]

    def _check_parts(self, pattern: str, given: str, known: dict[str, Any]) -> None:
        """Each part by itself: Ansible does the others without one that has a typo, and does one that a typo keeps from
        being left out. To leave out a group without hosts, or what a wildcard does not find, is no typo."""
        parts = split_host_pattern(pattern)
        left_out = [part[1:] for part in parts if _LEFT_OUT.fullmatch(part) and part[1:] not in known.get("groups", ())]
        for part in (*(part for part in parts if part[0] not in "!&"), *left_out, pattern):
            if not self._hosts(part, known):
                near = self._near(part, known)
                raise AnsibleLookupError(f"No host of the inventory matches {given} {part}{near} Nothing was done.")

    def _left(self, pattern: str, known: dict[str, Any]) -> str:
        """The hosts that are left in the roll that was begun for these."""
        found = begun(known["hostvars"], self._hosts(pattern, known))
        if not found:
            raise AnsibleLookupError(
                "No quorum host could be reached, so the record of the roll cannot be read. Nothing was done."
            )
        # Of a roll of which VMs alone are to go back, all hosts are done.
        return ",".join(found["order"]) or "!all"

    def _nobody_said(self, known: dict[str, Any]) -> str:
        if known.get("ansible_limit"):
            return "all"
        otherwise = self.get_option("otherwise")
        if otherwise:
            return str(otherwise)
        text = (
            "Name the hosts: -e maintenance_hosts=host-a, or --limit host-a. For every host of "
            "the inventory: -e maintenance_hosts=all. It is not read from the inventory. Nothing was done."
        )
        raise AnsibleLookupError(" ".join([*unknown(load_extra_vars(self._loader)), text]))

    def _near(self, part: str, known: dict[str, Any]) -> str:
        near = difflib.get_close_matches(part, [*self._hosts("all", known), *known.get("groups", ())], 1)
        return f"; did you mean {near[0]}?" if near else "."

    def _hosts(self, pattern: str, known: dict[str, Any]) -> list[str]:
        lookup = lookup_loader.get("ansible.builtin.inventory_hostnames", loader=self._loader, templar=self._templar)
        return list(lookup.run([pattern], variables=known))


def _check_all_run() -> None:
    """The tasks of a maintenance have no tags: Ansible would leave out all of them, or those that verify what the
    others did, and call that a success. Those of a user's own tasks are theirs to choose."""
    only, skip = (sorted(context.CLIARGS.get(name) or no) for name, no in (("tags", ["all"]), ("skip_tags", [])))
    start, left_out = context.CLIARGS.get("start_at_task"), ""
    if not Task().evaluate_tags(only, [], {}):
        left_out = f"--tags {','.join(only)}"
    elif not Task().evaluate_tags(only, skip, {}):
        left_out = f"--skip-tags {','.join(skip)}"
    elif start:
        left_out = f"--start-at-task {start!r}"
    if left_out:
        raise AnsibleLookupError(
            f"With {left_out} tasks of the maintenance are skipped, and Ansible would still report success. Nothing "
            "was done. Run the command without it; it continues where it was. [tags] in ansible.cfg, "
            "ANSIBLE_RUN_TAGS and ANSIBLE_SKIP_TAGS may have set it."
        )
