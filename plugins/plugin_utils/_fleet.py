"""A fleet or cluster as the inventory knows it: its hosts, its quorum hosts, what a plan is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.module_utils._core.claims import admission
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.observed import of_fleet

HostVars = Mapping[str, Mapping[str, Any]]

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


def plan_fleet(found: Iterable[Mapping[str, Any]], hostvars: HostVars) -> dict[str, list[dict[str, Any]]]:
    """Raises AnsibleFilterError for what is not the result of virt_host_info."""
    found = list(found)
    for one in found:
        if not isinstance(one, Mapping) or "host" not in one or "vms" not in one:
            raise AnsibleFilterError("plan_fleet: expected a list of what virt_host_info returns as fleet")
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
    hostvars: HostVars,
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


def of_inventory(keys: Any, hostvars: HostVars) -> dict[str, dict[str, str]]:
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
    found: Mapping[str, Any], hostvars: HostVars, limits: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Raises AnsibleFilterError for what is not the result of kubevirt_fleet_info."""
    if not isinstance(found, Mapping) or "hosts" not in found or "limits" not in found:
        raise AnsibleFilterError("plan_cluster: expected the result of kubevirt_fleet_info")
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


def peers(fleet: Iterable[str], hostvars: HostVars, node: str, roll: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Raises AnsibleFilterError for a host without variables or without a URI."""
    if isinstance(fleet, str):
        raise AnsibleFilterError(f"peers: maintenance_fleet is '{fleet}': expected a list")
    ranks = {name: rank for rank, name in enumerate(roll)}
    result = []
    for name in fleet:
        if name == node:
            continue
        if name not in hostvars:
            raise AnsibleFilterError(f"peers: {name} is not in the inventory")
        facts = hostvars[name]
        if not facts.get("maintenance_peer_uri"):
            raise AnsibleFilterError(
                f"peers: {name} has no maintenance_peer_uri. "
                f"Set it in the inventory, for example qemu+tls://{name}/system"
            )
        result.append(
            {
                "name": name,
                "uri": facts["maintenance_peer_uri"],
                "migrate_uri": facts.get("maintenance_migrate_uri", ""),
                "memory": _mib(name, facts, "maintenance_memory"),
                "reserve": _mib(name, facts, "maintenance_reserve"),
                "roll_rank": ranks.get(name),
                "labels": dict(facts.get("maintenance_labels") or {}),
                "taints": list(facts.get("maintenance_taints") or []),
            }
        )
    return result


def _mib(host: str, facts: Mapping[str, Any], variable: str) -> int:
    """Nothing is 0."""
    value = facts.get(variable) or 0
    try:
        return int(value)
    except (TypeError, ValueError):
        raise AnsibleFilterError(f"peers: {variable} of {host} is '{value}': expected a number of MiB") from None


class Fleet:
    """The fleet as seen by a task or lookup. `variables`: its own; `templar`: for those that are templates."""

    def __init__(self, templar: Any, variables: Mapping[str, Any]) -> None:
        self._templar, self._variables = templar, variables
        self.kubevirt = (self._value("maintenance_platform") or "libvirt") == "kubevirt"

    def _value(self, name: str) -> Any:
        return self._templar.template(self._variables.get(name))

    @property
    def members(self) -> list[str]:
        """The hosts of a libvirt fleet: those named, or all hosts that have a URI for their peers."""
        named = self._value("maintenance_fleet")
        hostvars = self._variables["hostvars"]
        if named is None:
            return [host for host in self._variables["groups"]["all"] if "maintenance_peer_uri" in hostvars[host]]
        if isinstance(named, str):
            raise AnsibleFilterError(f"maintenance_fleet is '{named}': expected a list of hosts")
        return list(named)

    def quorum_hosts(self, without: str = "") -> list[str]:
        """The hosts on which the record of a roll is read and written, in the order in which they are asked; for a
        cluster, the host that asks its API."""
        if self.kubevirt:
            return [self._value("maintenance_api_host") or "localhost"]
        others = [host for host in self.members if host != without]
        return list(admission.quorum_hosts(others))

    def reach(self, at: str) -> dict[str, Any]:
        """How the module of that host reaches the fleet. A cluster has one API, which other options name."""
        if self.kubevirt:
            return {}
        hostvars = self._variables["hostvars"]
        return {
            "node": at,
            "uri": hostvars[at].get("maintenance_uri") or "qemu:///system",
            "peers": peers(self.members, hostvars, at),
        }


__all__ = ["Fleet", "of_inventory", "peers", "plan_cluster", "plan_fleet"]
