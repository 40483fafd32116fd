"""The holder's mark goes when its work is over, however short that was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import heartbeat


class AttemptEnd(Exception):
    """The test has seen enough."""


class Volumes:
    """A store in memory, the same one for every connection."""

    names_there: set[str]

    def __init__(self, _conn: Any) -> None:
        pass

    def names(self) -> list[str]:
        return sorted(self.names_there)

    def create(self, name: str) -> None:
        self.names_there.add(name)

    def delete(self, name: str) -> None:
        self.names_there.discard(name)


def test_the_mark_of_a_migration_that_is_over_at_once_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """It began and ended between two looks of the thread: only the job itself left a mark."""
    monkeypatch.setattr(Volumes, "names_there", {"cordon"}, raising=False)
    monkeypatch.setattr(heartbeat, "Store", Volumes)
    links: Any = SimpleNamespace(local=lambda: SimpleNamespace(conn=None))
    mark = heartbeat.Heartbeat(links, lambda: False, lambda _text: None)
    rounds: list[int] = []

    def sleep(_seconds: float) -> None:
        rounds.append(len(Volumes.names_there))
        if len(rounds) == 1:
            mark.renew(None)
        elif len(rounds) == 3:
            raise AttemptEnd

    monkeypatch.setattr(heartbeat.time, "sleep", sleep)
    with pytest.raises(AttemptEnd):
        mark.keep_on()
    assert Volumes.names_there == {"cordon"}
