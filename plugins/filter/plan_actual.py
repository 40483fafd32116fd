# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.accuracy import compare

DOCUMENTATION = r"""
name: plan_actual
short_description: What the plan said of each VM against what became of it
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Compares the result of a drain with the plan that was made before it.
  - The roles and playbooks of this collection use it. It is internal to them, and may change in any release.
options:
  _input:
    description:
      - What M(virtops.maintenance.virt_drain) or M(virtops.maintenance.kubevirt_drain) returned.
    type: dict
    required: true
  plan:
    description: What M(virtops.maintenance.maintenance_plan) returned, or its file.
    type: dict
    required: true
positional: plan
"""

EXAMPLES = r"""
- name: Show the VMs that took much longer than was foreseen
  ansible.builtin.debug:
    msg: >-
      {{ drain_result | virtops.maintenance.plan_actual(plan) | rejectattr('off_by', 'none')
      | selectattr('off_by', 'gt', 0.25) }}
  vars:
    plan: "{{ lookup('ansible.builtin.file', '/tmp/plan.json') | from_json }}"
"""

RETURN = r"""
_value:
  description:
    - A row for each VM of the plan and each that the drain saw, with C(name), C(uuid),
      C(predicted_verdict), C(verdict), C(predicted_target), C(target), C(predicted_duration),
      C(duration) (both in seconds), C(off_by) (actual divided by predicted, less 1; null if one is not known),
      C(predicted_pause_ms), C(outage_ms) and C(as_foreseen).
    - On KubeVirt a VM that was to be stopped and was started elsewhere by its C(runStrategy) is as
      foreseen.
  type: list
  elements: dict
"""


def plan_actual(result: Mapping[str, Any], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Raises AnsibleFilterError for what is not a drain's result or not a plan."""
    if not isinstance(result, Mapping) or "vms" not in result or "node" not in result:
        raise AnsibleFilterError("plan_actual: expected the result of virt_drain or kubevirt_drain")
    if not isinstance(plan, Mapping) or "steps" not in plan:
        raise AnsibleFilterError("plan_actual: expected a plan as maintenance_plan returns it")
    return compare(plan, result["node"], result["vms"])


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"plan_actual": plan_actual}
