"""The form of a row in the table of reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from .platform import BOTH, Platform


class Plane(str, Enum):
    """Where a failure belongs: in deciding and admitting, or in moving the bytes."""

    CONTROL = "control"
    DATA = "data"


class Severity(str, Enum):
    """BLOCKER: the drain will not end as wanted. WARNING: it may, but know this first."""

    BLOCKER = "blocker"
    WARNING = "warning"
    IGNORE = "ignore"


class About(str, Enum):
    """The subject of a finding. One VM or pod that cannot go does not keep the others."""

    CLUSTER = "cluster"
    NODE = "node"
    VM = "vm"
    POD = "pod"


# Facts that many findings of the preflight hang on
XML = "the domain's XML"
CONDITION = "the VMI's condition LiveMigratable"


# Options that remedies name, of which the roles have a variable.
_OPTION = re.compile(
    r"(?<![\w.])(allow_stop|force_stop|on_not_migratable|external_timeout|shutdown_timeout|pending_timeout)(?!\w)"
)


@dataclass(frozen=True)
class Words:
    """The meaning of a reason, and the remedy."""

    sentence: str
    remedy: str

    @property
    def advice(self) -> str:
        """The remedy, also for who runs a playbook, where an option of a module is a variable of a role."""
        return _OPTION.sub(r"\1 (playbooks: drain_\1)", self.remedy)


def on_kubevirt(sentence: str, remedy: str) -> dict[Platform, Words]:
    """Its words there, where they differ."""
    return {Platform.KUBEVIRT: Words(sentence, remedy)}


@dataclass(frozen=True)
class Preflight:
    """How the preflight reports it.

    `decides`: the fact that it hangs on; `on`: platforms where that is another one. `severity`:
    by default; a finding that the drain gets over by itself is a warning at most. `also`: what
    else than `about` a finding may be about. `remedy`: if it is another one beforehand. `only`:
    no result of a drain has this reason.
    """

    platforms: tuple[Platform, ...] = BOTH
    decides: str = ""
    on: Mapping[Platform, str] = field(default_factory=dict)
    about: About = About.VM
    severity: Severity = Severity.BLOCKER
    also: tuple[About, ...] = ()
    remedy: str = ""
    only: bool = False


@dataclass(frozen=True)
class Row:
    """All that is known of one reason.

    `on`: platforms that have other words for it. `lasting`: a target that refused a VM for it
    refuses it again, however often it is asked. `of_the_vm`: the attempt at one target answers for
    all the others. `in_a_queue`: what waits for it, only the node's deadline ends. `preflight`:
    None: the preflight has no check of its own for it.
    """

    sentence: str
    remedy: str
    on: Mapping[Platform, Words] = field(default_factory=dict)
    plane: Plane = Plane.CONTROL
    lasting: bool = False
    of_the_vm: bool = False
    in_a_queue: bool = False
    preflight: Preflight | None = None

    def words(self, platform: Platform) -> Words:
        found = self.on.get(platform) or Words(self.sentence, self.remedy)
        return Words(found.sentence, found.advice)

    def words_beforehand(self, platform: Platform) -> Words:
        words = self.words(platform)
        remedy = self.preflight.remedy if self.preflight is not None else ""
        return Words(words.sentence, Words("", remedy).advice or words.remedy)

    def decides(self, platform: Platform) -> str:
        """The fact that it hangs on in the preflight."""
        if self.preflight is None:
            return ""
        return self.preflight.on.get(platform) or self.preflight.decides
