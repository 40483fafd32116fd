"""One case: a drain, a kill in the middle, the same command again, the judgement, restore."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo import plays, report, traces

from lab import GuestSpec, Host, Lab, LabError

from .victims import VICTIMS, kill

HOSTS = ("host-a", "host-b")
MOST_RUNS = 3
GUESTS = (
    GuestSpec("idle", fill_mib=32),
    GuestSpec("disk", fill_mib=16, dirty_mib_s=2, disks=[("shared", 16)]),
    GuestSpec("local", fill_mib=16, disks=[("local", 16)], autostart=True),
    GuestSpec("fleeting", fill_mib=32, persistent=False),
)
NAMES = sorted(spec.name for spec in GUESTS)
# At home on its host: shut down by the host's drain, started again by its restore, never moved.
# It is the only one that may stop.
STAYS = {host: GuestSpec(f"stays-{host[-1]}", strategy="None", autostart=True) for host in HOSTS}
MAY_STOP = {spec.name for spec in STAYS.values()}
BOOT_SECONDS = 60


@dataclass(frozen=True)
class Case:
    """What is done. `moment`: seconds from `since`, the start of the play or the cordon."""

    number: int
    source: str
    victim: str
    since: str
    moment: float

    def __str__(self) -> str:
        return (
            f"case {self.number:2}: drain {self.source}, kill the {self.victim} "
            f"{self.moment:.2f} s after the {self.since}"
        )


@dataclass
class Outcome:
    """What came of it. `wrong` is empty: all is well."""

    case: Case
    runs: int = 0
    missed: int = 0
    seconds: float = 0.0
    seen: str = ""
    ill: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def draw(seed: int, number: int, span: float) -> Case:
    """The case of this number. `span`: seconds from cordon to end of a drain left alone."""
    dice = random.Random(f"{seed}/{number}")
    source = HOSTS[(number - 1) % 2]
    # Two hosts and three victims: after six cases each has met each.
    victim = VICTIMS[(number - 1) % len(VICTIMS)]
    if victim == "playbook" and dice.random() < 0.3:
        return Case(number, source, victim, "start", round(dice.uniform(0.3, 3.0), 2))
    return Case(number, source, victim, "cordon", round(dice.uniform(0.0, 0.9 * span), 2))


def drain(lab: Lab, source: str) -> plays.Play:
    return plays.Play(lab, "drain", _variables(source))


def _variables(source: str) -> dict[str, Any]:
    return {"maintenance_hosts": source, "drain_allow_stop": True}


def ready(lab: Lab, source: str) -> bool:
    """All guests run where a case that drains `source` wants them."""
    return all(
        traces.running(host) == sorted([STAYS[name].name, *(NAMES if name == source else [])])
        for name, host in lab.hosts.items()
    )


def store(host: Host) -> Path:
    """The folder of the host's store, seen from the machine: looking costs no call."""
    return host.paths.host(host.name) / "var-lib" / "libvirt" / "virtops"


def run(lab: Lab, case: Case) -> Outcome:
    """Do the case. Guests are on its source before, on the other host afterwards."""
    out = Outcome(case)
    began = time.monotonic()
    host = lab.host(case.source)
    before = report.check(lab.paths.raw, set())
    try:
        _until_killed(lab, host, case, out)
        _until_drained(lab, case, out)
        out.wrong += judge(lab, host)
        out.wrong += restore(lab, host)
        silent = ill(lab)
        after = report.check(lab.paths.raw, set())
        # A drain that was over before the kill was undone by draining the other host.
        drained = HOSTS if out.missed else (case.source,)
        out.wrong += unlike(before, after, {STAYS[name].name for name in drained})
        fresh = grown(before, after, "panics")
        out.ill = [name for name in silent if name in fresh]
        out.wrong += [f"{name} hangs, and did not panic" for name in silent if name not in fresh]
    except TimeoutError as error:
        out.wrong.append(str(error))
    out.seconds = time.monotonic() - began
    return out


def _until_killed(lab: Lab, host: Host, case: Case, out: Outcome) -> None:
    """Start the drain and kill. A drain that was over before is undone and begun anew."""
    moment = case.moment
    while True:
        play = drain(lab, case.source)
        try:
            _wait_for_moment(play, host, case.since, moment)
            out.seen = _where(host)
            if kill(case.victim, play, host):
                break
            if out.missed == 3:
                out.wrong.append(f"no {case.victim} to kill in {out.missed + 1} drains")
                break
        finally:
            if case.victim == "playbook" and play.running:
                play.kill()
        plays.watch(play)
        _back(lab, host)
        out.missed += 1
        moment /= 2
    ended = plays.watch(play)
    if case.victim == "holder" and ended.code != 0:
        # The module sees that the holder is gone and starts another: nothing is to be seen.
        out.seen += f"; that run ended with {ended.code}"


def _wait_for_moment(play: plays.Play, host: Host, since: str, moment: float) -> None:
    while since == "cordon" and play.running and not (store(host) / "cordon").exists():
        time.sleep(0.01)
    at = (play.began if since == "start" else time.monotonic()) + moment
    while play.running and time.monotonic() < at:
        time.sleep(0.01)


def _where(host: Host) -> str:
    """How far the drain was, for whoever repeats the case."""
    here = traces.running(host)
    volumes = [path.name for path in store(host).glob("*")] if store(host).exists() else []
    done = sum(name.startswith("outcome.") for name in volumes)
    return f"{len(here)} of {len(NAMES) + 1} VMs still on {host.name}, {done} outcomes"


def _until_drained(lab: Lab, case: Case, out: Outcome) -> None:
    """The same command again until it ends well."""
    while out.runs < MOST_RUNS:
        out.runs += 1
        ended = plays.watch(drain(lab, case.source))
        if ended.code == 0:
            break
    if ended.code != 0:
        out.wrong.append(
            f"not drained after {out.runs} more runs; the last said: {ended.last.get('msg') or ended.text[-500:]}"
        )
    elif out.runs > 1:
        out.wrong.append(f"{out.runs} runs were needed, not one")
    if ended.code == 0 and not ended.last.get("certificate"):
        out.wrong.append("drained, and no certificate")


def judge(lab: Lab, host: Host) -> list[str]:
    """What virsh on the hosts and the guests' raw logs say after the drain."""
    other = next(one for one in lab.hosts.values() if one.name != host.name)
    off, on = STAYS[host.name].name, STAYS[other.name].name
    wrong = [f"left behind: {name}" for name in traces.claims(lab) + traces.marked(lab)]
    if traces.defined(host) != [off] or traces.running(host) or traces.autostarted(host):
        wrong.append(
            f"on {host.name} there must be {off} alone, off and without autostart: "
            f"defined {traces.defined(host)}, running {traces.running(host)}, "
            f"autostart {traces.autostarted(host)}"
        )
    if traces.running(other) != sorted([*NAMES, on]):
        wrong.append(f"on {other.name} run {traces.running(other)}, not {NAMES} and {on}")
    if traces.autostarted(other) != ["local", on] or traces.transient(other) != ["fleeting"]:
        wrong.append(f"autostart {traces.autostarted(other)}, transient {traces.transient(other)}")
    return wrong + checked(report.check(lab.paths.raw, set()), MAY_STOP)


def checked(found: Mapping[str, Any], may_stop: Collection[str]) -> list[str]:
    """What is wrong by the checker's report. A panic is excused (and printed), nothing else is."""
    bad = [
        f"{guest['name']}: {guest['verdict']}: {guest['reasons']}"
        for guest in found["guests"]
        if guest["verdict"] not in ("live", "panic")
        and not (guest["verdict"] == "stopped" and (guest["name"] in may_stop or not _stops(guest)))
    ]
    bad += [
        f"{guest['name']}: stopped, though it may not: {stops}"
        for guest in found["guests"]
        if guest["name"] not in may_stop and (stops := _stops(guest))
    ]
    if not bad and not any(found["totals"][key] for key in report.HURT):
        return []
    return [f"checker: {report.checker.line_of(found['totals'])}", *bad]


def _stops(guest: Mapping[str, Any]) -> list[str]:
    """How it was stopped, but for its removal by `renew`."""
    return [why for why in guest["stops"] if why != f"announced: {report.checker.REMOVED}"]


def grown(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> set[str]:
    """Guests that have more of it after than before."""
    had = {guest["name"]: len(guest[key]) for guest in before["guests"]}
    return {g["name"] for g in after["guests"] if len(g[key]) > had.get(g["name"], 0)}


def unlike(before: Mapping[str, Any], after: Mapping[str, Any], expected: set[str]) -> list[str]:
    """Who was stopped meanwhile, by the raw log, must be just who was to be stopped."""
    seen = grown(before, after, "stops")
    if seen == expected:
        return []
    return [f"stopped were {sorted(seen)}, not {sorted(expected)}"]


def ill(lab: Lab) -> list[str]:
    """Guests that do not tick any more. One that has just been started may have to boot."""
    out = []
    for name in [*NAMES, *sorted(MAY_STOP)]:
        try:
            lab.wait_ticking([name], BOOT_SECONDS if name in MAY_STOP else 5)
        except LabError:
            out.append(name)
    return out


def renew(lab: Lab, host: str, names: list[str]) -> None:
    """Such guests are made anew, so that the next case is about guests that tick."""
    homes = [(host, spec) for spec in GUESTS] + list(STAYS.items())
    for home, spec in homes:
        if spec.name in names:
            lab.remove_guest(spec.name)
            lab.run(home, spec)
    lab.wait_ticking(names)


def _back(lab: Lab, host: Host) -> None:
    """Everything was moved and nobody was killed: put all of it back for another try."""
    other = next(one for one in lab.hosts.values() if one.name != host.name)
    for step in (("restore", host), ("drain", other), ("restore", other)):
        ended = plays.run(lab, step[0], _variables(step[1].name))
        if ended.code != 0:
            raise TimeoutError(f"{step[0]} of {step[1].name} failed: {ended.last.get('msg')}")


def restore(lab: Lab, host: Host) -> list[str]:
    """Put the host back; nothing of ours may be left anywhere."""
    ended = plays.run(lab, "restore", {"maintenance_hosts": host.name})
    wrong = [] if ended.code == 0 else [f"restore failed: {ended.last.get('msg')}"]
    home = [STAYS[host.name].name]
    if (traces.running(host), traces.autostarted(host)) != (home, home):
        wrong.append(
            f"after restore {home} must run on {host.name} with autostart: running "
            f"{traces.running(host)}, autostart {traces.autostarted(host)}"
        )
    # A note of copied disks stays as long as the copies do: the VM may come back.
    names = {one.name: traces.volumes(one) for one in lab.hosts.values()}
    left = [n for ns in names.values() for n in ns if not n.startswith("made.")]
    return wrong + ([f"left behind after restore: {left}"] if left else [])
