"""The messages of a roll, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..model.columns import count
from ..model.tally import tally
from ..model.tally import words as counts
from .record import HostEntry, Roll, Stage, State

_ENDINGS = {
    State.ENDED: "has ended",
    State.STOPPED: "was stopped",
    State.PAUSED: "pauses",
    State.REFUSED: "was refused",
}
# Errors that may come after something was changed.
_IN_THE_MIDDLE = frozenset({"KubeError", "AccessDenied", "HostUnreachable", "RollTakenOver", "Superseded"})
HOW_TO_SEE = "Inspect it with the playbook status"
HOW_TO_END = "end it with the playbook abort"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def at_stage(entry: HostEntry) -> str:
    since = "at" if entry.stage is Stage.FAILED else "since"
    return f"{entry.stage.value} {since} {entry.since}" if entry.since else entry.stage.value


def name_of(roll: Roll) -> str:
    who = f" of {roll.requester}" if roll.requester else ""
    return f"roll {roll.id}{who}, begun {roll.begun}"


def _how_far(roll: Roll) -> str:
    """Which hosts are done, which are out, and where they are."""
    done = roll.in_stage(Stage.DONE)
    out = [f"{entry.name} {at_stage(entry)}" for entry in roll.hosts.values() if entry.is_out]
    return f"{len(done)} of {count(len(roll.hosts), 'host')} done; {', '.join(out) or 'none under way'}"


def is_under_way(roll: Roll) -> str:
    return (
        f"A roll already exists for this fleet: {name_of(roll)} ({_how_far(roll)}). "
        f"{HOW_TO_SEE}, {HOW_TO_END}, or take it over with maintenance_take_over=true if its controller is dead."
        " Nothing was done."
    )


def is_kept_elsewhere(roll: Roll, kept_on: Iterable[str]) -> str:
    return (
        f"A roll already exists for this fleet: {name_of(roll)} ({_how_far(roll)}). Its record is on "
        f"{_names(kept_on)}, but this inventory would keep it on other hosts: hosts were added or removed. Continue "
        "or abort it with the hosts that it began with (maintenance_fleet), or start another one beside it with "
        "maintenance_take_over=true. Nothing was done."
    )


def differences(roll: Roll, hosts: Sequence[str], options: Mapping[str, str]) -> str:
    """How another command differs from the one that began the roll; '': it does not."""
    found = []
    if set(hosts) != set(roll.hosts):
        found.append(f"its hosts are {_names(roll.hosts)}, not {_names(hosts)}")
    for name in sorted({*roll.terms.options, *options}):
        old, new = roll.terms.options.get(name, ""), options.get(name, "")
        if old != new:
            found.append(f"its {name} is '{old}', not '{new}'")
    return "; ".join(found)


def is_unfinished(roll: Roll, differs: str) -> str:
    if roll.state is State.ABORTING:
        return (
            f"The abort of {name_of(roll)} did not finish ({_how_far(roll)}). Run the playbook abort again."
            " Nothing was done."
        )
    return (
        f"{name_of(roll)} is not finished ({_how_far(roll)}), and this command differs: {differs}. Run the same"
        f" command to continue it, {HOW_TO_END}, or take it over with maintenance_take_over=true. Nothing was done."
    )


def is_resumed(old: Roll, new: Roll) -> str:
    taken = " taken over" if old.state is State.RUNNING else " resumed"
    gone = [name for name in old.out if name not in new.hosts]
    left = f"; no longer in the fleet, and left as they are: {_names(gone)}" if gone else ""
    return f"roll {new.id}{taken}: {_how_far(old)}{left}"


def no_roll(roll: Roll | None) -> str:
    if roll is None:
        return "there is no roll"
    ended = _ENDINGS.get(roll.state, "was aborted").replace("pauses", "paused")
    return f"there is no roll under way: the last one, {roll.id}, {ended} at {roll.written}"


def aborts(roll: Roll, check: bool = False) -> str:
    is_ = "would be" if check else "is"
    return f"roll {roll.id} {is_} aborted; hosts to restore: {_names(roll.out)}"


def goes_down(hosts: Sequence[str]) -> str:
    return f"May still go down for a reboot that was asked for, so restored in a minute: {_names(hosts)}."


def how_aborted(roll: Roll, gone: Sequence[str] = ()) -> str:
    """`gone`: hosts that were out and are no longer there."""
    if roll.state is State.ABORTED:
        return f"roll {roll.id} was aborted; none of its hosts is out of service" + (
            f" except {_names(gone)}, no longer in the fleet" if gone else ""
        )
    return (
        f"Roll {roll.id} was aborted, but these hosts are not restored: {_names(roll.out)}. Fix the cause, then"
        " run the playbook abort again."
    )


def is_missing() -> str:
    return "The record of the roll was removed, so there is no roll any more. This playbook does nothing more."


def is_taken_over(roll: Roll, run: str) -> str:
    if roll.run == run:
        what = _ENDINGS.get(roll.state, "was aborted")
        return f"Roll {roll.id} {what}. This playbook does nothing more."
    who = f" by {roll.requester}" if roll.requester else ""
    if roll.state in (State.ABORTING, State.ABORTED):
        then = "This playbook does nothing more; the playbook abort restores the hosts that are out."
        return f"Roll {roll.id} was aborted{who}. {then}"
    return f"Roll {roll.id} was taken over{who} at {roll.written}. This playbook does nothing more; nothing was undone."


def is_not_of_it(roll: Roll, host: str) -> str:
    return f"{host} is not part of roll {roll.id}"


def is_done(host: str) -> str:
    return f"{host} is done"


def has_failed(*entries: HostEntry) -> str:
    """`entries`: one, or some that failed in the same stage with the same words."""
    verb = "has" if len(entries) == 1 else "have"
    return f"{_names(entry.name for entry in entries)} {verb} failed {failed_in(entries[0])}"


def failed_in(entry: HostEntry) -> str:
    return f"while {entry.failed_in.value}: {entry.message}" if entry.failed_in else entry.message


def _failures(roll: Roll, told: str) -> list[str]:
    """Each reason once. `told`: a host of which it was said already."""
    alike: dict[tuple[Any, str], list[HostEntry]] = {}
    for entry in roll.hosts.values():
        if entry.stage is Stage.FAILED and entry.name != told:
            alike.setdefault((entry.failed_in, entry.message), []).append(entry)
    return [f"{has_failed(*entries).rstrip('.')}." for entries in alike.values()]


def carries_on(entry: HostEntry) -> str:
    return f"{entry.name} is already out of service ({entry.stage.value}): resuming"


def is_not_proven(entry: HostEntry, stage: Stage) -> str:
    """The refusal of a stage whose previous stage is missing."""
    needs = "its finished restore" if stage is Stage.DONE else "the certificate of its drain"
    return f"{entry.name} cannot be recorded as {stage.value}: it is {at_stage(entry)}, and {needs} is missing"


def is_closed(host: str, failed: Sequence[str], paused: str = "") -> str:
    return (
        f"{host} was not started: {paused}"
        if paused and not failed
        else f"{host} was not started because {_names(failed)} failed"
    )


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def soaks(roll: Roll, host: str, after: str) -> str:
    return f"{host} waits: it starts {minutes(roll.terms.soak)} after {after} (maintenance_soak)"


def pauses_after(host: str) -> str:
    return f"the roll pauses after {host} (maintenance_pause_after)"


def pauses_nowhere(host: str, hosts: Iterable[str]) -> str:
    return f"pause_after is {host}: one of the hosts of the roll is expected, {_names(hosts)}. Nothing was done."


def was_left() -> str:
    return (
        "It was left unfinished: your tasks or a hook lost the connection to it, or ended it with meta (end_host or the"
        " like)"
    )


def comes_later(host: str, ahead: Sequence[str]) -> str:
    return f"{host} waits: {_names(ahead)} comes first"


def is_stopped(roll: Roll, host: str) -> str:
    return f"{host} was not started: {roll.paused or f'roll {roll.id} stopped'}"


def left_as(drain: Mapping[str, Any] | None) -> str:
    """How a host is where something failed. `drain`: what its drain returned; None: it was not called."""
    if drain is None:
        return "nothing was changed"
    if drain.get("phase") == "Drained":
        return "it is empty and stays cordoned, and what was stopped for it stays off"
    if drain.get("error", "KubeError") not in _IN_THE_MIDDLE and not drain.get("changed", True):
        return "the drain reported no change before this error; check mode of the playbook drain shows its VMs"
    counted = counts(tally(drain.get("vms") or ()))
    if counted:
        return f"of its VMs {counted}; it stays cordoned"
    if not drain.get("changed", True):
        return "it may have been changed; run the playbook status to check"
    return "VMs may have moved or been stopped, and it stays cordoned"


def runs_hooks() -> str:
    return "hooks of its VMs are due: running them, then its restore continues"


def in_service(restore: Mapping[str, Any]) -> str:
    """How a host is that was restored. What we gave back is ours alone: others may keep VMs away from it."""
    why = "; ".join(restore.get("closed") or ())
    return f"restored, but it takes no VMs: {why}" if why else "in service again"


def left_in_restore(restore: Mapping[str, Any]) -> str:
    if restore.get("phase") == "Active":
        return f"it is {in_service(restore)}"
    return "its restore began: it may be in service again, and what was stopped for it may still be off"


def next_of_drain(restores: bool) -> str:
    """Tell the user how to go on after a drain, or a restore, that failed on one host that is in no roll."""
    again = "Fix the cause, then run the same command again to continue."
    return again if restores else f"{again} To return the host to service instead, run the playbook restore."


def left_as_before() -> str:
    """The state of a host that was not drained again."""
    return "it stays out of service, as the run before left it"


def is_lost(host: str, why: str = "it does not answer") -> str:
    """The message about an unreachable host in a roll, usually after its reboot."""
    return (
        f"{host} cannot be reached: {why.rstrip('.')}. If it does not come back, the following command starts its VMs"
        " elsewhere, once it is proven to be off: ansible-playbook virtops.maintenance.recover -e"
        f" maintenance_hosts={host}"
    )


def is_silent_quorum_host(host: str, why: str) -> str:
    return f"{host}, a quorum host, cannot be reached: {why.strip()}"


def no_quorum_host_answers(last: str, why: str) -> str:
    return (
        "No quorum host could be reached, so the record of the roll cannot be read. The last one tried is "
        f"{last}: {why.strip()}. When one of them answers, run the same command again."
    )


def waits_until_healthy(host: str, why: str, left: float) -> str:
    """`left`: seconds for which it is waited for."""
    return f"{host} is not healthy yet, waiting {left:.0f} s at most: {why}"


def cannot_be_done(objections: Sequence[str]) -> str:
    """Why a roll was refused before its first host."""
    listed = "".join(f"\n- {one}" for one in objections)
    return f"The roll cannot be done and did not start:{listed}\nNothing was changed."


def waits_for_place(host: str, most: int, out: Mapping[str, str], of: str) -> str:
    """`of`: what the hosts share, "rack r1"; "": the fleet."""
    those = "this one is" if len(out) == 1 else "these are"
    return f"{host} waits: {_may(most, of)} may be out at once, and {those}: {_with_reasons(out)}"


def waits_for_targets(host: str, away: Mapping[str, str]) -> str:
    return f"{host} waits: the plan moves its VMs to {_with_reasons(away)}"


def reboots_later(host: str, first: Sequence[str]) -> str:
    verb = "has" if len(first) == 1 else "have"
    return f"{host} waits to reboot until {_names(first)} {verb} rebooted: too few quorum hosts would answer"


def no_place(host: str, most: int, out: Mapping[str, str], of: str) -> str:
    variable = "maintenance_max_unavailable_per" if of else "maintenance_max_unavailable"
    return (
        f"{host} was not started: {_may(most, of)} may be out at once ({variable}), and nobody is working on those"
        f" that are: {_with_reasons(out)}. Restore them, raise the number, or ignore hosts that others took out with"
        " maintenance_count_others=false."
    )


def _may(most: int, of: str) -> str:
    return count(most, "host") + (f" of {of}" if of else "")


def _with_reasons(out: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({why})" for name, why in out.items())


def is_in_no_group(unknown: Iterable[tuple[str, str]]) -> str:
    listed = ", ".join(f"{key} of {host}" for host, key in unknown)
    return (
        f"maintenance_max_unavailable_per: no value for {listed}. Expected a label of the host"
        " (maintenance_labels; on KubeVirt of the Node) or a variable of that name in the inventory."
        " Nothing was done."
    )


def belongs_to(roll: Roll, entry: HostEntry) -> str:
    return (
        f"{entry.name} belongs to {name_of(roll)}; there it is {at_stage(entry)}. {HOW_TO_SEE}, or {HOW_TO_END}."
        " Nothing was done."
    )


def lies(roll: Roll, host: str) -> str:
    """The warning about an unfinished roll, for a single drain or restore outside it."""
    how = {State.STOPPED: "has stopped", State.PAUSED: "is paused"}.get(roll.state, "lost its playbook")
    of_it = (
        f"{host} is one of its hosts, but this run is not part of it"
        if host in roll.hosts
        else "This run is not part of it"
    )
    return (
        f"{name_of(roll)}, {how} and is not finished ({_how_far(roll)}). {of_it}. To continue the roll, run its command"
        f" again; else {HOW_TO_END}."
    )


def result(roll: Roll, told: str = "") -> str:
    """How the roll ended, what is done, what is out, and what to type. `told`: a host of which it is said why it
    failed."""
    if roll.state is State.ENDED:
        return f"roll {roll.id} ended: {_names(roll.hosts)} done"
    if roll.state is State.PAUSED:
        return (
            f"roll {roll.id} is paused: {roll.paused}. Done: {_names(roll.in_stage(Stage.DONE))}. Left: "
            f"{_names(roll.in_stage(Stage.WAITING))}. No host is out of service. Run the same"
            f" command to continue, or {HOW_TO_END}."
        )
    if all(entry.stage is Stage.DONE for entry in roll.hosts.values()):
        return _not_back(roll)
    return " ".join(
        [
            f"Roll {roll.id} stopped. Done: {_names(roll.in_stage(Stage.DONE))}. Out: {_names(roll.out)}. Not begun: "
            f"{_names(roll.in_stage(Stage.WAITING))}.",
            *_failures(roll, told),
            "Fix the cause, then run the same command again to continue. To restore the hosts that are out instead,"
            " run the playbook abort.",
        ]
    )


def _not_back(roll: Roll) -> str:
    """The message of a roll whose hosts are all done, but whose VMs are not all back."""
    left = [entry for entry in roll.hosts.values() if entry.going_back]
    named = ", ".join(f"{len(entry.going_back)} of {entry.name}" for entry in left)
    why = [f"{entry.message}." for entry in left if entry.message]
    return " ".join(
        [
            f"Roll {roll.id}: all hosts are done, but some VMs are not back where they were: {named}.",
            *why,
            f"Run the same command again to move them back, or {HOW_TO_END}, which leaves them where they are.",
        ]
    )


def goes_back(moves: Sequence[Mapping[str, str]]) -> str:
    """`moves`: VMs that are to go back to where they were."""
    if not moves:
        return ""
    goes, where = (" goes", "it was") if len(moves) == 1 else ("s go", "they were")
    return f"all hosts are done; {len(moves)} VM{goes} back to where {where}"


def is_not_back(vm: str, home: str, why: str) -> str:
    return f"{vm} is not back on {home}: {why.strip().rstrip('.')}"


def is_let_be(vm: str, home: str, why: str) -> str:
    return f"{vm} was not moved back to {home}: {why.strip().rstrip('.')}"
