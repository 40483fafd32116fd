"""A Node of Kubernetes that died: how it looks, the record of its recovery, what becomes of its VMs. Pure.

Kubernetes starts them elsewhere, once the taint out-of-service says that the node is off: its pods are deleted without
a word of its kubelet. So the taint is what needs the proof.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

from ..model import wall
from ..model.policy import PolicyError
from ..model.record import RecordError
from .looks import Judgement, Looks
from .proof import Proof
from .told import in_status

SCHEMA = 1
# virt-handler reports every 60 to 132 s (KubeVirt: pkg/virt-handler/heartbeat). So many seconds after the kubelet went
# silent it would have reported again, and the kubelet, which does so every 10 s, too.
HEARTBEAT_DUE = 140.0
# Seconds for which one run watches VMs: pods are collected within 20 s of the taint, and a guest boots.
TIMEOUT = 600.0
_STARTED = ("Manual", "Once")  # run strategies of VMs that somebody has started, and would again
RECOVERING = "Recovering"  # the phase of a run that goes on


@dataclass(frozen=True)
class NodeSeen:
    """`ready`: status of its condition Ready, `since` that time. `beat`: virt-handler's last heartbeat, `newest` that
    of all nodes, by which time is told. `lease`: when its kubelet renewed its Lease last. Times are seconds since the
    epoch, 0 where there is none; `at`: `since` in UTC. `pods_ready` of its `pods` are Ready."""

    name: str
    ready: str
    since: float
    at: str
    beat: float
    newest: float
    boot_id: str
    lease: float = 0.0
    pods: int = 0
    pods_ready: int = 0

    def __str__(self) -> str:
        """Each view with its time."""
        found = [f"its condition Ready is {self.ready}{f' since {self.at}' if self.at else ''}"]
        found += [f"its kubelet renewed the Lease at {wall.of(self.lease)}"] if self.lease else []
        found += [f"its virt-handler reported at {wall.of(self.beat)}"] if self.beat else []
        found += [f"{self.pods_ready} of its {self.pods} pods are Ready"] if self.pods else []
        return ", ".join(found)


@dataclass(frozen=True)
class Watched:
    """What the first slice of a run saw of the node's own reports, `lease` and `beat` as in NodeSeen, and how many
    `seconds` ago that was. 0: it saw none, or this is the first."""

    lease: float = 0.0
    beat: float = 0.0
    seconds: float = 0.0

    def of_next(self, seen: NodeSeen) -> dict[str, float]:
        """For the next slice, which has its own seconds."""
        return {"lease": self.lease or seen.lease, "beat": self.beat or seen.beat}


NOT_WATCHED = Watched()


def judge_node(seen: NodeSeen, watched: Watched = NOT_WATCHED) -> Judgement:
    """How it looks by its condition, by its kubelet's Lease and by virt-handler's heartbeat. Its pods' readiness is
    told, and decides nothing: Kubernetes makes it from the condition of the node."""
    judged = _judge(seen, watched)
    return replace(judged, text=f"{judged.text} Seen: {seen}.")


def _judge(seen: NodeSeen, watched: Watched) -> Judgement:
    name, at = seen.name, seen.at or "an unknown time"
    if seen.ready == "True":
        return Judgement(Looks.ALIVE, f"{name} is alive: it is Ready{f' since {seen.at}' if seen.at else ''}.")
    if seen.ready != "Unknown":
        return Judgement(
            Looks.NOT_READY, f"{name} is alive, but has not been Ready since {at}: its own kubelet says so."
        )
    # Only a report that changes is a sign of life: its time is that of the node's own clock, which may be ahead.
    if watched.lease and seen.lease not in (0.0, watched.lease):
        return Judgement(Looks.NOT_READY, f"{name} is alive: its kubelet has renewed its Lease since {at}.")
    if watched.beat and seen.beat not in (0.0, watched.beat):
        text = f"{name}'s kubelet has been silent since {at}, but its virt-handler has not: its guests may be running."
        return Judgement(Looks.KUBELET_DEAD, text)
    silent = f"{name}'s kubelet has been silent since {at}"
    if watched.seconds < HEARTBEAT_DUE and max(seen.lease, seen.beat) > seen.since:
        what = "its Lease" if seen.lease > seen.since else "virt-handler's report"
        text = f"{silent}, but {what} has a later time, by its own clock. It takes up to three minutes to see whether"
        return Judgement(Looks.NOT_KNOWN, f"{text} that changes.")
    if max(watched.seconds, seen.newest - seen.since) < HEARTBEAT_DUE:
        text = f"{silent}. It takes up to three minutes to see whether its virt-handler is silent too."
        return Judgement(Looks.NOT_KNOWN, text)
    age = f"; the kubelet's Lease is {max(0.0, seen.newest - seen.lease):.0f} s old" if seen.lease else ""
    text = f"{name} is probably dead: its kubelet and its virt-handler have been silent since {at}{age}."
    return Judgement(Looks.PROBABLY_DEAD, text)


@dataclass(frozen=True)
class Guest:
    """A VM as it was on the node. `uid`: of its instance. `stays`: why nothing starts it again; empty: KubeVirt
    does. `strategy`: its run strategy, empty without a VirtualMachine."""

    namespace: str
    name: str
    uid: str
    stays: str = ""
    strategy: str = ""


def why_it_stays(namespace: str, name: str, bare: bool, restarts: bool, strategy: str) -> str:
    """Why nothing starts a VM again once its instance has failed; empty: KubeVirt does. `bare`: nobody made the
    instance; `restarts`: who made it creates another one."""
    if bare:
        return "It has no VirtualMachine, so its definition goes with its instance. Create it again."
    if restarts:
        return ""
    if strategy == "Once":
        return (
            "Its run strategy is Once: nothing starts it again. KubeVirt does once its instance is deleted: "
            f"kubectl delete vmi {name} -n {namespace}"
        )
    return f"Its run strategy is {strategy}: nothing starts it again. Start it: virtctl start {name} -n {namespace}"


@dataclass
class NodeRecovery:
    """The record of a recovery, kept on the Node. `boot_id`: as it was when it was found dead. `cordoned`: by us.
    `told`: the phase that its last Event has."""

    run: str = ""
    requester: str = ""
    reason: str = ""
    found_dead: str = ""
    boot_id: str = ""
    cordoned: bool = False
    proof: Proof | None = None
    vms: list[Guest] = field(default_factory=list)
    told: str = ""

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "schema": SCHEMA, "proof": self.proof.to_dict() if self.proof else None})

    @classmethod
    def from_json(cls, text: str) -> NodeRecovery:
        """Raises RecordError."""
        try:
            raw: dict[str, Any] = json.loads(text)
            if raw.pop("schema") != SCHEMA:
                raise RecordError(
                    f"the record of a recovery does not have schema {SCHEMA}, the one that this version knows"
                )
            proof = Proof.from_dict(raw["proof"]) if raw["proof"] else None
            return cls(**{**raw, "proof": proof, "vms": [Guest(**vm) for vm in raw["vms"]]})
        except (ValueError, KeyError, TypeError, AttributeError, PolicyError) as exc:
            raise RecordError(f"the record of a recovery cannot be read: {exc!r}") from exc


class Verdict(str, Enum):
    RUNS = "runs"
    WAITS = "waits"
    STAYS = "stays"


@dataclass(frozen=True)
class GuestNow:
    """`old`: its instance of before is still there. `off`: it has none, and none was asked for. `at`: where another one
    runs. `waits`: why none runs yet, in words; `gone`: its VirtualMachine was deleted. `held`: its volumes that are
    still attached to the node of before."""

    guest: Guest
    old: bool = False
    at: str = ""
    waits: str = ""
    gone: bool = False
    held: tuple[str, ...] = ()
    off: bool = False


@dataclass(frozen=True)
class GuestRow:
    """`start`: it is to be started now."""

    guest: Guest
    verdict: Verdict
    target: str = ""
    message: str = ""
    start: bool = False


def become(node: str, now: Sequence[GuestNow], over: bool, starts: bool = False) -> list[GuestRow]:
    """A row for each VM: what became of it. `over`: nobody waits for it any more. `starts`: VMs that nothing starts
    again are started by the run itself."""
    return [_row(node, one, over, starts) for one in now]


def _row(node: str, one: GuestNow, over: bool, starts: bool) -> GuestRow:
    guest, name = one.guest, f"{one.guest.namespace}/{one.guest.name}"
    if one.at:
        return GuestRow(guest, Verdict.RUNS, one.at)
    if one.gone and not one.old:
        return GuestRow(guest, Verdict.RUNS, "", f"{name} has since been deleted.")
    if one.old and not over:
        return GuestRow(guest, Verdict.WAITS, "", f"{name}: its instance on {node} is not gone yet")
    if one.old:
        return GuestRow(guest, Verdict.STAYS, "", f"its instance on {node} is still there. Check its pod.")
    if guest.stays and not (starts and guest.strategy in _STARTED):
        return GuestRow(guest, Verdict.STAYS, "", guest.stays)
    waits = one.waits or "It is not started."
    if one.held:
        waits = f"{', '.join(one.held)} is still attached to {node}, and it waits until that is detached. {waits}"
    if over and one.held:
        waits = f"{waits} Check the VolumeAttachment and the CSI driver."
    if over:
        return GuestRow(guest, Verdict.STAYS, "", f"{waits} Run recover again to watch it.")
    return GuestRow(guest, Verdict.WAITS, "", f"{name}: {waits}", start=bool(guest.stays) and one.off)


def phase_of(rows: Sequence[GuestRow], acts: bool) -> str:
    """How far it is. What only looks waits for nothing."""
    verdicts = {row.verdict for row in rows}
    if acts and Verdict.WAITS in verdicts:
        return RECOVERING
    return "Blocked" if Verdict.STAYS in verdicts else "Recovered"


def may_write(judged: Judgement, known: NodeRecovery | None) -> bool:
    """May this run have to write to the Node?"""
    return judged.may_be_fenced or known is not None


def carried_on(known: NodeRecovery | None, seen: NodeSeen, tainted: bool) -> bool:
    """Is there nothing more to prove? The taint is there by a proof, and the node was not seen with another boot."""
    return bool(known and known.proof and tainted and known.boot_id == seen.boot_id)


def may_serve(known: NodeRecovery, seen: NodeSeen) -> bool:
    """A node that is Ready again: did it boot since? Else it was never off, whatever was said."""
    return seen.boot_id != known.boot_id


def told(notes: Mapping[str, str], key: str, host: str) -> str:
    """The sentence on a node's recovery for the playbook status, from the node's annotations; empty: there is none."""
    try:
        known = read(notes, key)
    except RecordError as exc:
        return str(exc)
    if known is None:
        return ""
    return in_status(host, known.found_dead, known.proof, sum(not vm.stays for vm in known.vms))


def read(notes: Mapping[str, str], key: str) -> NodeRecovery | None:
    """Read the record from the annotations of a Node. Raises RecordError."""
    return NodeRecovery.from_json(notes[key]) if notes.get(key) else None
