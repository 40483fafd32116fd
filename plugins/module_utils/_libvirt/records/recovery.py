# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a recovery, on peers of the host that died. Kept as the record of a roll is (see `roll`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._core.model.record import RecordError
from ..._core.recovery.record import Recovery
from ..observe.host import Host
from .roll import RECOVERY, RollVolumes

_TRIES = 5


class RecoveryVolumes(RollVolumes):
    """`keepers`: peers of the host, most of which have to take each generation."""

    load: Callable[[str], Any] = staticmethod(Recovery.from_json)

    def __init__(self, hosts: Mapping[str, Host], keepers: Sequence[str], host: str) -> None:
        super().__init__(hosts, keepers)
        self.prefix = f"{RECOVERY}.{host}"

    def change(self, act: Callable[[Recovery | None], Recovery | None]) -> Recovery | None:
        """Read, have it changed, write; again where somebody else wrote meanwhile. None: nothing is to be written.

        Raises RecordError, RollUnreadable.
        """
        for _again in range(_TRIES):
            old, seen = self.read()
            new = act(old)  # type: ignore[arg-type]
            if new is None:
                return None
            if self.write(new, seen):  # type: ignore[arg-type]
                return new
        raise RecordError(f"{self.prefix} was changed by others {_TRIES} times while it was written: run again")

    def end(self, host: str) -> None:
        """The recovery is over. An empty record says so: a keeper that is away now has an older one, which must not
        be taken for the last word when it is back."""
        self.change(lambda _old: Recovery(host))
