"""Proofs that a host is off. Pure.

That it does not answer proves nothing. A proof is a power state that somebody read: a fence agent, the user's own
tasks, or a person who says so of the moment at which this host was found dead. Of another kind is that its VMs of
before are gone, whatever its power: it is in the reboot of a roll that emptied it, or it has booted since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from ..model import wall
from ..model.policy import PolicyError
from .looks import CONTROLLER, View

# The options by which a module is given one, see doc_fragments/_recovery.
SPEC: dict[str, Any] = {
    "proof": {"type": "dict", "default": {}},
    "confirm": {"type": "str", "default": ""},
    "said": {"type": "dict", "default": {}},
}
_COUNTS_FOR = 3600.0  # seconds
_FEW = 2  # words
_SAMPLE = "host-a@2026-11-27T14:03:00Z"


class Kind(str, Enum):
    AGENT = "agent"
    TASKS = "tasks"
    PERSON = "person"
    REBOOT = "reboot"
    BOOT = "boot"


GONE = frozenset({Kind.REBOOT, Kind.BOOT})  # no power state was read


@dataclass(frozen=True)
class Proof:
    """`at`: when the power state was read, UTC. `by`: who says it. `how`: by what it was read."""

    kind: Kind
    at: str
    by: str
    how: str

    def to_dict(self) -> dict[str, str]:
        return {**asdict(self), "kind": self.kind.value}

    def __str__(self) -> str:
        if self.kind in GONE:
            return f"free of its earlier VMs, as seen at {self.at}: {self.how} ({self.by})"
        return f"off at {self.at}, by {self.how} ({self.by})"

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Proof:
        """Raises PolicyError for what proves nothing."""
        try:
            kind, texts = Kind(raw.get("kind")), {key: str(raw.get(key) or "") for key in ("at", "by", "how")}
        except ValueError:
            raise PolicyError(
                f"proof.kind is {raw.get('kind')!r}: expected one of {', '.join(kind.value for kind in Kind)}"
            ) from None
        for key, text in texts.items():
            if not text:
                raise PolicyError(f"proof.{key} is missing: expected who read the power state, when and how")
        return cls(kind, **texts)


def confirmed(text: str, host: str, found_dead: str, by: str, now: str) -> Proof:
    """A person's word that a host is off: HOST@TIME, the host and the moment at which it was found dead, as the run
    before printed it. So an old command in the history of a shell proves nothing.

    `found_dead`: that moment; empty: it was not found dead before. `now`: UTC. The word counts for an hour: after that
    the host may have been up in between. Raises PolicyError.
    """
    name, at_sign, moment = text.partition("@")
    if not (name and at_sign and moment):
        raise PolicyError(f"maintenance_confirm_off is {text!r}: expected HOST@TIME, such as {_SAMPLE}")
    if name != host:
        raise PolicyError(f"maintenance_confirm_off is about {name}, and this is {host}: nothing was started")
    if not found_dead:
        raise PolicyError(
            f"maintenance_confirm_off is given, but no earlier run found {host} dead: run without it first, check that"
            " the host is off, then give the time that is printed"
        )
    if moment != found_dead:
        raise PolicyError(
            f"maintenance_confirm_off says {moment}, and {host} was found dead at {found_dead}: check that it is off"
            f" now, then give {host}@{found_dead}"
        )
    if now > wall.after(found_dead, _COUNTS_FOR):
        raise PolicyError(
            f"maintenance_confirm_off says {moment}, which is over an hour ago ({now} now): run without it, check that"
            f" {host} is off, then give the time that is printed"
        )
    return Proof(Kind.PERSON, found_dead, by, "a person, who saw that it is off")


def said_by_tasks(raw: Mapping[str, Any], host: str, now: str) -> Proof:
    """The word of the user's own tasks. `raw`: `tasks`, their file; `said`, what they set; `before`, what stood there
    before they ran, which is not theirs. Raises PolicyError.

    A word such as on, true or off is the state, or nothing: how it was read takes a few.
    """
    tasks, said, before = raw.get("tasks"), raw.get("said"), raw.get("before")
    expected = f"expected how they read that {host} is off, in words, such as: the PDU's outlet 7 reads off"
    if not said:
        raise PolicyError(f"the tasks {tasks} did not set maintenance_off: {expected}. Nothing was started")
    if said == before:
        raise PolicyError(
            f"maintenance_off was {said!r} before the tasks {tasks} ran: only they may set it. Nothing was started"
        )
    if not isinstance(said, str) or len(said.split()) < _FEW:
        raise PolicyError(f"maintenance_off is {said!r}: {expected}. Nothing was started")
    return Proof(Kind.TASKS, now, f"the tasks {tasks}", said)


def in_reboot(emptied: str, now: str) -> Proof | None:
    """`emptied`: when the roll that runs this emptied the host, which has not come back from the reboot that came next;
    empty: it is no such host."""
    how = f"it was empty at {emptied}, and has not come back from its reboot"
    return Proof(Kind.REBOOT, now, "the roll", how) if emptied else None


def has_booted(views: Sequence[View], before: str, now: str) -> Proof | None:
    """A host whose kernel answers, and its libvirtd does not. `before`: its boot id when it was protected."""
    for view in views:
        if view.by == CONTROLLER and view.boot_id and before and view.boot_id != before and view.idle:
            how = f"it has booted since (boot id {view.boot_id}, before {before}), and no QEMU runs there"
            return Proof(Kind.BOOT, now, view.by, how)
    return None


def given_by(params: Mapping[str, Any]) -> dict[str, Any]:
    """The proofs among a module's options: `proof` as a Proof or None, `confirm` and `said`. Raises PolicyError."""
    proof = Proof.from_dict(params["proof"]) if params["proof"] else None
    return {"proof": proof, "confirm": params["confirm"], "said": params["said"]}


def given(
    proof: Proof | None, confirm: str, said: Mapping[str, Any], host: str, found_dead: str, by: str, now: str
) -> Proof | None:
    """Pick the proof that counts from what a run was given; None: there is none.

    A person's confirmation comes first. Raises PolicyError.
    """
    if confirm:
        return confirmed(confirm, host, found_dead, by, now)
    return said_by_tasks(said, host, now) if said else proof


def contradicted(views: Sequence[View]) -> tuple[str, ...]:
    """Guests that show signs of life, whatever a proof says: a BMC that says off may be another host's."""
    return tuple(sorted({guest for view in views for guest in view.guests}))
