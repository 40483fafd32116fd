"""Which host is dead, and which only cannot be reached. Pure.

Each observer says what it saw of the host, with its time. Put together they tell how the host looks; none of that is
a proof that it is off (see `proof`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

CONTROLLER = "controller"  # the name of the view by Ansible's own connection
# So many peers have to look, if there are so many: one that is cut off itself sees all others dead.
LEAST = 2


class Looks(str, Enum):
    """How a host looks. Only in the last two may it be fenced, and only with a proof are its VMs started elsewhere."""

    ALIVE = "Alive"
    LIBVIRT_DEAD = "LibvirtDead"  # the host answers, its libvirtd does not: its guests may live
    CUT_OFF_FROM_CONTROLLER = "CutOffFromController"  # its peers reach it
    CUT_OFF = "CutOff"  # nobody reaches it, and its guests show signs of life
    PROBABLY_DEAD = "ProbablyDead"
    NOT_KNOWN = "NotKnown"  # too few looked, or not for long enough
    # Of a Node of Kubernetes
    NOT_READY = "NotReady"  # its kubelet says so itself
    KUBELET_DEAD = "KubeletDead"  # its virt-handler reports: its guests may live


MAY_BE_FENCED = frozenset({Looks.CUT_OFF, Looks.PROBABLY_DEAD})


@dataclass(frozen=True)
class View:
    """The view of one observer. `by`: CONTROLLER or the name of a peer. `at`: UTC.

    `answers`: the host's kernel answered, if only to refuse. `libvirt`: its libvirtd answered. `guests`: names of its
    VMs that show signs of life, with the sign. `text`: what was tried and what came of it. `looked` False: it could
    not, and `text` says why. `boot_id`: the host's, as the controller read it; `idle`: it saw that no QEMU runs there.
    """

    by: str
    at: str
    answers: bool = False
    libvirt: bool = False
    guests: tuple[str, ...] = ()
    text: str = ""
    looked: bool = True
    boot_id: str = ""
    idle: bool = False

    def __str__(self) -> str:
        return f"{self.by} at {self.at}: {self.text}" if self.looked else f"{self.by} could not look: {self.text}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "guests": list(self.guests)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> View:
        """Raises KeyError, TypeError for what is none."""
        return cls(
            str(raw["by"]),
            str(raw["at"]),
            bool(raw.get("answers")),
            bool(raw.get("libvirt")),
            tuple(str(name) for name in raw.get("guests") or ()),
            str(raw.get("text") or ""),
            bool(raw.get("looked", True)),
            str(raw.get("boot_id") or ""),
            bool(raw.get("idle")),
        )


@dataclass(frozen=True)
class Judgement:
    looks: Looks
    text: str

    @property
    def may_be_fenced(self) -> bool:
        return self.looks in MAY_BE_FENCED

    @property
    def lives(self) -> bool:
        """Was the host itself seen? Then an old proof proves nothing any more."""
        return self.looks not in (Looks.CUT_OFF, Looks.PROBABLY_DEAD, Looks.NOT_KNOWN)


def judge(host: str, views: Sequence[View], peers: int) -> Judgement:
    """`peers`: how many hosts of the fleet there are beside it."""
    own = [view for view in views if view.by == CONTROLLER]
    others = [view for view in views if view.by != CONTROLLER and view.looked]
    tried = "; ".join(str(view) for view in views)
    reached = any(view.answers for view in own)
    if any(view.libvirt for view in views):
        if own and not reached:
            return Judgement(
                Looks.CUT_OFF_FROM_CONTROLLER, f"{host} is alive: its peers reach it, the controller does not. {tried}"
            )
        return Judgement(Looks.ALIVE, f"{host} is alive: its libvirtd answers. {tried}")
    if any(view.answers for view in views):
        return Judgement(
            Looks.LIBVIRT_DEAD, f"{host} answers, and its libvirtd does not: its guests may be running. {tried}"
        )
    needed = min(LEAST, peers)
    if len(others) < needed:
        names = ", ".join(view.by for view in others) or "none of its peers"
        return Judgement(
            Looks.NOT_KNOWN,
            f"It is not known whether {host} is alive: {names} looked, {needed} are needed. {tried}".rstrip(),
        )
    signs = sorted({guest for view in views for guest in view.guests})
    if signs:
        return Judgement(Looks.CUT_OFF, f"{host} is cut off, and its guests are alive: {', '.join(signs)}. {tried}")
    return Judgement(Looks.PROBABLY_DEAD, f"{host} is probably dead: nobody can reach it. {tried}")
