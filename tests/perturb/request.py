"""What a command asks of the core, and what a service and an action do beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, NodeRecord
from fleetsim.platform import ModelPlatform

NEVER = ("", float("-inf"))


class Nothing(Exception):
    """There is nothing to act on."""


@dataclass(frozen=True)
class Request:
    """See start.Request."""

    node: str
    policy: Policy
    intent: Intent
    run_id: str
    requester: str = "ops"
    reason: str = "work"
    begun: bool = False
    of_roll: bool = False
    only: str = ""
    to: str = ""


@dataclass
class Point:
    """What was about to be done, and how the fleet was. `slice`: its number. `moving`: does any VM migrate?
    `back`: is it of a restore?"""

    what: str
    clock: float
    state: str
    slice: int
    moving: bool
    back: bool


@dataclass
class Run:
    """What an action keeps between two slices. `answers`: of hooks, for the next one. `record`: handed to the next one,
    as it was when it was last written as `saved`."""

    name: str
    begun: bool = False
    answers: list[dict[str, str]] = field(default_factory=list)
    record: NodeRecord | None = None
    saved: tuple[str, float] = NEVER


def release_left(platform: ModelPlatform) -> None:
    """As a restore without a record does: claims of ours that nothing needs."""
    obs = platform.observe(None)
    for uuid, claim in obs.claims.items():
        vm = obs.vms.get(uuid)
        if uuid not in obs.held and (vm is None or vm.job is None):
            platform._claims.release(Action(Do.RELEASE, platform.node, uuid, target=claim.target))
