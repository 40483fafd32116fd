"""How far a roll and each host of a fleet are, and what came of an abort: rows for programs, a table for people. Pure.

What becomes of a VM comes from what the modules say that read a host (virt_host_info,
kubevirt_node_info): the drain's own record, and its decision on what is there now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..model.columns import columns
from ..model.observation import IN_POST_COPY, Mode
from ..model.record import Intent
from ..model.tally import tally, undone
from ..model.wall import between
from ..reasons.reason import advised
from . import notifications, rules, words
from .record import AT_REST, OVER, OWN_DRAIN, Fleet, HostEntry, Roll, Stage, State
from .rules import Answer
from .table import in_order, long

Row = dict[str, Any]
_STATES = {"moved": "left", "cold_moved": "left", "stopped": "stopped", "saved": "stopped", "restored": "back"}
# Stages of hosts that the roll does not have out; empty: not of it.
_NOT_OUT = ("", *(stage.value for stage in AT_REST))
_TASK = "Task failed: "  # Ansible's, before the reason
_STAGES = {Intent.DRAINED.value: "draining", Intent.ACTIVE.value: "restoring"}
_ASKED = {Intent.DRAINED.value: "drain", Intent.ACTIVE.value: "restore"}
# Phases of what has no migration under way.
_STILL = ("", "Pending", "Failed", "Succeeded")
# On a host in one of these something of the user's may be under way that no abort ends.
_BUSY = {
    Stage.AT_WORK.value: "your tasks may still be running there",
    Stage.REBOOTING.value: "its reboot may still happen",
}


def rows(roll: Roll | None, fleet: Fleet, now: str) -> list[Row]:
    """The hosts of the roll as they were taken out, then the others of the fleet. `now`: UTC."""
    of_the_roll = {} if roll is None else roll.hosts
    order = [entry["name"] for entry in in_order([vars(entry) for entry in of_the_roll.values()])]
    found = [_row(of_the_roll[name], roll, fleet, now) for name in order if roll is not None]
    for name in sorted({*fleet.hosts, *fleet.out, *fleet.left}):
        if name not in of_the_roll:
            out = fleet.out.get(name, "")
            found.append(_plain_row(name, "", "", bool(out), out))
    for row in found:
        if row["name"] in fleet.left:
            row["message"] = "; ".join(filter(None, [row["message"], fleet.left[row["name"]]]))
    return found


def _plain_row(name: str, stage: str, since: str, out: bool, message: str) -> Row:
    return {"name": name, "stage": stage, "since": since, "out": out, "message": message}


def _row(entry: HostEntry, roll: Roll, fleet: Fleet, now: str) -> Row:
    by_others = "" if entry.is_out else fleet.out.get(entry.name, "")
    if entry.stage in (Stage.WAITING, Stage.GIVEN_BACK) and roll.state in OVER:  # its turn never comes
        return _plain_row(entry.name, "", "", bool(by_others), by_others)
    if entry.stage is Stage.FAILED:
        message = words.failed_in(entry)
    elif entry.stage is Stage.WAITING and roll.state is State.RUNNING:
        verdict = rules.turn(roll, entry.name, fleet, "", now)
        message = "" if verdict.answer is Answer.GO else verdict.message.partition(" ")[2]
    else:
        message = entry.message or by_others
    out = entry.is_out or bool(by_others)
    if entry.stage is Stage.WAITING and roll.state is State.STOPPED:  # it waits for nothing that comes by itself
        return _plain_row(entry.name, entry.stage.value, "", out, message or "not begun")
    return _plain_row(entry.name, entry.stage.value, entry.since, out, message)


def report(found: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]]) -> Row:
    """`found`: the record as a module has read it, with rows. `infos`: of the hosts that are out.

    `lines` is the table for people.
    """
    roll = found.get("roll")
    hosts = [_with_vms(row, infos.get(row["name"])) for row in found.get("hosts") or ()]
    unreadable = str(found.get("unreadable") or "")
    elsewhere = found.get("elsewhere")
    read = str(found.get("read") or "")
    following = [str(elsewhere)] if elsewhere else _next(roll, hosts, unreadable, read, bool(found.get("left")))
    known = _as_known(roll, read, bool(found.get("left")))
    lines = [*_head(known, unreadable, read), *_table(hosts, read), *following]
    return {
        "roll": roll,
        "hosts": hosts,
        "unreadable": unreadable,
        "next": following,
        "lines": lines,
        "stats": notifications.of_roll(known, bool(unreadable)),
    }


def _as_known(roll: Mapping[str, Any] | None, read: str, left: bool) -> Mapping[str, Any] | None:
    """A roll that nobody carries on has stopped, whether or not somebody could write that into its record."""
    return {**roll, "state": State.STOPPED.value} if roll is not None and _is_left(roll, read, left) else roll


def _is_left(roll: Mapping[str, Any], read: str, left: bool) -> bool:
    """`left`: it is known that its playbook has ended."""
    return roll["state"] == State.RUNNING.value and (left or _age(roll["written"], read) > rules.LEFT_AFTER)


def _with_vms(row: Row, info: Mapping[str, Any] | None) -> Row:
    """`maintenance`: who drains it, and why. `vms`: None where they were not read."""
    record = (info or {}).get("record")
    row = {**row, "maintenance": record, "vms": None, "error": ""}
    if info is None:
        return row
    if info.get("unreachable") or info.get("failed") or "vms" not in info:
        why = str(info.get("msg") or "no answer").strip().splitlines()[0]
        why = why[len(_TASK) :] if why.startswith(_TASK) else why
        cut = "cannot be reached: " if info.get("unreachable") else "cannot be read: "
        return {**row, "error": cut + why}
    back = record is not None and record["intent"] == "active"
    stays = {vm["uuid"]: vm for vm in record["stays"]} if record and record["blocked"] else {}
    return {**row, "vms": [_vm(vm, back, stays.get(vm["uuid"])) for vm in info["vms"]]}


def _vm(vm: Mapping[str, Any], back: bool, stays: Mapping[str, Any] | None) -> Row:
    """`back`: the host is being given back, so what is there stays there. `stays`: why the last run left it, which has
    ended: what another one would do with it is not said."""
    kept = ("name", "phase", "mode", "target", "at", "reason", "message", "remedy")
    progress = vm.get("progress") or {}
    percent = progress.get("percent") if progress.get("total_mib") else None
    state = _STATES.get(vm["verdict"], vm["verdict"])
    if vm["verdict"] == "pending":
        state = "moving" if vm["phase"] not in _STILL else "back" if back else "waiting"
    if stays is not None and state in ("waiting", "back"):
        vm, state = {**vm, **stays, "name": vm["name"]}, "blocked"
    return {"state": state, "percent": percent, **{key: vm[key] for key in kept}}


def _age(since: str, read: str) -> float:
    """Seconds from this time of the record until it was read. Their clocks may be two."""
    return max(0.0, between(since, read))


def _head(roll: Mapping[str, Any] | None, unreadable: str, read: str) -> list[str]:
    if unreadable:
        return [unreadable]
    if roll is None:
        return [words.no_roll(None)]
    who = f" of {roll['requester']}" if roll["requester"] else ""
    why = f", {roll['reason']}" if roll["reason"] else ""
    line = f"roll {roll['id']}{who}{why}: {roll['state']}, begun {roll['begun']}"
    refused = [f"It was refused: {roll['paused']}"] if roll["state"] == State.REFUSED.value and roll["paused"] else []
    return [f"{line}, last updated {roll['written']} ({long(_age(roll['written'], read))} ago)", *refused]


def _table(hosts: Sequence[Row], read: str) -> list[str]:
    """A line for each host of which there is something to say, with its VMs below; one for the rest."""
    shown = [row for row in hosts if _says_something(row)]
    rest = [row["name"] for row in hosts if not _says_something(row)]
    cells = [(row["name"], *_stage(row, read), _about(row)) for row in shown]
    lines = []
    for row, text in zip(shown, columns(cells)):
        lines.append(text)
        lines += [f"  {line}" for line in _vm_lines(row["vms"] or ())]
    if rest:
        lines.append(f"in service: {', '.join(rest)}")
    return lines


def _stage(row: Row, read: str) -> tuple[str, str]:
    """How far the roll is with it, or its own drain, and since when."""
    stage, since, word = row["stage"], row["since"], "since"
    if _of_its_own(row):
        stage, record = _own_stage(row), row["maintenance"]
        since, word = (record["blocked"], "since") if stage == "blocked" else (record["started"], "begun")
    return stage or "-", f"{word} {since} ({long(_age(since, read))})" if since else "-"


def _of_its_own(row: Row) -> bool:
    return row["maintenance"] is not None and row["stage"] in _NOT_OUT


def _own_stage(row: Row) -> str:
    """The stage of a drain or restore outside the roll: as its last run recorded it, or interrupted."""
    drains = row["maintenance"]["intent"] == Intent.DRAINED.value
    if drains and _is_empty(row):
        return "empty"
    if row["maintenance"]["blocked"]:
        return "blocked"
    intent = str(row["maintenance"]["intent"])
    return _STAGES.get(intent, intent)


def _says_something(row: Row) -> bool:
    return bool(row["stage"] or row["out"] or row["message"])


def _about(row: Row) -> str:
    own = row["message"] == OWN_DRAIN and _of_its_own(row)  # who asked for it says more
    about = [row["error"], "" if own else row["message"], _asked(row), _counts(row["vms"])]
    return "; ".join(part for part in about if part)


def _asked(row: Row) -> str:
    """Who asked for a drain outside the roll, and why."""
    record = row["maintenance"]
    if not _of_its_own(row):
        return ""
    who = f" by {record['requester']}" if record["requester"] else ""
    why = f" ({record['reason']})" if record["reason"] else ""
    left = record["left"] and _own_stage(row) in _STAGES.values()
    ended = ", whose playbook was interrupted" if left else ""
    return f"{_ASKED.get(record['intent'], record['intent'])}{who}{why}, not part of a roll{ended}"


def _counts(vms: Sequence[Row] | None) -> str:
    if vms is None:
        return ""
    counted: dict[str, int] = {}
    for vm in vms:
        counted[vm["state"]] = counted.get(vm["state"], 0) + 1
    # "2 left" would read as two that are still there.
    what = ", ".join(f"{number} {'moved away' if state == 'left' else state}" for state, number in counted.items())
    return f"VMs: {what}" if what else "no VMs"


def _vm_lines(vms: Sequence[Row]) -> list[str]:
    """One for each that moves; those that wait or stay for the same reason together."""
    lines = [_moving(vm) for vm in vms if vm["state"] == "moving"]
    found: dict[str, list[str]] = {}
    for vm in vms:
        if vm["state"] in ("left", "back", "moving"):
            continue
        why = ": its migration is not requested yet" if vm["state"] == "waiting" else ""
        if vm["reason"]:
            why = f": {vm['reason']}: {advised(vm)}"
        found.setdefault(f"{vm['state']}{why}", []).append(vm["name"])
    return lines + [f"{', '.join(names)}  {text}" for text, names in found.items()]


def _moving(vm: Row) -> str:
    percent = f" {vm['percent']} %" if vm["percent"] is not None else ""
    target = f" -> {vm['target']}" if vm["target"] else ""
    mode = f", {IN_POST_COPY}" if vm["mode"] == Mode.POST_COPY.value else ""
    why = f"  {vm['reason']}: {vm['message']}" if vm["reason"] else ""
    return f"{vm['name']}  migration {vm['phase']}{percent}{target}{mode}{why}"


def _next(roll: Mapping[str, Any] | None, hosts: Sequence[Row], unreadable: str, read: str, left: bool) -> list[str]:
    """Say what the user can do next, a sentence each. `left`: it is known that the roll's playbook has ended."""
    halves = [
        f"Do not reboot or cut off {row['name']} or {vm['target'] or 'its target'}: {vm['name']} is on both until it "
        "has moved (post-copy)."
        for row in hosts
        for vm in row["vms"] or ()
        if vm["state"] == "moving" and vm["mode"] == Mode.POST_COPY.value
    ]
    return halves + _next_commands(roll, hosts, unreadable, read, left)


def _next_commands(
    roll: Mapping[str, Any] | None, hosts: Sequence[Row], unreadable: str, read: str, left: bool
) -> list[str]:
    if unreadable:
        return ["Repair the connection to these hosts, then run the playbook status again."]
    state = "" if roll is None else roll["state"]
    found = [_OF_A_ROLL[state]] if state in _OF_A_ROLL else []
    if roll is not None and _is_left(roll, read, left):
        found = [_ENDED if left else _LEFT]
    own = {host["name"] for host in (roll or {}).get("hosts", ())} if found else set()
    alone = [row for row in hosts if row["maintenance"] and row["name"] not in own]
    empty = [row["name"] for row in alone if _is_empty(row)]
    others = [row["name"] for row in alone if row["name"] not in empty]
    if others:
        found.append(
            f"To continue the drain of {', '.join(others)}, run the playbook drain again; to undo it, run the "
            "playbook restore."
        )
    if empty:
        found.append(f"No VM runs on {', '.join(empty)}. To return it to service, run the playbook restore.")
    return found


def _is_empty(row: Row) -> bool:
    """Whether no VM was read there now. Only the drain itself can certify that."""
    drains = row["maintenance"]["intent"] == Intent.DRAINED.value
    return drains and row["vms"] is not None and all(vm["state"] in ("left", "stopped") for vm in row["vms"])


_LEFT = (
    "Its playbook has not updated the record for more than a minute: it was killed, or its controller is dead. Run the"
    " same command again to continue, or run the playbook abort."
)
_ENDED = "Its playbook was killed. Run the same command again to continue, or run the playbook abort."
_OF_A_ROLL = {
    State.RUNNING.value: "It continues by itself: its playbook is running. Run the playbook abort to end it.",
    State.PAUSED.value: "It is paused, as requested: run the same command to continue, or run the playbook abort.",
    State.STOPPED.value: "Run the same command again to continue, or run the playbook abort.",
    State.ABORTING.value: "If no abort is running, run the playbook abort again.",
}


def aborted(
    roll: Mapping[str, Any] | None, out: Sequence[str], restores: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """`roll`: as the abort found it. `out`: its hosts that were out. `restores`: results by host.

    `lines` is the same for people.
    """
    stages = {host["name"]: host["stage"] for host in (roll or {}).get("hosts", ())}
    hosts, vms, lines = [], [], []
    for name in out:
        found = restores.get(name, {})
        back = found.get("phase") == "Active"
        closed = [words.in_service(found).removeprefix("restored, but ")] if found.get("closed") else []
        busy = [*closed, *filter(None, [_BUSY.get(stages.get(name, ""), "")])]
        why = "; ".join(busy) if back else str(found.get("msg") or "no answer")
        hosts.append({"name": name, "stage": stages.get(name), "given_back": back, "message": why})
        first, *more = why.splitlines() or [""]
        lines.append(f"{name}  {'' if back else 'not '}restored{': ' if first else ''}{first}")
        lines += [f"  {line}" for line in more]
        outcomes = found.get("outcomes") or []
        vms += [{"host": name, **vm} for vm in outcomes]
        lines += [f"  {', '.join(names)}: {text}" for text, names in _by_message(outcomes).items()]
    given_back = [name for name in out if restores.get(name, {}).get("phase") == "Active"]
    stats = notifications.of_roll(_with_tallies(roll, restores), given_back=given_back)
    return {"roll": roll, "hosts": hosts, "vms": vms, "lines": lines, "stats": stats}


def _with_tallies(
    roll: Mapping[str, Any] | None, restores: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Add the tallies of drains that the abort interrupted, taken from their restores."""
    if roll is None:
        return None
    found = {name: tally(undone(restored)) for name, restored in restores.items() if restored.get("vms")}
    hosts = [{**host, "tally": found.get(host["name"], host.get("tally") or {})} for host in roll["hosts"]]
    return {**roll, "hosts": hosts}


def _by_message(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for vm in outcomes:
        found.setdefault(vm["message"], []).append(vm["name"])
    return found
