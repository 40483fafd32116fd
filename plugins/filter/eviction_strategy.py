# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    EvictionStrategy,
    OnNotMigratable,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.choice import choice_for
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.rules import compile_rules

DOCUMENTATION = r"""
name: eviction_strategy
short_description: What rules decide for VMs
version_added: 0.1.0
author:
  - The virtops.maintenance contributors (@virtops)
description:
  - Runs rules on the documents of VMs, with the code that M(virtops.maintenance.virt_drain) and
    M(virtops.maintenance.kubevirt_drain) run.
  - Returns strategy and way for each VM, and who decided it. Whether another host takes the VM is
    not part of a document; RV(virtops.maintenance.virt_host_info#module:vms) and
    RV(virtops.maintenance.kubevirt_node_info#module:vms) show it.
requirements:
  - jmespath on the controller, if a rule has a C(when)
positional: rules
options:
  _input:
    description:
      - What M(virtops.maintenance.virt_host_info) or M(virtops.maintenance.kubevirt_node_info)
        returned, or a list of documents
        (RV(virtops.maintenance.virt_host_info#module:documents)).
      - Of KubeVirt give the whole result. A VMI that names no strategy has KubeVirt's default,
        which is in RV(virtops.maintenance.kubevirt_node_info#module:kubevirt) and in no document.
    type: raw
    required: true
  rules:
    description:
      - The rules, see O(virtops.maintenance.virt_drain#module:rules) and
        O(virtops.maintenance.kubevirt_drain#module:rules).
    type: list
    elements: dict
    default: []
  strategy:
    description:
      - The eviction strategy of VMs that declare none. Default is V(LiveMigrate).
      - An error with what M(virtops.maintenance.kubevirt_node_info) returned, where KubeVirt's
        default counts, as in the drain.
    type: str
    choices: [None, LiveMigrate, LiveMigrateIfPossible, External]
  on_not_migratable:
    description: What to do with a VM that should migrate and cannot.
    type: str
    choices: [block, shutdown, save, cold_migrate, skip]
    default: block
  allow_stop:
    description: Whether VMs may be stopped.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Read the host
  virtops.maintenance.virt_host_info:
    node: host-a
  register: host

- name: Which VMs would a rule stop?
  ansible.builtin.debug:
    msg: >-
      {{ host | virtops.maintenance.eviction_strategy(rules)
      | selectattr('way', 'eq', 'shutdown') | map(attribute='name') }}
  vars:
    rules:
      - name: test VMs
        when: labels.tier == 'test'
        strategy: None
        allow_stop: true
"""

RETURN = r"""
_value:
  description:
    - One entry a VM, with C(name), C(uuid), C(strategy), C(way), C(decided_by), C(priority),
      C(hooks), C(migration) (on KubeVirt what the rules ask for), and C(reason), C(message),
      C(remedy) if something is in the way.
  type: list
  elements: dict
"""


def eviction_strategy(
    found: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    rules: Any = (),
    strategy: str | None = None,
    on_not_migratable: str = "block",
    allow_stop: bool = False,
) -> list[dict[str, Any]]:
    """Raises AnsibleFilterError for a wrong rule, and for what is no document."""
    documents = found.get("documents") if isinstance(found, Mapping) else found
    if not isinstance(documents, (list, tuple)):
        raise AnsibleFilterError(
            "eviction_strategy: give it what virt_host_info or kubevirt_node_info returned, or its list of documents"
        )
    undeclared = _undeclared(found, documents, strategy)
    try:
        policy = Policy(
            rules=compile_rules(rules),
            default_strategy=EvictionStrategy(strategy or EvictionStrategy.LIVE_MIGRATE.value),
            on_not_migratable=OnNotMigratable(on_not_migratable),
            allow_stop=allow_stop,
        )
        return [choice_for(document, policy, undeclared) for document in documents]
    except ValueError as exc:  # PolicyError and DocumentError are such
        raise AnsibleFilterError(f"eviction_strategy: {exc}") from exc


def _undeclared(found: Any, documents: Iterable[Any], strategy: str | None) -> str:
    """KubeVirt's default, which a VMI without a strategy has; empty on libvirt."""
    kubevirt = found.get("kubevirt") if isinstance(found, Mapping) else None
    if kubevirt is not None and strategy is not None:
        raise AnsibleFilterError(
            "eviction_strategy: strategy has no meaning on KubeVirt, where every VMI has one, "
            "if only KubeVirt's default. Use a rule with strategy."
        )
    if kubevirt is None and strategy is None:
        for document in documents:
            if isinstance(document, Mapping) and document.get("namespace") and not document.get("eviction_strategy"):
                raise AnsibleFilterError(
                    f"eviction_strategy: {document['namespace']}/{document.get('name')} names no "
                    "strategy, and KubeVirt's default is in no document: give the whole result of "
                    "kubevirt_node_info, or strategy."
                )
    return str((kubevirt or {}).get("default_strategy") or "")


class FilterModule:
    """Filters of the collection."""

    def filters(self) -> dict[str, Any]:
        return {"eviction_strategy": eviction_strategy}
