# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet or cluster as the plan wants it: what was read, and what the inventory says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.observed import of_fleet

# Inventory variable -> key of a host
_FROM_INVENTORY = {
    "maintenance_memory": "memory_mib",
    "maintenance_reserve": "reserve_mib",
    "maintenance_link_mib_s": "link_mib_s",
    "maintenance_labels": "labels",
    "maintenance_taints": "taints",
}
# The same for VMs: name of a VM -> value
_OF_VMS = {"maintenance_dirty_rates": "dirty_rate", "maintenance_working_sets": "working_set_mib"}


def plan_fleet(
    found: Iterable[Mapping[str, Any]], hostvars: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Raises AnsibleFilterError for what is not the result of virt_host_info."""
    found = list(found)
    for one in found:
        if not isinstance(one, Mapping) or "host" not in one or "vms" not in one:
            raise AnsibleFilterError("plan_fleet: a list of what virt_host_info returns as fleet is expected")
    rows, vms = of_fleet(found)
    hosts, of_hosts = [], []
    for row in rows:
        host, here = _from_inventory(row, (vm for vm in vms if vm["host"] == row["name"]), hostvars)
        hosts.append(host)
        of_hosts += here
    return {"hosts": hosts, "vms": of_hosts}


def _from_inventory(
    host: Mapping[str, Any],
    vms: Iterable[Mapping[str, Any]],
    hostvars: Mapping[str, Mapping[str, Any]],
    variables: Iterable[str] = tuple(_FROM_INVENTORY),
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A host and its VMs with what the inventory says of them. `variables`: of the host."""
    # Not `get`: of a host that the inventory does not have Ansible's gives no default, but an error.
    known = host["name"] in hostvars
    facts: Mapping[str, Any] = hostvars[host["name"]] if known else {}
    reported = {_FROM_INVENTORY[name]: facts[name] for name in variables if facts.get(name)}
    rows = []
    for vm in vms:
        row = dict(vm)
        for variable, key in _OF_VMS.items():
            value = (facts.get(variable) or {}).get(vm["name"])
            if value:
                row[key] = value
        rows.append(row)
    return {**host, **reported}, rows


def of_inventory(keys: Any, hostvars: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """To which rack, site, or whatever `keys` names, a host belongs: by its maintenance_labels, or a variable of that
    name. Hosts of which the inventory does not say it are left out."""
    found: dict[str, dict[str, str]] = {}
    for host in hostvars if keys and isinstance(keys, Mapping) else ():
        facts = hostvars[host]
        labels = facts.get("maintenance_labels") or {}
        own = {str(key): str(labels.get(key) or facts.get(key) or "") for key in keys}
        if any(own.values()):
            found[host] = {key: value for key, value in own.items() if value}
    return found


# The rest (memory, CPU, labels, taints) is the cluster's to tell.
_OF_NODES = ("maintenance_reserve", "maintenance_link_mib_s")


def plan_cluster(
    found: Mapping[str, Any], hostvars: Mapping[str, Mapping[str, Any]], limits: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Raises AnsibleFilterError for what is not the result of kubevirt_fleet_info."""
    if not isinstance(found, Mapping) or "hosts" not in found or "limits" not in found:
        raise AnsibleFilterError("plan_cluster: the result of kubevirt_fleet_info is expected")
    fleet: dict[str, Any] = {"hosts": [], "vms": []}
    for host in found["hosts"]:
        here = [vm for vm in found["vms"] if vm["host"] == host["name"]]
        row, vms = _from_inventory(host, here, hostvars, _OF_NODES)
        fleet["hosts"].append(row)
        fleet["vms"] += vms
    outbound = (limits or {}).get("outbound") or found["limits"]["outbound"]
    fleet["limits"] = {**found["limits"], "outbound": min(int(outbound), found["limits"]["outbound"])}
    fleet["quotas"] = found.get("quotas", [])  # an older result, from a file, has none
    return {**fleet, **{key: found[key] for key in ("budgets", "migration")}}


__all__ = ["of_inventory", "plan_cluster", "plan_fleet"]
