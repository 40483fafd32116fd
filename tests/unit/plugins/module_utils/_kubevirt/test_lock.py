# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Lease: who has it, who waits for it, who died with it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.errors import (
    KubeError,
    LockHeld,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.lock import WANTED, Lock


class Api:
    """One Lease, and a clock that sleeping moves on."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.now = 0.0
        self.version = 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def find(self, _path: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.lease)

    def request(self, method: str, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        wanted = body["metadata"].get("resourceVersion")
        if (method == "POST") == (self.lease is not None):
            raise KubeError(409, "exists or not", method)
        if self.lease is not None and wanted != self.lease["metadata"]["resourceVersion"]:
            raise KubeError(409, "changed", method)
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)

    def lock(self, holder: str, seconds: int = 35) -> Lock:
        return Lock(self, "default", "n1", holder, seconds, self.sleep, lambda: self.now)

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"]

    @property
    def wanted(self) -> str:
        return self.lease["metadata"].get("annotations", {}).get(WANTED, "")


def nothing() -> None:
    return None


def test_kept_from_slice_to_slice() -> None:
    api = Api()
    first, second = api.lock("run 1"), api.lock("run 2")
    first.take(1.0, nothing)
    assert second.renew(first.held) and api.holder == "run 2"
    assert not api.lock("run 3").renew(first.held)  # the same cursor twice: one wins
    assert api.holder == "run 2"
    second.give_back()
    assert api.holder == ""


def test_who_waits_is_let_in_at_the_end_of_the_slice() -> None:
    api = Api()
    first = api.lock("run 1")
    first.take(1.0, nothing)
    with pytest.raises(LockHeld, match="run 1"):
        api.lock("abort").take(1.0, nothing)
    assert api.wanted == "abort"
    following = api.lock("run 2")
    assert not following.renew(first.held) and api.holder == ""
    with pytest.raises(LockHeld):
        following.take(0.9, nothing)  # the other one goes first
    api.lock("abort").take(1.0, nothing)
    assert (api.holder, api.wanted) == ("abort", "")


def test_it_is_given_back_although_somebody_wrote_that_he_waits() -> None:
    api = Api()
    first = api.lock("run 1")
    first.take(1.0, nothing)
    with pytest.raises(LockHeld):
        api.lock("abort").take(1.0, nothing)
    first.give_back()
    assert (api.holder, api.wanted) == ("", "abort")


def test_who_waited_and_has_gone_holds_nobody_up() -> None:
    api = Api()
    first = api.lock("run 1")
    first.take(1.0, nothing)
    with pytest.raises(LockHeld):
        api.lock("gone").take(1.0, nothing)
    first.give_back()
    begun = api.now
    api.lock("other").take(10.0, nothing)
    assert api.holder == "other" and 2.0 < api.now - begun < 4.0


def test_two_that_wait_do_not_keep_a_dead_holder_alive() -> None:
    """What they write is no sign of its life."""
    api = Api()
    api.lock("dead", 30).take(1.0, nothing)
    begun = api.now
    with pytest.raises(LockHeld):
        api.lock("a").take(10.0, nothing)
    api.lock("b").take(35.0, nothing)
    assert api.holder == "b" and api.now - begun < 45.0


def test_what_is_read_is_what_the_winner_saw() -> None:
    """Between the look at the Lease and its taking another one was quicker: it is read again."""
    api = Api()
    reads = []

    def read() -> int:
        reads.append(len(reads))
        if len(reads) == 1:
            api.lock("quicker").take(1.0, nothing)
            api.lock("quicker").take(1.0, nothing)
            quicker = api.lock("quicker")
            quicker.take(1.0, nothing)
            quicker.give_back()
        return len(reads)

    assert api.lock("slow").take(5.0, read) == 2
