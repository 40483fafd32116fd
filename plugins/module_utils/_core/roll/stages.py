# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What proves that a host may come to a stage, and what comes after its drain. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from . import words
from .record import Roll, Stage
from .rules import RollRefused, Step

# The stages that a host must come from. What nothing stands here for comes after any.
_AFTER: dict[Stage, frozenset[Stage]] = {
    Stage.AT_WORK: frozenset({Stage.EMPTY}),
    Stage.REBOOTING: frozenset({Stage.EMPTY}),
    Stage.CHECKING: frozenset({Stage.EMPTY, Stage.REBOOTING, Stage.RESTORING}),
    Stage.DONE: frozenset({Stage.RESTORING}),
}


def check_stage(roll: Roll, host: str, stage: Stage) -> None:
    """Has the host come from where it must? EMPTY is noted by a drain alone, with its certificate,
    and RESTORING by a restore alone. Raises RollRefused.
    """
    entry = roll.hosts.get(host)
    if entry is not None and entry.stage not in (stage, Stage.DONE, *_AFTER.get(stage, Stage)):
        raise RollRefused(words.is_not_proven(entry, stage))


def next_steps(left: Sequence[str]) -> tuple[Stage, list[str]]:
    """(what an empty host comes to, what has to be done on it then, in this order). `left`: the
    steps that are left, by name. After work it is asked again.
    """
    if Step.WORK.value in left:
        return Stage.AT_WORK, [Step.WORK.value]
    reboot = Step.REBOOT.value in left
    return Stage.REBOOTING if reboot else Stage.CHECKING, [Step.REBOOT.value] if reboot else []
