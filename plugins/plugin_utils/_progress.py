"""Progress lines: one for each change, and a heartbeat when nothing changed for a while.

Each line passes `plain` once: where it is shown, or where lines become one message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.columns import count
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import IN_POST_COPY, Mode
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.tally import tally
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.tally import words as counted
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import advised
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import table, words

from ._lines import plain, stamped

HEARTBEAT_SECONDS = 15.0
SAYS_WHY_AFTER = 60.0  # s; a phase that lasts so long says for what it waits
# Verdicts with which a VM is not where its last migration wanted it.
_STAYS = frozenset({"blocked", "skipped", "stopped", "saved", "restored"})
# With these it is where it went.
_ARRIVED = frozenset({"moved", "cold_moved"})
_STOPS = frozenset({"shutdown", "save", "cold_migrate"})
# Verdicts that the wanted state does not have.
_UNDONE = frozenset({"blocked", "skipped", "lost", "pending"})
# Of these, with which something is still to be done: not with what the policy keeps here.
_OPEN = _UNDONE - {"skipped"}
# Ways on which a drain leaves a VM as it is, if no migration of it was begun.
_HANDS_OFF = frozenset({"", "block", "skip", "wait", "migrate"})
# What check mode says of each action; one that is not here is named by its code.
_QUEUES = frozenset({"", "WaitingForSlot"})
_EMPTYING = frozenset({"Draining", "Empty", "Drained"})
_SHOWN = 3  # reasons in a heartbeat, VMs of one reason
_WOULD = {
    "cordon": "would be cordoned",
    "uncordon": "would be uncordoned",
    "forget": "would have its record removed",
    "migrate": "would be migrated",
    "watch": "would have its migration followed",
    "abort": "would have its migration aborted",
    "release": "would have its reservation released",
    "finish": "would get its autostart and metadata at the target",
    "mark": "would be marked for evacuation",
    "unmark": "would have its evacuation mark removed",
    "clean_source": "would have its definition removed from its old host",
    "shutdown": "would be shut down",
    "force_off": "would be powered off",
    "save": "would be saved to disk",
    "unsave": "would have its queued save withdrawn",
    "cold_define": "would be defined",
    "cold_undefine": "would have its definition removed here",
    "cold_start": "would be started",
    "cold_withdraw": "would have its definition removed",
    "cold_return": "would be defined again where it ran",
    "start": "would be started",
    "resume": "would be resumed",
    "autostart_off": "would have its autostart disabled",
    "autostart_on": "would have its autostart enabled",
    "adopt": "would have its running migration followed",
    "cancel": "would have its evacuation mark removed",
}


class Progress:
    """Turns the results of slices into lines. `clock` is monotonic, `show` prints one line."""

    def __init__(
        self,
        show: Callable[[str], None],
        clock: Callable[[], float],
        old_news: Iterable[str] = (),
        position: Callable[[], str] | None = None,
        planned: Mapping[str, str] | None = None,
    ) -> None:
        """`old_news`: verdicts that are not worth a line when a VM is first seen with them.
        `position`: says where the host is in its roll now, "2/7, ready 21:03"; None: it is of none.
        `planned`: where the plan of the roll wanted VMs (UUID -> host)."""
        self._planned = planned or {}
        self._position = position
        self._old_news = frozenset(old_news)
        self._show = show
        self._clock = clock
        self._seen: dict[str, tuple[str, ...]] = {}
        self._last = self._since = clock()
        self._phase = ""
        self._findings: set[str] = set()  # reasons that were told of the node
        self._sent: dict[str, tuple[float, float]] = {}  # UUID -> MiB, and since when it is so many

    def update(self, result: Mapping[str, Any]) -> None:
        """Print what is new in this slice's result."""
        news: list[Mapping[str, Any]] = []
        before = result.get("old", {})
        # A first look that finds everything done is no news: the host was drained before.
        nothing_new = not self._seen and result.get("ended") == "final" and not result["changed"]
        single = bool(result.get("vm"))
        for vm in result.get("vms", []):
            key = _key(vm, single)
            if self._seen.get(vm["uuid"]) != key:
                known = vm["uuid"] in self._seen
                self._seen[vm["uuid"]] = key
                # A VM that waits or moves is no news the first time, nor that it is in a queue.
                queued = vm["reason"] in _QUEUES
                waits = vm["verdict"] == "pending" and queued and not (single and vm["phase"] != "Pending")
                old = before.get(vm["uuid"]) == vm["verdict"] or (vm["verdict"] in self._old_news and not vm["reason"])
                old = old and not _too_late(vm)
                quiet = waits or old or nothing_new
                if (known or not quiet) and not _untouched(vm):
                    news.append({**vm, "planned": self._planned.get(vm["uuid"], "")})
        where = f"{result['node']} {_how_far(result)}"
        roll = f" | roll {self._position()}" if self._position else ""
        lines = [f"{where}  {line}{roll}" for line in _lines(news)]
        if self._phase != result["phase"]:
            self._phase, self._since = str(result["phase"]), self._clock()
        found = {str(one["reason"]) for one in result.get("findings", []) if result.get("ended") != "final"}
        new = found - self._findings
        self._findings |= found
        still = self._still(result)
        over = result.get("ended") == "final"  # how it ended is said next
        if not lines and not over and (new or self._clock() - self._last >= HEARTBEAT_SECONDS):
            long = self._clock() - self._since >= SAYS_WHY_AFTER
            lines.append(f"{where}  {heartbeat(result, long, still)}{roll}")
        for line in lines:
            self._show(stamped(plain(line)))
        if lines:
            self._last = self._clock()

    def _still(self, result: Mapping[str, Any]) -> dict[str, float]:
        """UUID -> seconds, of migrations that have sent nothing for a while."""
        now, found = self._clock(), {}
        for vm in filter(_measured, result.get("vms", [])):
            sent, since = vm["progress"]["processed_mib"], now
            if vm["uuid"] in self._sent and self._sent[vm["uuid"]][0] == sent:
                since = self._sent[vm["uuid"]][1]
            self._sent[vm["uuid"]] = sent, since
            if now - since >= SAYS_WHY_AFTER:
                found[vm["uuid"]] = now - since
        return found


def _how_far(result: Mapping[str, Any]) -> str:
    """VMs of the host with which all is done, of all: 14/22; "-" while it waits to begin, and nothing was read."""
    vms = result.get("vms", [])
    counted = f"{sum(vm['verdict'] not in _OPEN for vm in vms)}/{len(vms)}"
    return counted if vms or not result.get("waits_for") else "-"


def _lines(vms: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each; for all that have the same reason in the same words, one together."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for vm in vms:
        key = vm_line({**vm, "name": ""}) if vm["reason"] else vm["uuid"]
        found.setdefault(key, []).append(vm)
    return [vm_line({**those[0], "name": _names(those)}) for those in found.values()]


def _names(vms: Sequence[Mapping[str, Any]]) -> str:
    more = f" and {len(vms) - _SHOWN} more" if len(vms) > _SHOWN else ""
    return ", ".join(str(vm["name"]) for vm in vms[:_SHOWN]) + more


def _untouched(vm: Mapping[str, Any]) -> bool:
    """Restored, and nothing was ever done with it: there is nothing to tell."""
    return (
        vm["verdict"] == "restored"
        and vm.get("way", "") in _HANDS_OFF
        and not vm.get("abort_status")
        and not vm["reason"]
    )


def _key(vm: Mapping[str, Any], single: bool) -> tuple[str, ...]:
    """Key of what is worth printing. For a whole host the percentage of a migration is left to the
    heartbeat. `single`: only this VM is shown."""
    return (vm["verdict"], vm["reason"], *((vm["phase"], vm["target"], vm["mode"]) if single else ()))


def vm_line(vm: Mapping[str, Any]) -> str:
    """One VM in one line: where it goes or went, how, and why."""
    done = vm["verdict"] not in ("pending", "")
    chosen = vm["verdict"] == "cold_moved" or (vm["verdict"] == "moved" and not vm["target"])  # by KubeVirt, its owner
    target = vm["at"] if chosen and vm["at"] else vm["target"]
    to = f" -> {target}" if target and vm["verdict"] not in _STAYS else ""
    # "Running" alone reads as the state of the VM; Pending is also what has no migration yet.
    moves = not done and vm["phase"] != "Pending"
    stops = vm["verdict"] == "pending" and vm.get("way") in _STOPS and vm["reason"] not in _QUEUES
    what = "is to be stopped" if stops else f"migration {vm['phase']}" if moves else _called(vm)
    parts = [f"{vm['name']}{to} {what}"]
    progress = vm.get("progress")
    if _measured(vm) and not done:
        parts[0] += f" {progress['percent']} %"
        parts.append(f"{progress['processed_mib']:.0f}/{progress['total_mib']:.0f} MiB")
        parts.append(f"{progress['rate_mib_s']:.0f} MiB/s")
    if progress and not done and progress.get("eta") is not None:
        parts.append(f"{progress['eta']:.0f} s left")
    if moves and vm.get("mode") == Mode.POST_COPY.value:
        parts.append(IN_POST_COPY)
    if vm["verdict"] == "moved" and vm["duration"]:
        parts[0] += f" {vm['duration']:.1f} s"
    if done and (ms := vm.get("outage_ms")) is not None:
        parts.append(f"pause {table.pause(ms)}" if vm["verdict"] == "moved" else f"off for {ms / 1000:.0f} s")
    if vm["verdict"] in _ARRIVED and vm.get("planned", vm["target"]) not in ("", vm["target"]):
        parts.append(f"the plan had {vm['planned']}")
    parts += vm.get("steps") or []
    if vm["reason"]:
        parts.append(f"{vm['reason']}: {vm['message']}")
    return ", ".join(parts)


def _called(vm: Mapping[str, Any]) -> str:
    """Its verdict for people. Restored is what was off for the drain, and what never left."""
    if vm["verdict"] == "restored" and vm.get("outage_ms") is None:
        return "stays here"
    return str({"cold_moved": "moved cold", "restored": "started again"}.get(vm["verdict"], vm["verdict"]))


def heartbeat(result: Mapping[str, Any], long: bool = False, still: Mapping[str, float] | None = None) -> str:
    """The whole host in one line. `long`: long in this phase, so for what it waits is said. `still`: see `_still`."""
    if result.get("waits_for"):  # nothing was read yet
        return f"{result['phase']}  {result['waits_for']}"
    counts = result.get("counts", {})
    left = sum(counts.get(verdict, 0) for verdict in _OPEN)
    of_them = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("blocked", "lost") if counts.get(verdict))
    text = str(result["phase"])
    if left:
        text += f"  {left} of {count(counts['total'], 'VM')} to go{of_them and f' ({of_them})'}"
    elif counts.get("skipped"):
        one = counts["skipped"] == 1
        text += "  1 VM stays by policy" if one else f"  {counts['skipped']} VMs stay by policy"
    elif result["phase"] in _EMPTYING:
        text += "  no VMs left"
    moving = [vm for vm in result.get("vms", []) if _measured(vm)]
    if moving:
        text += "  " + ", ".join(f"{vm['name']} {vm['progress']['percent']} %" for vm in moving)
        names = {vm["uuid"]: vm["name"] for vm in moving}
        for uuid, seconds in (still or {}).items():
            text += f"  {names[uuid]} has sent nothing for {seconds:.0f} s: see its QEMU's log and virsh domjobinfo"
    waiting = _waiting(result.get("vms", [])) or ([] if moving else _unmeasured(result, long))
    text += "".join(f"  {what}" for what in waiting)
    text += "".join(f"  {found['reason']}: {found['message']}" for found in result.get("findings", [])[:_SHOWN])
    pods = [pod for pod in result.get("pods", []) if pod["verdict"] == "pending"]
    if pods:
        first = ", ".join(f"{pod['name']} {pod['reason']}".strip() for pod in pods[:3])
        text += f"  {count(len(pods), 'pod')} left: {first}"
    woken = sum(vm.get("nudges", 0) for vm in result.get("vms", []) if vm["reason"] == "EvacuationNotStarted")
    if woken:
        text += f"  KubeVirt was reminded of that {'once' if woken == 1 else f'{woken} times'}"
    if long and not (waiting or moving or pods or result.get("findings")):
        text += f"  waits for the next look at {result['node']}: nothing known is in the way"
    return text


def _measured(vm: Mapping[str, Any]) -> bool:
    """Is it known how far its migration is? KubeVirt does not report it."""
    progress = vm.get("progress")
    return bool(progress and progress["total_mib"])


def _waiting(vms: Iterable[Mapping[str, Any]]) -> list[str]:
    """Why VMs wait, each reason once: nothing waits without saying so."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for vm in vms:
        if vm["verdict"] == "pending" and vm["reason"]:
            found.setdefault(vm["reason"], []).append(vm)
    lines = []
    for reason, those in [*found.items()][:_SHOWN]:
        who = those[0]["name"] if len(those) == 1 else f"{len(those)} VMs"
        said = those[0]["message"] if reason in _QUEUES else advised({"remedy": "", **those[0]})
        lines.append(f"{who}: {reason}: {said}".rstrip(": "))
    return lines


_STILL = {"shutdown": "is to shut down", "save": "is to be saved", "cold_migrate": "is to shut down, and is then moved"}


def _unmeasured(result: Mapping[str, Any], long: bool) -> list[str]:
    """Texts on VMs that are left without a known reason, where their memory is not counted: those that move, and with
    `long` those that do not."""
    left = [vm for vm in result.get("vms", []) if vm["verdict"] == "pending"]
    moving = [f"{vm_line(vm)}, begun {vm['start']}" for vm in left if vm.get("start")]
    still = [f"{v['name']} {_STILL.get(v.get('way', ''), 'is queued')}" for v in left if long and not v.get("start")]
    return (moving + still)[:_SHOWN]


def predicted_lines(result: Mapping[str, Any]) -> list[str]:
    """Check mode: a line for each act, and for each VM that is in the way or will be."""
    planned = result.get("planned", [])
    times = {vm["name"]: _times(vm) + _hooks(vm) for vm in result.get("vms", [])}
    lines = []
    for act in planned:
        would = _WOULD.get(act["do"], f"would {act['do']}")
        text = f"{act['vm'] or result['node']}  {would}"
        text += f"  -> {act['target']}" if act["target"] else ""
        lines.append(text + times.get(act["vm"], ""))
    acted_on = {act["vm"] for act in planned}
    for vm in _in_the_way(result.get("vms", [])):
        if vm["name"] not in acted_on or vm["reason"]:
            lines.append(advised({**vm, "message": vm_line(vm)}))
    lines += [f"{f['reason']}: {advised(f)}" for f in result.get("findings", [])]
    return lines


def duration(result: Mapping[str, Any]) -> str:
    """Check mode: how long it would take in total, or for whom that cannot be said; or empty."""
    seconds = result.get("predicted_duration")
    if seconds is None:
        return ""
    acted_on = {act["vm"] for act in result.get("planned", []) if act["vm"]}
    stuck = {*(result.get("would_stay") or ()), *(result.get("predicted_without") or ())}
    if not stuck:
        return f"{result['node']}  about {seconds:.0f} s in total"
    names = ", ".join(sorted(stuck))
    if acted_on <= stuck:
        return f"{result['node']}  no duration: it depends on {names}"
    return f"{result['node']}  about {seconds:.0f} s in total, without {names}"


def _times(vm: Mapping[str, Any]) -> str:
    """The predicted duration and pause of one VM, as the end of its line; empty where none is known."""
    seconds, pause = vm.get("predicted_duration"), vm.get("predicted_pause_ms")
    text = "" if seconds is None else f"  about {seconds:.1f} s"
    return text if pause is None else f"{text}, pause {pause:.0f} ms"


def _hooks(vm: Mapping[str, Any]) -> str:
    """The hooks that would be run for it."""
    return "".join(f"  {hook}: {tasks}" for hook, tasks in vm.get("hooks", {}).items())


def would_not(result: Mapping[str, Any], wanted: str) -> str:
    """Check mode: a sentence if the wanted state would not be reached; else empty."""
    blocked = result["phase"] == "Blocked"
    staying = result.get("would_stay")
    if staying is None:
        vms = result.get("vms", [])
        unwanted = _in_the_way(vms) if blocked else filter(_too_late, vms)
        staying = [vm["name"] for vm in unwanted]
    if not staying and not blocked:
        return ""
    reasons = {vm["name"]: vm["reason"] for vm in result.get("vms", [])}
    why = [f"{name} ({reasons[name]})" if reasons[name] else name for name in staying or ()]
    why += [finding["reason"] for finding in result.get("findings", [])]
    what = _what(result)
    return f"{what} would not become {wanted} because of {', '.join(why)}."


def _what(result: Mapping[str, Any]) -> str:
    return f"VM {result['vm']}" if result.get("vm") else str(result["node"])


def summary(result: Mapping[str, Any], wanted: str) -> str:
    """Why the state was not reached: what is in the way, each reason once, with its remedy."""
    lines = [f"{_what(result)} is {result['phase']}, not {wanted}."]
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for vm in _in_the_way(result.get("vms", [])):
        found.setdefault(_because(vm), []).append(vm)
    lines += [f"{_names(vms)} {where}: {why}" for (where, why), vms in found.items()]
    for finding in result.get("findings", []):
        text = f"{finding['reason']}: {advised(finding)}"
        if not any(line.endswith(text) for line in lines):  # a VM said it already
            lines.append(text)
    return "\n".join(map(plain, lines))


def reached(result: Mapping[str, Any]) -> str:
    """One line for a host that is as it was wanted."""
    node, phase = result["node"], result["phase"]
    if phase == "Active":
        return f"{node} is {words.in_service(result)}"
    if phase != "Drained":
        return f"{node} is {phase.lower()}"
    return f"{node} is drained: {counted(tally(result.get('vms', []))) or 'no VMs'}"


def unanswered(result: Mapping[str, Any], wanted: str) -> str:
    """Which hooks wait, and what has to be done with them."""
    lines = [f"{_what(result)} is {result['phase']}, not {wanted}: hooks wait for an answer."]
    lines += [f"{need['name']}: hook {need['hook']}: {need['tasks']}" for need in result["needs"]]
    state = "drain" if wanted == "Drained" else "restore"
    lines.append(
        f"The role {state} runs them. Without it: run the tasks for each of `needs`, then call "
        f"again with run_id={result['run_id']}, begun=true, and hooks_done as `needs` is."
    )
    return "\n".join(map(plain, lines))


def _in_the_way(vms: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [vm for vm in vms if vm["verdict"] in _UNDONE or _too_late(vm)]


def _too_late(vm: Mapping[str, Any]) -> bool:
    """Its migration was to be aborted, and goes on or has ended."""
    return vm.get("abort_status") == "Failed" and bool(vm["reason"])


def _because(vm: Mapping[str, Any]) -> tuple[str, str]:
    where = f"({vm['verdict']}, on {vm['at'] or '?'})"
    return where, f"{vm['reason']}: {advised(vm)}"
