"""A roll's report as one page: no network, no script; for a phone, in light and in dark. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from jinja2 import Environment

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import IN_POST_COPY, Mode
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.tally import words as counted
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import table

from ._lines import plain
from ._page_template import TEMPLATE

Doc = Mapping[str, Any]
_TICKS = 4
_LANE = 9  # pixels for a lane of migrations
_BAR = 16  # for the stages of a host
_OPEN = 3  # hosts whose VMs are shown at once
_ENDED = ("done", "failed")
_TITLES = {
    "done": "Done",
    "failed": "Failed",
    "stopped": "Stopped",
    "aborted": "Aborted",
    "refused": "Refused",
    "running": "Under way",
}
# What is drawn in which colour.
_STAGES = ("draining", "empty", "at work", "rebooting", "checking", "restoring", "failed")
_LEFT = ("blocked", "lost", "pending")


def page(doc: Doc) -> str:
    """`doc`: report.json. All of the page comes from it."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["long"] = lambda took: "-" if took is None else table.long(took)
    environment.filters["outage"] = table.outage
    environment.filters["counted"] = counted
    environment.filters["clock"] = lambda text: text[11:19] or "-"
    environment.filters["plain"] = lambda text: plain(str(text))
    environment.filters["slug"] = lambda text: str(text).replace(" ", "-")
    span = _Span(doc)
    state = doc["roll"]["state"]
    hosts = [{**host, **_drawn(host, span), "is": table.shown(host["stage"], state)} for host in doc["hosts"]]
    return environment.from_string(TEMPLATE).render(
        doc=doc,
        roll=doc["roll"],
        totals=doc["totals"],
        title=_TITLES.get(doc["outcome"], doc["outcome"]),
        hosts=hosts,
        ticks=span.ticks(),
        stages=[stage for stage in _STAGES if any(one["stage"] == stage for host in hosts for one in host["bars"])],
        attention=_attention(doc["hosts"]),
        predicted=any(vm["predicted"] for host in doc["hosts"] for vm in host["vms"]),
        bar=_BAR,
        lane=_LANE,
        few=len(hosts) <= _OPEN,
    )


class _Span:
    """The time that is drawn, and where on it something is, in percent."""

    def __init__(self, doc: Doc) -> None:
        times = [doc["roll"]["begun"], *([doc["written"]] if doc["outcome"] == "running" else [])]
        for host in doc["hosts"]:
            times += [stage["since"] for stage in host["stages"]]
            times += [vm[key] for vm in host["vms"] for key in ("start", "end")]
        known = [moment for moment in map(_moment, times) if moment is not None]
        # Not with a move of an earlier drain, or where a host's clock is behind.
        self.begin = _moment(doc["roll"]["begun"]) or min(known, default=datetime.fromtimestamp(0, UTC))
        self.end = max(known, default=self.begin)
        self.seconds = max(1.0, (self.end - self.begin).total_seconds())

    def at(self, moment: datetime) -> float:
        share = (moment - self.begin).total_seconds() / self.seconds
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self) -> list[dict[str, Any]]:
        """Times below the drawing; the first is flush left, the last flush right."""
        shown = "%H:%M" if self.seconds >= 60 * 2 * _TICKS else "%H:%M:%S"
        step = timedelta(seconds=self.seconds / _TICKS)
        anchors = {0: "start", _TICKS: "end"}
        return [
            {
                "x": 100 * number / _TICKS,
                "text": (self.begin + number * step).strftime(shown),
                "anchor": anchors.get(number, "middle"),
            }
            for number in range(_TICKS + 1)
        ]


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def _drawn(host: Doc, span: _Span) -> dict[str, Any]:
    """`bars`: its stages. `moves`: its VMs, in as many `lanes` as are needed that none hides another."""
    bars = []
    stages: Sequence[Mapping[str, Any]] = host["stages"]
    for number, one in enumerate(stages):
        begin = _moment(one["since"])
        after = _moment(stages[number + 1]["since"]) if number + 1 < len(stages) else span.end
        if begin is None or after is None or one["stage"] in ("done", "given back"):
            continue
        took = (after - begin).total_seconds()
        bars.append({"stage": one["stage"], **_place(span, begin, after), "took": table.long(took)})
    free: list[datetime] = []  # of each lane: from when on
    moves = []
    for vm in sorted(host["vms"], key=lambda vm: (vm["start"] or "", vm["name"])):
        begin, end = _moment(vm["start"]), _moment(vm["end"]) or span.end
        if begin is None or end < span.begin:
            continue
        lane = next((number for number, until in enumerate(free) if until <= begin), len(free))
        free[lane : lane + 1] = [end]
        moves.append({"vm": vm, "lane": lane, **_place(span, begin, end)})
    return {"bars": bars, "moves": moves, "lanes": len(free)}


def _place(span: _Span, begin: datetime, end: datetime) -> dict[str, float]:
    left = span.at(begin)
    return {"x": min(left, 99.4), "width": max(0.6, round(span.at(end) - left, 2))}


def _attention(hosts: Sequence[Doc]) -> list[dict[str, Any]]:
    """The entries of "What to look at": hosts that failed or lack VMs of theirs, and VMs with a reason, those with the
    same reason together. Each has who, code, message, remedy, and bad: the drain was not done with it."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for host in hosts:
        not_back = host["stage"] == "done" and host["message"]
        if host["stage"] == "failed" or host["failed_in"] or not_back:
            code = f"failed ({host['failed_in']})" if host["failed_in"] else "not back" if not_back else "failed"
            found[("host", host["name"])] = {
                "who": [host["name"]],
                "code": code,
                "message": host["message"],
                "remedy": "",
                "bad": True,
            }
        for vm in host["vms"]:
            if vm["verdict"] in _LEFT and vm.get("mode") == Mode.POST_COPY.value and vm["reason"] != "Irrecoverable":
                who = f"{vm['name']} on {host['name']} and {vm['target']}"
                row = {"code": "PostCopy", "message": f"It is {IN_POST_COPY} until it has moved.", "remedy": ""}
                found[("vm", who)] = {"who": [who], **row, "bad": True}
            if vm["reason"]:
                key = (host["name"], vm["reason"], vm["message"] or "", vm["remedy"] or "")
                row = {"who": [], "code": vm["reason"], "message": vm["message"], "remedy": vm["remedy"]}
                one = found.setdefault(key, {**row, "bad": vm["verdict"] in _LEFT})
                one["who"].append(f"{vm['name']} on {host['name']}")
    return sorted(found.values(), key=lambda one: not one["bad"])
