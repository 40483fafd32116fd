"""Before the first host of a roll: whether all of it can be done, in which order, and how long it takes. Pure."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..model.columns import count
from ..model.policy import PolicyError
from ..model.wall import after, between
from . import out_together, table
from .record import Roll, Stage, State

# Why there is no connection for a reboot, beside what Ansible says.
LOCAL = "its connection is local (ansible_connection), so this would reboot the controller"
_LONGEST = 4000  # characters of why a roll was refused, in its record


def objections(
    looks: Iterable[Mapping[str, Any]],
    plan: Mapping[str, Any] | None,
    max_failures: int,
    silent: Sequence[str] = (),
    no_plan_for: str = "",
) -> list[str]:
    """All that stands against the roll, a sentence each; [] if it may begin.

    `looks`: for each host `not_ready`, why its preflight says that it must not begin, or empty. As many
    may be so as may fail. `plan`: Plan.to_dict(); None: it does not have to fit. `silent`: as `unreached`.
    `no_plan_for`: why there is none, where there has to be one. Of hosts that are not ready it may be them.
    """
    ill = [one["not_ready"] for one in looks if one["not_ready"]]
    found = ill if len(ill) > max_failures else []
    missing = [no_plan(no_plan_for)] if no_plan_for and not ill else []
    return [*found, *silent, *missing, *misfits(plan)]


def misfits(plan: Mapping[str, Any] | None) -> list[str]:
    """All that does not fit, by the plan."""
    refusal = (plan or {}).get("refusal")
    return [] if refusal is None else [refusal["sentence"], *refusal.get("others", ())]


def no_plan(why: str) -> str:
    return f"There is no plan: {why}"


def too_few_forks(plan: Mapping[str, Any] | None, forks: int) -> str:
    """Ansible works on no more hosts at once than it has forks, whatever may be out; "": they are enough.
    `plan`: Plan.to_dict()."""
    steps = () if plan is None or plan["refusal"] is not None else plan["steps"]
    widest = max((len(step["hosts"]) for step in steps), default=0)
    if widest <= forks:
        return ""
    return (
        f"The plan takes {widest} hosts out together, and Ansible works on {forks} at once. Give it as many forks: "
        f"ansible-playbook --forks {widest}, forks in ansible.cfg, or Forks of the job template."
    )


def unreached(host: str, why: str) -> str:
    """The objection to a reboot of this host. `why`: it has no connection for that; empty: it has one."""
    return why and (
        f"{host} is to be rebooted, but Ansible cannot reach it: {why.rstrip('.')}. Repair the connection, or leave "
        "the reboot out with maintenance_reboot=never."
    )


def seconds_of(plan: Mapping[str, Any]) -> dict[str, float]:
    """Host -> seconds of its transfers and stops, from Plan.to_dict()."""
    return {host: float(step["duration"]) for step in plan["steps"] for host in step["hosts"]}


def order_of(plan: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """The hosts in the order of the plan's steps; those that it does not have last, as they were given.

    Raises PolicyError for a plan that does not fit.
    """
    refusal = plan.get("refusal")
    if refusal:
        raise PolicyError(f"the plan does not fit: {refusal['sentence']}")
    ranks = {host: rank for rank, host in enumerate(host for step in plan["steps"] for host in step["hosts"])}
    return sorted(hosts, key=lambda host: ranks.get(host, len(ranks)))


def with_plan(roll: Roll, order: Sequence[str], seconds: Mapping[str, float], out: Collection[str]) -> Roll:
    """The roll with its hosts in the order of the plan, and its seconds. `out`: hosts that are out already come first.

    Who wants to pause after a host has thought of an order, and keeps it.
    """
    new = copy.deepcopy(roll)
    ranks = {host: rank for rank, host in enumerate(() if roll.terms.pause_after else order)}
    listed = sorted(new.hosts.values(), key=lambda entry: (entry.name not in out, ranks.get(entry.name, len(ranks))))
    new.hosts = {entry.name: entry for entry in listed}
    new.terms = replace(new.terms, seconds={**new.terms.seconds, **seconds})
    return new


def targets(plan: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """Host -> VM (UUID) -> the host that the plan sends it to when the first one is emptied.

    `plan`: Plan.to_dict(); None, or one of a roll that does not fit: none.
    """
    found: dict[str, dict[str, str]] = {}
    if plan is None or plan.get("refusal") is not None:
        return found
    for step in plan["steps"]:
        for move in step.get("moves", ()):
            if move["target"] and move["source"] in step["hosts"] and move["target"] != move["source"]:
                found.setdefault(move["source"], {})[move["vm"]] = move["target"]
    return found


def refused(roll: Roll, objections: Sequence[str] = ()) -> Roll:
    """It is over before it began: nothing was changed, and another command is another roll."""
    new = copy.deepcopy(roll)
    new.state = State.REFUSED
    new.paused = "; ".join(one.rstrip(".") for one in objections)[:_LONGEST]
    return new


def header(roll_id: str, hosts: Sequence[str], plan: Mapping[str, Any] | None) -> str:
    """One line: what is going to happen."""
    parts = [f"roll {roll_id}: {count(len(hosts), 'host')}"]
    if plan is not None and plan["refusal"] is None:
        # What its owner moves is no move of the plan.
        vms = plan["vms_moved"] + plan["stops"] + len({move["vm"] for move in plan["fits_if"]})
        parts.append(count(vms, "VM"))
        if plan["moves"]:
            parts.append(f"by plan {table.long(plan['duration'])} of transfers")
    return ", ".join(parts)


def ready(roll: Roll, now: str) -> str:
    """When the last host is done, by the plan and what was seen; "": not known."""
    left = seconds_left(roll, now)
    return "" if left is None else after(now, left)


def seconds_left(roll: Roll, now: str) -> float | None:
    """Seconds until the last host is done. None: not known, for before the first host is done nobody knows what the
    user's tasks and the reboot take."""
    if not roll.terms.seconds or not roll.in_stage(Stage.DONE):
        return None
    # Of a share the record does not say how many hosts it is: as many as are out now.
    at_once = int(most) if (most := roll.terms.max_unavailable).isdigit() else max(1, len(roll.out))
    left = waiting = 0.0
    for entry in roll.hosts.values():
        if entry.stage is Stage.WAITING:
            waiting += out_together.expected(roll, entry.name) + roll.terms.soak
        elif entry.is_out:
            left = max(left, out_together.expected(roll, entry.name) - between(entry.begun, now) + entry.idle)
    return left + waiting / at_once
