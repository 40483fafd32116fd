"""The next start of a VM that runs: its persistent definition, where that differs from what runs.

A cold move starts it from that. After a live one the next start does, on another host, and nothing
shows then that its disk there is another VM's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..blockers.disk_moves import MediumMissing
from ..blockers.shared_storage import DiskView, local_views
from ..domain.next_start import changes, new_parts
from ..domain.spec import DomainSpec
from ..domain.xml import parse_domain
from .disks import with_chains
from .host import Host


@dataclass(frozen=True)
class NextStart:
    """spec, views: all of it, as the host sees its disks. new: what of it does not run now.
    words: the differences."""

    spec: DomainSpec
    new: DomainSpec
    views: Mapping[str, DiskView]
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"Its configuration for the next start differs from the running one: {', '.join(self.words)}."


def read_next_start(dom: Any, live: DomainSpec, defined: str, source: Host) -> NextStart | None:
    """`defined`: its persistent definition, empty: it has none. None: it starts with what runs now,
    as far as that may tie it to a host. Raises ValueError for XML that is not understood."""
    if not defined:
        return None
    pending = parse_domain(defined)
    words = changes(live, pending)
    if not words:
        return None
    pending = with_chains(dom, pending, source.facts, runs=False)
    views = local_views(pending, source.facts, source.config.shared_paths)
    return NextStart(pending, new_parts(live, pending), views, words)


def only_next_time(found: Iterable[Finding], known: Collection[Finding]) -> tuple[Finding, ...]:
    """The findings that only its next start elsewhere has, as PendingChanges. `found`: of the next start, `known`: of
    what runs now.

    A missing medium is left out: it is no reason to keep a VM, and the text of the difference names it.
    """
    texts = {finding.message for finding in known}
    return tuple(
        Finding(Reason.PendingChanges, f"At its next start: {finding.message}")
        for finding in found
        if finding.message not in texts and not isinstance(finding, MediumMissing)
    )
