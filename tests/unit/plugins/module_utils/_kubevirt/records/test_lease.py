"""The Lease: who has it, who waits for it, who died with it."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, Superseded
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Roll
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import TRIES, Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError, LockHeld
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease import (
    DRAINS,
    WAITING,
    WANTED,
    Lock,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import Records
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import RollLease
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.cursor import pack_wait, unpack_wait


class Api:
    """One Lease, and a clock that sleeping moves on."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.now = 0.0
        self.version = 0
        self.slow = 0.0  # seconds that each write takes
        self.refuses: KubeError | None = None

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def find(self, _path: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.lease)

    def request(self, method: str, _path: str, body: dict[str, Any], **_options: Any) -> dict[str, Any]:
        self.now += self.slow
        if self.refuses is not None:
            raise self.refuses
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
        return Lock(self, "default", "n1", holder, seconds, False, self.sleep, lambda: self.now)

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"]

    @property
    def wanted(self) -> str:
        return self.lease["metadata"].get("annotations", {}).get(WANTED, "")


def nothing() -> None:
    return None


def test_a_namespace_that_is_not_there_is_an_error_and_no_race() -> None:
    api = Api()
    api.refuses = KubeError(404, 'namespaces "nope" not found', "POST")
    with pytest.raises(KubeError, match="nope"):
        api.lock("run 1").take(1.0, nothing)
    with pytest.raises(KubeError, match="nope"):
        RollLease(api, "nope").write(Roll("id", "run", "", "", "", {}), None)


def test_who_cannot_make_it_waits_no_longer_than_he_wants_to() -> None:
    api = Api()
    api.refuses = KubeError(409, "exists", "POST")
    with pytest.raises(LockHeld):
        api.lock("run 1").take(30.0, nothing)
    assert 30.0 <= api.now < 40.0


def test_kept_from_slice_to_slice() -> None:
    api = Api()
    first, second = api.lock("run 1"), api.lock("run 2")
    first.take(1.0, nothing)
    assert second.renew(first.held) and api.holder == "run 2"
    assert not api.lock("run 3").renew(first.held)  # the same cursor twice: one wins
    assert api.holder == "run 2"
    second.release()
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
    first.release()
    assert (api.holder, api.wanted) == ("", "abort")


def test_who_waited_and_has_gone_holds_nobody_up() -> None:
    api = Api()
    first = api.lock("run 1")
    first.take(1.0, nothing)
    with pytest.raises(LockHeld):
        api.lock("gone").take(1.0, nothing)
    first.release()
    begun = api.now
    api.lock("other").take(60.0, nothing)
    assert api.holder == "other" and 10.0 < api.now - begun < 12.0


def test_two_that_wait_do_not_keep_a_dead_holder_alive() -> None:
    """What they write is no sign of its life."""
    api = Api()
    api.lock("dead", 30).take(1.0, nothing)
    begun = api.now
    with pytest.raises(LockHeld):
        api.lock("a").take(10.0, nothing)
    api.lock("b").take(35.0, nothing)
    assert api.holder == "b" and api.now - begun < 45.0


def test_the_time_between_two_slices_that_wait_counts() -> None:
    """On a busy machine a module takes ten seconds to begin: a Lease of 35 s was waited for 141 s, of 60 s 319 s."""
    api = Api()
    api.lock("dead").take(0.0, dict)
    seen, said = ("", 0.0), []
    while api.holder.startswith("dead"):
        try:
            api.lock("next").take(3.0, dict, seen)
        except LockHeld as exc:
            seen = unpack_wait(pack_wait(exc.seen, 0.0))[0]
            said.append(int(exc.waits.rpartition(", ")[2].split(" ")[1]))
            assert api.now < 60, "it waits for ever"
            api.now += 10.0
    assert api.now < 35 + 13 + 1
    assert [before - after for before, after in pairwise(said)] == [13] * (len(said) - 1), said


def test_a_clock_that_began_anew_has_counted_nothing() -> None:
    api = Api()
    api.lock("lives").take(0.0, dict)
    assert api.lease is not None
    with pytest.raises(LockHeld, match="is working on the node"):
        api.lock("next").take(3.0, dict, (api.lease["metadata"]["resourceVersion"], 90000.0))


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
            quicker.release()
        return len(reads)

    assert api.lock("slow").take(5.0, read) == 2


class Wire(Client):
    """Its writes come to `written`, or end in `errors`. A slice that holds the Lease."""

    def __init__(self, api: Api, lock: Lock) -> None:
        super().__init__({}, api.sleep)
        self.written: list[str] = []
        self.errors: list[KubeError] = []
        lock.take(1.0, nothing)
        self.before_write = lock.keep

    def _once(self, method: str, path: str, *_more: Any) -> dict[str, Any]:
        if self.errors:
            raise self.errors.pop()
        self.written.append(f"{method} {path}")
        return {}

    def save(self) -> None:
        Records(self, "n1").save(NodeRecord("n1", "run"))


def test_a_slice_whose_time_is_over_does_not_write_over_the_next_run() -> None:
    api = Api()
    wire = Wire(api, api.lock("slow"))
    api.now += 40.0
    other = api.lock("other")
    other.take(40.0, nothing)
    with pytest.raises(Superseded, match="Another run has taken the Lease virtops-maintenance-n1"):
        wire.save()
    other.release()  # nor when that has ended
    with pytest.raises(Superseded):
        wire.save()
    assert wire.written == [] and api.holder == ""


def test_nor_with_a_request_that_is_tried_again() -> None:
    """The first try was in time; the second would come late."""
    api = Api()
    wire = Wire(api, api.lock("slow"))
    wire.errors = [KubeError(503, "busy", retry_after=10.0) for unused_try in range(TRIES - 1)]
    wire.save()
    assert len(wire.written) == 1 and api.version > 1  # renewed meanwhile
    wire.errors = [KubeError(503, "busy", retry_after=10.0)]
    api.now += 17.0
    api.lease["spec"]["holderIdentity"] = "other"
    api.lease["metadata"]["resourceVersion"] = "taken"
    with pytest.raises(Superseded):
        wire.save()


def test_a_lease_is_renewed_when_half_of_its_time_is_gone() -> None:
    api = Api()
    wire = Wire(api, api.lock("slow"))
    api.now += 17.0
    wire.save()
    assert api.version == 1  # an ordinary slice asks for nothing more
    api.now += 1.0
    wire.save()
    assert api.version == 2 and len(wire.written) == 2
    with pytest.raises(LockHeld):
        api.lock("other").take(30.0, nothing)


def test_renewing_leaves_those_in_who_wait() -> None:
    api = Api()
    first = api.lock("run 1")
    wire = Wire(api, first)
    api.now += 17.0
    with pytest.raises(LockHeld):
        api.lock("abort").take(1.0, nothing)
    wire.save()
    assert (api.holder, api.wanted, len(wire.written)) == ("run 1", "abort", 1)
    assert not api.lock("run 2").renew(first.held) and api.holder == ""
    api.lock("abort").take(1.0, nothing)
    assert api.holder == "abort"


def test_a_lease_that_cannot_be_renewed_ends_the_slice_when_its_time_is_over() -> None:
    api = Api()
    wire = Wire(api, api.lock("slow"))
    api.refuses = KubeError(500, "no quorum")
    api.now += 20.0
    wire.save()  # it is still ours
    api.now += 20.0
    with pytest.raises(KubeError, match="no quorum"):
        wire.save()
    api.refuses, api.slow = None, 40.0
    with pytest.raises(KubeError, match="could not be renewed in time"):
        wire.save()
    assert len(wire.written) == 1


def test_a_drain_is_found_and_tells_how_many_wait() -> None:
    api = Api()
    lock = Lock(api, "default", "n1", "run1 a", 35, True, api.sleep, lambda: api.now)
    lock.take(1.0, dict)
    assert api.lease["metadata"]["labels"] == {DRAINS: "true"}
    lock.report(7)
    assert api.lease["metadata"]["annotations"] == {WAITING: "7"}
    version = api.version
    lock.report(7)
    assert api.version == version  # told already


def test_the_next_slice_has_told_it_and_another_run_has_not() -> None:
    api = Api()

    def drain(holder: str) -> Lock:
        return Lock(api, "default", "n1", holder, 35, True, api.sleep, lambda: api.now)

    first = drain("run1 a")
    first.take(1.0, dict)
    first.report(7)
    second = drain("run1 b")
    assert second.renew(first.held)
    assert api.lease["metadata"]["annotations"] == {WAITING: "7"}
    second.release()
    drain("run2 c").take(1.0, dict)
    assert api.lease["metadata"]["annotations"] == {}


def test_who_restores_the_node_is_not_found_as_a_drain() -> None:
    api = Api()
    lock = Lock(api, "default", "n1", "run1 a", 35, True, api.sleep, lambda: api.now)
    lock.take(1.0, dict)
    lock.release()
    Lock(api, "default", "n1", "run2 b", 35, False, api.sleep, lambda: api.now).take(1.0, dict)
    assert api.lease["metadata"]["labels"] == {}


def test_nothing_is_told_over_somebody_who_waits() -> None:
    api = Api()
    lock = Lock(api, "default", "n1", "run1 a", 35, True, api.sleep, lambda: api.now)
    lock.take(1.0, dict)
    other = Lock(api, "default", "n1", "run2 b", 35, True, api.sleep, lambda: api.now)
    with pytest.raises(LockHeld):
        other.take(1.0, dict)
    lock.report(7)
    assert api.lease["metadata"]["annotations"] == {WANTED: "run2 b"}
