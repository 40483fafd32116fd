"""The protocols of a platform: it observes and acts. In what the platforms differ for the core: `reasons/platform`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..decision.actions import Action
from ..model.observation import Observation
from ..model.policy import Limits
from ..model.record import NodeRecord
from ..reasons.reason import Finding


class Clocks(Protocol):
    """The part of a platform that a new record needs."""

    @property
    def boot_id(self) -> str: ...

    def now(self) -> float:
        """Boot-time clock of the node, seconds."""

    def wall(self) -> str:
        """Wall time for people, ISO 8601 UTC."""

    def provides(self) -> Sequence[str]:
        """Name, in words, what VMs need of the node and a reboot may not bring back: active pools and networks."""


class Reader(Clocks, Protocol):
    """The part of a platform that check mode needs: it only reads."""

    def load(self) -> NodeRecord | None:
        """The node's record; None: there is none. Raises RecordError when it is unreadable."""

    def observe(self, record: NodeRecord | None) -> Observation:
        """Read everything, now. What could not be read is in the observation, not raised."""


class Platform(Reader, Protocol):
    """A platform as the loop needs it. Methods raise only for what ends the whole run."""

    def save(self, record: NodeRecord) -> None:
        """Write the record; returns when it is safe."""

    def claim(self, wanted: Sequence[Action], limits: Limits) -> dict[str, Finding | None]:
        """Reserve target and slot for each MIGRATE. UUID -> None (granted) or why not."""

    def apply(self, actions: Sequence[Action], record: NodeRecord) -> dict[str, Finding]:
        """Carry out the actions. UUID -> what went wrong. A VM is not stopped when what comes before that was refused,
        and then that is what went wrong: its host's next boot would start it."""

    def wait(self, seconds: float, gather: float = 0.0) -> None:
        """Return when something changed, `gather` seconds later, or after that time. Raises what a write would raise
        for a run that is no longer wanted."""

    def is_wanted(self) -> bool:
        """Does another run wait for this node? Then the slice ends early, and lets it in."""
