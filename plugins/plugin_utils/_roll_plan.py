"""Check and plan a roll before its first host: the preflight of each host, and the plan of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.addresses import one_host
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan import text
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import planned

from ._fleet import of_inventory, plan_cluster, plan_fleet
from ._paths import on_controller
from ._plan import FAULTS, SPEC, plan_of

Doc = dict[str, Any]
# Of the roles: the node, where it is not the host itself.
_NODES = frozenset({"preflight_node", "drain_node", "restore_node"})
# Of the roles, and the shared one from which these have their value: the hosts of the fleet.
_FLEETS = frozenset({"preflight_fleet", "drain_fleet", "restore_fleet", "plan_fleet", "maintenance_fleet"})
_NAMED = 3


class Foreseen:
    """`plan`: in result form; None: there is none, and `why` says why. `objections`: what stands against the roll."""

    def __init__(self, args: Mapping[str, Any], looks: list[Doc], plan: Doc | None, why: str) -> None:
        """`args`: of the task. `looks`: of the preflight, one for each host."""
        self.plan, self.why = plan, why
        asked = (*args["looks"], *args["reached"])
        must_fit, silent = args["must_fit"], [one["unreached"] for one in asked if one.get("unreached")]
        found = plan if plan is not None and must_fit else None
        self.objections = planned.objections(looks, found, args["max_failures"], silent, why if must_fit else "")

    def lines(self, roll_id: str, hosts: list[str], whole: bool, forks: int) -> list[str]:
        """The lines to show of the plan. `whole`: each VM, too. `forks`: on how many hosts Ansible works at once."""
        table = text.table(self.plan) if whole and self.plan is not None else []
        known = [] if self.plan is None or whole else [*planned.misfits(self.plan), *self.plan["warnings"]]
        warnings = [f"Warning: {one}" for one in (*known, planned.too_few_forks(self.plan, forks)) if one]
        missing = [planned.no_plan(self.why)] if self.why else []
        return [*table, *warnings, *missing, planned.header(roll_id, hosts, self.plan)]

    def targets(self, plan_file: str) -> dict[str, dict[str, str]]:
        """Where VMs go, by host. `plan_file`: whose order stands, and so its targets do."""
        if not plan_file:
            return planned.targets(self.plan)
        return planned.targets(json.loads(on_controller(plan_file).read_text(encoding="utf-8")))

    def of_roll(self, has_file: bool) -> Doc:
        """The options of the record. `has_file`: order and times are those of a file, and stand already."""
        if has_file or self.plan is None or self.plan["refusal"] is not None:
            return {"hosts": [], "seconds": {}, "objections": self.objections}
        hosts = [host for step in self.plan["steps"] for host in step["hosts"]]
        return {"hosts": hosts, "seconds": planned.seconds_of(self.plan), "objections": self.objections}


def foresee(
    args: Mapping[str, Any], roll: list[str], read_cluster: Callable[[Doc], Doc], hostvars: Mapping[str, Any]
) -> Foreseen:
    """`args`: of the task. `roll`: its hosts. `read_cluster`: calls kubevirt_fleet_info."""
    looks = [one for one in args["looks"] if "not_ready" in one]
    policy = dict(args["policy"])
    kubevirt = policy.get("platform") == "kubevirt"
    metrics = policy.pop("metrics", {})
    if kubevirt:
        found = read_cluster({"metrics": metrics, "labels": list(policy.get("max_unavailable_per") or ())})
        if found.get("failed"):
            return Foreseen(args, looks, None, str(found.get("msg")))
        cluster = plan_cluster(found, hostvars, policy.get("limits"))
        policy |= cluster
    else:
        policy |= plan_fleet([one["fleet"] for one in looks if one.get("fleet")], hostvars)
    checked = ArgumentSpecValidator(SPEC).validate({**policy, "roll": roll})
    try:
        if checked.error_messages:
            raise FAULTS[0](" ".join(checked.error_messages))
        groups = of_inventory(policy.get("max_unavailable_per"), hostvars)
        plan, why = plan_of(checked.validated_parameters, groups), ""
    except FAULTS as exc:
        plan, why = None, str(exc)
    return Foreseen(args, looks, plan, why)


def misnamed(host: str, given: Iterable[str], value: Callable[[str], Any]) -> list[str]:
    """Variables that have a role work on another node than the host of the roll, whose record and certificate would
    then be those of the wrong one. `value` raises LookupError for one that is not known yet."""
    found = []
    for name in sorted(_NODES.intersection(given)):
        with suppress(LookupError):
            node = value(name)
            if node not in ("", None, host):
                found.append(
                    f"{name} of {host} is {node}: a roll works on the node that has the host's name. Name the host "
                    f"{node} in the inventory, and leave {name} out."
                )
    return found


def other_fleet(host: str, given: Iterable[str], value: Callable[[str], Any], fleet: Collection[str]) -> list[str]:
    """Variables with which a role looks for the record of the roll on other hosts than those on which the roll has it,
    and counts slots there. `fleet`: of the roll. `given`, `value`: as in `misnamed`."""
    found = []
    for name in sorted(_FLEETS.intersection(given)):
        with suppress(LookupError):
            named = value(name)
            if not isinstance(named, list):
                continue  # another fault
            lacks = [one for one in fleet if one not in named]
            more = [one for one in named if one not in fleet]
            if more or lacks not in ([], [host]):
                differs = [f"lacks {_listed(lacks)}"] * bool(lacks) + [f"has {_listed(more)} too"] * bool(more)
                found.append(
                    f"{name} is not the fleet of the roll, it {' and '.join(differs)}: the record of the roll would be "
                    f"looked for on other hosts. Leave {name} out, so that it is the same for all. To keep VMs in a "
                    "rack, give its hosts maintenance_labels, and the VMs a nodeSelector."
                )
    return found


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def one_node(hosts: Mapping[str, tuple[Iterable[str], Callable[[str], Any]]]) -> list[str]:
    """Hosts of the inventory that are one node by these variables. `hosts`: what each is given, as in `misnamed`."""
    found = []
    for name in sorted(_NODES):
        nodes = {}
        for host, (given, value) in hosts.items():
            with suppress(LookupError):
                nodes[host] = str((value(name) if name in given else "") or host)
        found.append(one_host(nodes, name))
    return [text for text in found if text]


__all__ = ["Foreseen", "foresee", "misnamed", "one_node", "other_fleet"]
