"""Choose the acts on one host, one after the other, and what comes next. Pure.

`acts` is a generator: it yields an act, is sent what came of it, and returns the result of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..model.record import Ending
from ..model.tally import tally
from ..reasons.reason import Platform, Reason
from . import reboot, table, words
from .owner import RollTakenOver
from .record import Stage
from .rules import Answer, Step

Result = dict[str, Any]
_HEALTH_PAUSE = 2.0  # seconds between two looks at a host that is to be healthy
_OFF = frozenset({Ending.OFF.value, Ending.GONE.value})
_SAID_EVERY = 15.0  # seconds between two lines that say for what it waits


@dataclass(frozen=True)
class Act:
    """One act to be run. `kind`: roll, preflight, drain, restore, move, or show.

    `options`: beside those that the user gave for that kind; of show the `lines`. `after`: seconds to wait before it.
    `turn`: of a host in a roll, as Asked has it; None: in none, so a host that is lost ends the play itself.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    turn: Mapping[str, Any] | None = None
    after: float = 0.0


Acts = Generator[Act, Result, Result]
Clock = Callable[[], float]


def _no_clock() -> float:
    raise TypeError("whoever waits needs a clock")


@dataclass(frozen=True)
class Asked:
    """The options of maintenance_host. `turn`: what the record said when the host had its turn: `position`, "2/7";
    `ready`, when the roll is, if that is known; `to_come`, the hosts that are not done; `targets`, as `planned`; and
    after its drain `stage`, what it has come to.
    `planned`: where the plan sends its VMs (UUID -> host). `shown`: findings that were shown before the roll.
    `moves`: VMs that are to go back, as `stages.homeward`. `healthy_within`: seconds for which blockers of the node
    itself are waited for; with `out` only of a host that the roll, when it began, found `rebooting`: that comes back by
    itself. `now`: seconds, from any beginning."""

    state: str
    host: str
    platform: str = "libvirt"
    check: bool = False
    turn: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[str] = ()
    work: bool = False
    checks: bool = False
    reboot: str = "never"
    hooks_were_run: bool = False
    lost: bool = False
    fail_on: str = "node_blockers"
    healthy_within: int = 0
    rebooting: bool = False
    shown: Sequence[str] = ()
    planned: Mapping[str, str] = field(default_factory=dict)
    moves: Sequence[Mapping[str, str]] = ()
    now: Clock = field(default=_no_clock)

    @property
    def by_name(self) -> bool:
        """Are VMs found by their name, with the namespace and the UID? Else by their UUID."""
        return Platform(self.platform).traits.by_name

    @property
    def in_roll(self) -> bool:
        return self.state in _IN_A_ROLL

    @property
    def needs_own_connection(self) -> bool:
        """Must its look be over a connection of its own, because a reboot is certain and takes that one? Where a reboot
        is only possible, it is asked for before the reboot; a node of KubeVirt is not looked at over it."""
        return self.state == "looked" and self.reboot == "always" and Platform(self.platform).traits.asks_hosts

    def note(self, stage: Stage, **more: Any) -> Act:
        return Act("roll", {"state": "noted", "stage": stage.value, "roll_host": self.host, **more}, self.turn)

    def last(self) -> list[str]:
        """The steps that come last before VMs come back: the user's checks, if there are any."""
        return ["checks"] if self.checks else []


def acts(ask: Asked) -> Acts:
    """Do nothing for an unreachable host."""
    if ask.state == "drained":
        return (yield Act("drain"))
    if ask.state == "active":
        return (yield Act("restore"))
    if ask.state == "moved":
        return (yield Act("move"))
    if ask.state == "checked":
        return (yield from _checked(ask, ask.fail_on, ask.healthy_within, None))
    if ask.state == "looked":
        return (yield from _looked(ask))
    if ask.lost:
        return {"failed": True, "msg": words.is_lost(ask.host)}
    return _not_said_here(ask, (yield from _IN_A_ROLL[ask.state](ask)))


def _not_said_here(ask: Asked, found: Result) -> Result:
    """A playbook that lost its roll does nothing more with any host; its last message says so for all."""
    if found.get("error") != RollTakenOver.__name__ or ask.state not in ("out", "empty", "back"):
        return found
    return {"changed": bool(found.get("changed")), "answer": Answer.CLOSED.value, "next": []}


def ranked(peers: Iterable[Mapping[str, Any]], turn: Mapping[str, Any]) -> list[Result]:
    """Peers get the VMs that the plan wants there. Those that are still to come get others last, the next one last of
    all."""
    ranks = {name: rank for rank, name in enumerate(turn.get("to_come", ()))}
    expects: dict[str, list[str]] = {}
    for vm, target in (turn.get("targets") or {}).items():
        expects.setdefault(target, []).append(vm)
    return [{**peer, "roll_rank": ranks.get(peer["name"]), "expects": expects.get(peer["name"], [])} for peer in peers]


def _looked(ask: Asked) -> Acts:
    """Before the roll: what its preflight finds is shown, and is no failure here. `lines`: of it. `fleet`: the host
    and its VMs, for the plan; None on KubeVirt, where the cluster is read at once."""
    found = yield from _checked(ask, ask.fail_on, 0, ask.turn)
    lines = [*found.get("blockers", ()), *found.get("cautions", ())]
    yield Act("show", {"lines": lines}, ask.turn)
    return {"changed": False, "not_ready": found["not_ready"], "lines": lines, "fleet": found.get("fleet")}


def _out(ask: Asked) -> Acts:
    """Wait for its turn, check it, drain it. `next`: what comes then, of hooks, work, reboot, checks."""
    asks = {"state": "admitted", "roll_host": ask.host, "targets": sorted({*ask.planned.values()})}
    within = ask.healthy_within if ask.rebooting else 0
    turn = yield Act("roll", {**asks, "reach_for": within}, ask.turn)
    kept = {"changed": bool(turn.get("changed")), "left_as": words.left_as(None), "next": []}
    if _failed(turn):
        return {**turn, **kept}
    steps = _wanted(ask, turn)
    hosts = (turn.get("roll") or {}).get("hosts", ())
    to_come = [one["name"] for one in hosts if one["stage"] != Stage.DONE.value]
    when = {key: turn.get(key, "") for key in ("position", "ready")}
    ask = replace(ask, turn={**when, "to_come": to_come, "targets": dict(ask.planned)}, steps=steps)
    kept |= {"answer": turn["answer"], "steps": steps, "turn": ask.turn}
    if turn["answer"] != Answer.GO.value:
        return kept
    if Step.DRAIN.value not in steps:
        return {**kept, "left_as": words.left_as_before(), "next": ask.last()}
    found = yield from _checked(ask, ask.fail_on, within, ask.turn)
    lines = _new(found, ask.shown)
    if not turn.get("begins"):  # that a maintenance of it is under way is what brought this roll here
        lines = [line for line in lines if f" {Reason.MaintenanceUnderWay.value} " not in line]
    yield Act("show", {"lines": lines}, ask.turn)
    if found["not_ready"]:
        if turn.get("begins") and not ask.check:  # nothing was done with it, so it takes no place of another host
            yield ask.note(Stage.WAITING)
        return {**kept, "failed": True, "msg": found["not_ready"]}
    if within:  # it was left in its reboot, and is up: it may be another one than before
        turn = yield Act("roll", asks, ask.turn)
        if _failed(turn):
            return {**turn, **kept}
        ask = replace(ask, steps=_wanted(ask, turn))
    return {**kept, **(yield from _empty(ask))}


def _wanted(ask: Asked, turn: Mapping[str, Any]) -> list[str]:
    """The steps that are left of the host, without work and reboot where nobody asked for them."""
    wanted = {Step.WORK.value: ask.work, Step.REBOOT.value: ask.reboot != "never"}
    return [step for step in turn.get("steps", []) if wanted.get(step, True)]


def _empty(ask: Asked) -> Acts:
    """Drain it, and record what it comes to."""
    found = {"answer": Answer.GO.value, **(yield Act("drain", {}, ask.turn))}
    found["left_as"] = words.left_as(found)
    if found.get("ended") == "needs" and not ask.hooks_were_run:
        return {**found, "failed": False, "next": ["hooks"], "steps": ask.steps, "turn": ask.turn}
    vms = found.get("vms") or ()
    if _failed(found):  # its playbook records that, with these figures
        return {**found, "tally": tally(vms)} if vms else found
    stage, following = next_steps(ask.steps)
    noted = yield ask.note(stage, tally=tally(vms), moved=table.moved(vms, ask.by_name))
    if noted.get("failed"):
        return {**found, **{key: noted[key] for key in ("failed", "msg", "error") if key in noted}}
    left = [one for one in ask.steps if one not in (Step.DRAIN.value, *following)]
    mine = _entry(noted, ask.host)
    if stage is Stage.REBOOTING and mine.get("stage") == Stage.CHECKING.value:  # it has rebooted since its turn
        stage, following = Stage.CHECKING, []
    # Whether a reboot is needed the host is asked by the playbook, on its own connection.
    auto = {Step.REBOOT.value: "reboot_if_needed"} if ask.reboot == "auto" else {}
    following = [auto.get(one, one) for one in following] + ([] if stage is Stage.AT_WORK else ask.last())
    turn = {**ask.turn, "stage": stage.value, "asked": noted.get("asked")}
    return {**found, "next": following, "steps": left, "turn": turn}


def _entry(noted: Mapping[str, Any], host: str) -> Mapping[str, Any]:
    """The host in the roll as a note of it has returned that."""
    entries = (noted.get("roll") or {}).get("hosts", ())
    return next((one for one in entries if one["name"] == host), {})


def _reboots(ask: Asked) -> Acts:
    """Is it still to be rebooted? The last question before it, which the note of its stage may be minutes before: its
    tools were asked whether it needs that."""
    noted = yield ask.note(Stage.REBOOTING)
    if _failed(noted):
        return noted
    mine = _entry(noted, ask.host)
    due = mine.get("stage") != Stage.CHECKING.value
    yield Act("show", {"lines": [reboot.begins(ask.healthy_within) if due else reboot.was_done()]}, ask.turn)
    turn = {**ask.turn, "boot_id": mine.get("boot_id", ""), "asked": noted.get("asked")}
    return {"changed": True, "next": [Step.REBOOT.value] if due else [], "turn": turn}


def _healthy(ask: Asked) -> Acts:
    """Wait until it is, before anything comes back to it."""
    # A host without work and reboot came to it with its drain.
    if ask.turn.get("stage") != Stage.CHECKING.value:
        noted = yield ask.note(Stage.CHECKING)
        if noted.get("failed"):
            return noted
    found = yield from _checked(ask, "node_blockers", ask.healthy_within, ask.turn)
    if not found["not_ready"]:
        return {"changed": True}
    yield Act("show", {"lines": found.get("node_blockers", ())}, ask.turn)
    return {"changed": True, "failed": True, "msg": found["not_ready"]}


def _checks(ask: Asked) -> Acts:
    """Wait until it is healthy, which may take minutes, and ask again before the user's checks."""
    found = yield from _healthy(ask)
    if found.get("failed"):
        return found
    noted = yield ask.note(Stage.CHECKING)
    return {**found, **noted} if _failed(noted) else {**found, "turn": {**ask.turn, "asked": noted.get("asked")}}


def _back(ask: Asked) -> Acts:
    """Wait until it is healthy, unless the user's checks did, restore it, record that it is done. `next`: hooks of its
    restore, after which it is asked again."""
    found = {} if ask.checks or ask.hooks_were_run else (yield from _healthy(ask))
    if found.get("failed"):
        return found
    restored = yield Act("restore", {}, ask.turn)
    restored = {**restored, "left_as": words.left_in_restore(restored)}
    if restored.get("ended") == "needs" and not ask.hooks_were_run:
        # Ansible prints nothing for what follows a failure that does not happen, and lines for each step left out.
        return {**restored, "failed": True, "msg": words.runs_hooks(), "next": ["hooks_back"]}
    if _failed(restored):
        return restored
    if not (ask.check or restored.get("phase") == "Active"):
        return {**restored, "failed": True, "msg": "the restore did not finish"}
    # Only now it is known how long its guests were off.
    outage = {key: ms for key, ms in tally(restored.get("vms") or ()).items() if key == "outage_ms"}
    noted = yield ask.note(Stage.DONE, tally=outage)
    if noted.get("failed"):
        return {**restored, **noted}
    if noted.get("roll"):
        yield Act("show", {"lines": [table.host_is_done(noted["roll"], ask.host, restored)]}, ask.turn)
    return {**restored, "event": noted.get("event", {})}


def _home(ask: Asked) -> Acts:
    """VMs that this host moves go back to where they were before the roll, one after the other. One that cannot is
    no failure here: the record knows it, and says so at the end."""
    changed = False
    for number, move in enumerate(ask.moves, 1):
        vm, home = move["vm"], move["home"]
        named = {**_named(vm), "node": move["on"]} if ask.by_name else {"name": vm}
        found = yield Act("move", {**named, "target": home}, {"position": f"back {number}/{len(ask.moves)}"})
        changed = changed or bool(found.get("changed"))
        is_back, why, line = _came_back(found, vm, home)
        yield Act("show", {"lines": [line] if line else []}, ask.turn)
        result = {"state": "came_back", "roll_host": home, "vm": vm, "is_back": is_back, "why": why}
        noted = yield Act("roll", result, ask.turn)
        if _failed(noted):
            return {**noted, "changed": changed}
    return {"changed": changed}


def _named(vm: str) -> dict[str, str]:
    """Options of kubevirt_migration for a VM as table.moved names it."""
    namespace, name, uid = (*vm.split("/"), "")[:3]
    return {"namespace": namespace, "name": name, "uid": uid}


def _came_back(found: Mapping[str, Any], vm: str, home: str) -> tuple[bool, str, str]:
    """(it is there, why it is not and is to be tried again, what is shown). Somebody else's move is not undone."""
    row = (found.get("vms") or [{}])[0]
    called = str(found.get("vm") or "/".join(vm.split("/")[:2]))
    if not _failed(found):
        elsewhere = f"it is on {row.get('at')} now"
        return (True, "", "") if row.get("at") == home else (False, "", words.is_let_be(called, home, elsewhere))
    message = str(found.get("msg") or "it cannot be read").splitlines()[0]
    if row.get("verdict") in _OFF:
        return False, "", words.is_let_be(called, home, "it is off")
    if found.get("error") == "VMNotHere":
        return False, "", words.is_let_be(called, home, message)
    why = f"{row['reason']}: {row['message']}" if row.get("reason") else message
    return False, words.is_not_back(called, home, why), "" if row else words.is_not_back(called, home, why)


def _checked(ask: Asked, fail_on: str, within: int, turn: Mapping[str, Any] | None) -> Acts:
    """The preflight's result, with `not_ready`: why the host is not ready, or empty.

    `fail_on`: the list of the result that must be empty, or `nothing`. `within`: seconds for which it is read again
    while it has blockers of the node: much of what a reboot leaves goes by itself.
    """
    since = said = None
    while True:
        found = yield Act("preflight", {}, turn, 0.0 if since is None else _HEALTH_PAUSE)
        ill = _failed(found) or found.get("node_blockers")
        if not (ill and within):
            return {**found, "not_ready": _not_ready(found, ask.host, fail_on)}
        now = ask.now()
        since = now if since is None else since
        if now - since >= within:
            return {**found, "not_ready": _not_ready(found, ask.host, fail_on)}
        if said is None or now - said >= _SAID_EVERY:
            said, left = now, since + within - now
            why = _codes(found.get("node_blockers", ())) or str(found.get("msg") or "it cannot be read")
            yield Act("show", {"lines": [words.waits_until_healthy(ask.host, why, left)]}, turn)


def _new(found: Mapping[str, Any], shown: Sequence[str]) -> list[str]:
    """Findings that were not shown before; of what only warns, the same of the same host or VM is not new."""
    before = {line.partition(": ")[0] for line in shown}
    blockers = [line for line in found.get("blockers", ()) if line not in shown]
    return blockers + [line for line in found.get("cautions", ()) if line.partition(": ")[0] not in before]


def _not_ready(found: Mapping[str, Any], host: str, fail_on: str) -> str:
    """Its blockers were shown before."""
    if "findings" not in found:
        return f"{host} is not ready: {str(found.get('msg') or '').removeprefix(f'{host} ')}"
    blocking = [] if fail_on == "nothing" else found[fail_on]
    if not blocking:
        return ""
    if len(blocking) == 1:
        return f"{host} is not ready: {blocking[0]}"
    return f"{host} is not ready. See the findings above: {_codes(blocking)}"


def _codes(lines: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(line.split(" ")[1] for line in lines))


def _failed(found: Mapping[str, Any]) -> bool:
    return bool(found.get("failed") or found.get("unreachable"))


_IN_A_ROLL: dict[str, Callable[[Asked], Acts]] = {
    "out": _out,
    "empty": _empty,
    "reboots": _reboots,
    "healthy": _checks,
    "back": _back,
    "home": _home,
}


def next_steps(left: Sequence[str]) -> tuple[Stage, list[str]]:
    """(what an empty host comes to, what has to be done on it then, in this order). `left`: the
    steps that are left, by name. After work it is asked again.
    """
    if Step.WORK.value in left:
        return Stage.AT_WORK, [Step.WORK.value]
    reboot = Step.REBOOT.value in left
    return Stage.REBOOTING if reboot else Stage.CHECKING, [Step.REBOOT.value] if reboot else []
