"""The rules of the link's scheduler: its numbers, the rules that the plan shares, one job. Pure.

The plan of a roll uses the same rules, so that the times that it foresees are those of a drain.
"""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 1.3  # a share of the link must be so many times the dirty rate
MAX_STARTED = 14  # libvirtd has 20 workers; each migration call takes one for its whole time
# A migration computes while it is set up and while it sends (TLS, dirty pages, a QEMU that
# starts). More of them than the processors can serve make each slower, and its pause longer.
STARTED_PER_CPU = 2
STARTED_LEAST = 4


def most_started(cpus: int) -> int:
    """How many migrations may be under way at once on a host with so many processors."""
    return min(MAX_STARTED, max(STARTED_LEAST, STARTED_PER_CPU * cpus))


def link_order(priority: int, flows: bool, on_target: int, work: float, uuid: str) -> tuple[int, bool, int, float, str]:
    """Sort key of migrations for the link, lowest first: priority, then what is set up, then to a target
    with room, then what is nearest to its end. For the holder and for the plan."""
    return (-priority, not flows, on_target, work, uuid)


def is_share_too_small(dirty_rate: float, share: float) -> bool:
    """Is `share` too little for one that writes so fast? For the holder and for the plan."""
    return dirty_rate * SHARE > share


@dataclass(frozen=True)
class LinkJob:
    """One migration as last seen. Sizes in bytes, rates in bytes/s, `stamp` in seconds.

    size: memory and disks, known before anything flows. cap_mib: the most it may have, 0: no
    limit. adjustable: its bandwidth can be changed now. sticky: taking the link away does
    harm (auto-converge slows the VM down all the more).
    """

    stamp: float = 0.0
    target: str = ""
    priority: int = 0
    size: int = 0
    started: bool = False
    processed: int = 0
    remaining: int = 0
    dirty_rate: int = 0
    iteration: int = 0
    cap_mib: int = 0
    adjustable: bool = True
    sticky: bool = False

    @property
    def flows(self) -> bool:
        return self.processed > 0
