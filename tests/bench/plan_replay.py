"""Plays a plan again and counts what it breaks. Shares no code with the planner: it reads the
plan's JSON and the fleet's plain data, and does its own sums.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from bench.plan_fleets import Instance

EPSILON = 1e-3
# The plan's JSON is rounded to thousandths of a second.
ROUNDED = 0.01


def violations(instance: Instance, plan: dict[str, Any]) -> Counter[str]:
    """What is broken, how often: limits, capacity, spread, direction, link, order, left."""
    broken: Counter[str] = Counter()
    where = {guest.uuid: guest.host for guest in instance.guests}
    guests = {guest.uuid: guest for guest in instance.guests}
    hosts = {host.name: host for host in instance.hosts}
    done: set[str] = set()
    for step in plan["steps"]:
        out = set(step["hosts"])
        if len(out) > instance.max_unavailable or out & done:
            broken["limits"] += 1
        _limits(instance, step["moves"], broken)
        _links(instance, step["moves"], guests, broken)
        _places(hosts, guests, where, out, step["moves"], broken)
        left = sum(host in out for host in where.values())
        broken["left"] += left
        done |= out
    broken["left"] += sum(host.in_roll and host.name not in done for host in instance.hosts)
    return +broken


def _limits(instance: Instance, moves: list[dict[str, Any]], broken: Counter[str]) -> None:
    """Never more in flight than the limits allow: in all, from a host, to a host."""
    events = []
    for move in moves:
        events.append((move["start"] + move["duration"] - ROUNDED, -1, move))
        events.append((move["start"], 1, move))
    events.sort(key=lambda e: e[:2])
    total, outbound, inbound = 0, Counter[str](), Counter[str]()
    cluster, most_out, most_in = instance.caps
    for _time, sign, move in events:
        total += sign
        outbound[move["source"]] += sign
        inbound[move["target"]] += sign
        if sign > 0 and (total > cluster or outbound[move["source"]] > most_out or inbound[move["target"]] > most_in):
            broken["limits"] += 1


def _links(instance: Instance, moves: list[dict[str, Any]], guests: dict[str, Any], broken: Counter[str]) -> None:
    """No link carries more than it can: for every span between a start and an end, the bytes of
    the migrations that lie in it, with what is written meanwhile, fit through the link."""
    by_link: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for move in moves:
        guest = guests[move["vm"]]
        rate = min(instance.links[move["source"]], instance.links[move["target"]])
        rate = min(rate, instance.each or rate)
        begin, end = move["start"], move["start"] + move["duration"]
        least = guest.memory / (rate - guest.dirty)
        if end - begin + ROUNDED < least:
            broken["link"] += 1
        sent = guest.memory + guest.dirty * least
        for link in (("out", move["source"]), ("in", move["target"])):
            by_link.setdefault(link, []).append((begin, end, sent))
    for (_way, host), spans in by_link.items():
        for begin in {s[0] for s in spans}:
            inside = sorted((end, sent) for start, end, sent in spans if start >= begin)
            total = 0.0
            for end, sent in inside:
                total += sent
                if total > instance.links[host] * (end - begin + ROUNDED) * (1 + EPSILON):
                    broken["link"] += 1
                    break


def _places(
    hosts: dict[str, Any],
    guests: dict[str, Any],
    where: dict[str, str],
    out: set[str],
    moves: list[dict[str, Any]],
    broken: Counter[str],
) -> None:
    """Capacity, spread and direction. A VM counts at its target from the start of its migration,
    and at its source until the end of the step."""
    used: Counter[str] = Counter()
    groups: Counter[tuple[str, str]] = Counter()
    for uuid, host in where.items():
        used[host] += guests[uuid].memory
        if guests[uuid].group:
            groups[host, guests[uuid].group] += 1
    for move in moves:
        guest, target = guests[move["vm"]], move["target"]
        if where[guest.uuid] != move["source"] or target in out or move["way"] != "migrate":
            broken["order"] += 1
            continue
        used[target] += guest.memory
        if used[target] > hosts[target].usable:
            broken["capacity"] += 1
        if guest.group:
            groups[target, guest.group] += 1
            if groups[target, guest.group] > 1:
                broken["spread"] += 1
        if hosts[target].version < hosts[move["source"]].version:
            broken["direction"] += 1
        where[guest.uuid] = target
