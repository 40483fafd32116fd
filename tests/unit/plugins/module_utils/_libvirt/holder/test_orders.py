"""What the holder does with the migrations of others, and with a second order for one VM."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import job as holder_job
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import supervisor
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.heartbeat import Heartbeat
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.job import Job
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import OrderError, parse_order
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.outcome import FinalPlace
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.probe import Pace, Sample
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.supervisor import Supervisor
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.dirty_rate import Rate

MIB = 1 << 20
ORDER: dict[str, Any] = {
    "order": "watch",
    "uuid": "u",
    "name": "web",
    "attempt": 1,
    "node": "a",
    "target": "b",
    "target_uri": "qemu+tls://b/system",
    "run_id": "run-1",
    "memory_mib": 1024,
    "settings": asdict(MigrationSettings(progress_timeout=1, completion_timeout_per_gib=1)),
}


def job(**changed: Any) -> Job:
    links: Any = SimpleNamespace(local=lambda: None)
    made = Job(links, parse_order({**ORDER, **changed}), lambda _job: None, lambda _job, _ended: None, Pace())
    made.probe.seen = True
    return made


def measures(made: Job) -> int:
    for now in (0.0, 1.0, 500.0, 1000.0):
        made.check_deadlines(now)
    return len(made.probe._measures)


def test_one_that_may_write_much_has_the_link_for_itself_before_its_passes_tell() -> None:
    assert job(may_write=50.0).as_link_job().dirty_rate == 50
    passes = job(may_write=50.0)
    passes.probe.sample = Sample(dirty_rate=7)
    assert passes.as_link_job().dirty_rate == 7


def test_our_migration_is_watched_with_the_settings_that_it_began_with() -> None:
    made = job()
    made.open = True
    made.set_bandwidth(7)
    assert made.probe._wanted == 7
    assert made.as_link_job().adjustable
    assert measures(made) > 0


def test_that_it_does_not_converge_is_told_while_it_runs_and_in_its_end() -> None:
    """Passes of 200 MiB, each in 2 s."""
    made = job(settings=asdict(MigrationSettings(progress_timeout=500, completion_timeout_per_gib=20)))
    made.open = True
    for second in range(21):
        made.probe.sample = Sample(processed=second * 100 * MIB, remaining=200 * MIB, iteration=1 + second // 2)
        made.check_deadlines(float(second))
        if second == 15:
            assert "writes 100 MiB/s, the link carries 100 MiB/s" in supervisor.line_of(made)["never"]
    found = made._end(FinalPlace(False, "", message="operation aborted"), Reason.MigrationFailed, "").to_dict()
    assert found["reason"] == "NotConverging" and "it would pause for 2.0 s" in found["message"]
    assert (found["steps"], found["writes"]) == (["aborted after 20 s"], 100 * MIB)


@pytest.mark.parametrize(("learnt", "measured"), [(0.0, None), (150.0 * MIB, None), (0.0, Rate(150.0 * MIB, 1.0))])
def test_a_first_pass_that_tells_nothing_goes_by_what_was_learnt_or_measured(
    learnt: float, measured: Rate | None
) -> None:
    """100 MiB/s of 1 GiB."""
    made = job(order="migrate", writes=learnt, memory_mib=512, settings=asdict(MigrationSettings()))
    made.probe.measured = measured
    made.open = True
    for second in range(8):
        made.probe.sample = Sample(processed=second * 100 * MIB, remaining=(1024 - 100 * second) * MIB, iteration=1)
        made.check_deadlines(float(second))
    assert (made.forecast.converges is False) == bool(learnt or measured)


def test_what_a_vm_writes_is_measured_while_it_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each measurement is read when the next one is due: the most counts, and nobody waits. None begins before the
    last one is known to be over: QEMU would hang."""
    made = job(order="migrate")
    rates, begun = iter([None, None, 10.0, 40.0, 20.0]), []
    monkeypatch.setattr(holder_job, "libvirt", SimpleNamespace(libvirtError=OSError))
    monkeypatch.setattr(holder_job, "MEASURED_EVERY", 0)
    monkeypatch.setattr(holder_job, "known", lambda _conn, _dom: (rate := next(rates)) and Rate(rate, 1.0))

    def begin(dom: str) -> None:
        begun.append(dom)
        if len(begun) == 4:
            made._admitted.set()

    monkeypatch.setattr(holder_job, "begin", begin)
    waits = made._admitted.wait
    monkeypatch.setattr(made._admitted, "wait", lambda seconds=1.0: waits(seconds))  # a bound, where it is forgotten
    made.local = SimpleNamespace(conn=SimpleNamespace(lookupByUUIDString=lambda uuid: uuid))
    made._wait_for_turn()
    assert ([rate.writes for rate in made._measured], begun) == ([10.0, 40.0, 20.0], ["u"] * 4)


def test_as_it_begins_qemu_is_asked_what_the_guest_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: during a migration that waits for the job. One that cannot measure is migrated all the same."""
    did: list[str] = []

    def ask(seconds: int, _flags: int) -> None:
        did.append(f"measure for {seconds} s")
        raise OSError

    monkeypatch.setattr(holder_job, "known", lambda _conn, _dom: None)
    calls = {"startDirtyRateCalc": ask, "migrateToURI3": lambda *_all: did.append("migrate")}
    vm = SimpleNamespace(state=lambda: (1, 1), **calls)
    made = job(order="migrate")
    for name, does in (("_prepare", []), ("_ask_for_claim", None)):
        monkeypatch.setattr(made, name, lambda *_all, does=does: does)
    monkeypatch.setattr(made.probe, "start", lambda _mib: None)
    monkeypatch.setattr(holder_job, "libvirt", SimpleNamespace(libvirtError=OSError))
    monkeypatch.setattr(holder_job, "copy_signs", lambda *_all: nullcontext())
    monkeypatch.setattr(holder_job, "params_of", lambda *_all: {})
    monkeypatch.setattr(holder_job, "flags_of", lambda *_all: 0)
    made.local = SimpleNamespace(conn=None)
    made._call(vm)
    assert did == ["measure for 10 s", "migrate"]


@pytest.mark.parametrize(("memory_mib", "looks"), [(holder_job.LARGE, 3), (holder_job.LARGE - 1, 1)])
def test_a_large_vm_is_measured_for_a_second_before_its_beginning_is_measured(
    memory_mib: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU hangs where a second measurement is begun before the first is over. A small VM does not wait for that."""
    answers, did = iter([None, None, Rate(7.0, 1.0)]), []
    monkeypatch.setattr(holder_job, "libvirt", SimpleNamespace(libvirtError=OSError))
    monkeypatch.setattr(holder_job, "known", lambda _conn, _dom: did.append("look") or next(answers))
    monkeypatch.setattr(holder_job, "begin", lambda _dom, seconds: did.append(f"{seconds} s"))
    monkeypatch.setattr(holder_job.time, "sleep", lambda _seconds: None)
    made = job(order="migrate", memory_mib=memory_mib)
    made.local, made._asked = SimpleNamespace(conn=None), holder_job.time.monotonic()
    made._measure_over_its_beginning("u")
    assert did == [*["look"] * looks, *(["10 s"] if looks == 3 else [])]
    assert made._measured == ([Rate(7.0, 1.0)] if looks == 3 else [])


@pytest.mark.parametrize("order", [{"settings": None}, {"order": "watch", "settings": None}])
def test_the_migration_of_others_is_only_looked_at(order: dict[str, Any]) -> None:
    made = job(**order)
    made.open = True
    made.set_bandwidth(7)
    assert (made.probe._wanted, made.bandwidth_mib) == (None, 0)
    assert not made.as_link_job().adjustable
    assert measures(made) == 0


def test_a_migration_that_we_ask_for_is_ours() -> None:
    assert not parse_order({**ORDER, "order": "migrate", "settings": None}).foreign


@pytest.mark.parametrize(("cpus", "width"), [(2, 4), (64, 8)])
def test_no_more_are_begun_than_the_hosts_processors_serve(
    monkeypatch: pytest.MonkeyPatch, cpus: int, width: int
) -> None:
    monkeypatch.setattr(Supervisor, "_loop", lambda _board: None)
    monkeypatch.setattr(Heartbeat, "keep_on", lambda _mark: None)
    monkeypatch.setattr(supervisor.os, "sched_getaffinity", lambda _pid: set(range(cpus)))
    links: Any = SimpleNamespace(local=lambda: None)
    board = Supervisor(links, lambda _event: None, lambda _text: None)
    board._jobs = {f"u{n}": job(order="migrate", uuid=f"u{n}", memory_mib=96) for n in range(8)}
    board.tick(0.0)
    assert sum(made.bandwidth_mib > 0 for made in board._jobs.values()) == width


@pytest.mark.parametrize(
    "again",
    [
        {"order": "migrate"},
        {"order": "watch", "attempt": 2, "run_id": "run-2"},
        {"order": "watch", "target": "", "run_id": "run-2"},
    ],
)
def test_the_same_order_again_is_held(again: dict[str, Any]) -> None:
    held = job(order="migrate")
    assert Supervisor._held_already(held, parse_order({**ORDER, **again})) == {"result": "held"}


@pytest.mark.parametrize(
    "other",
    [
        {"order": "migrate", "target": "c"},
        {"order": "migrate", "run_id": "run-2"},
        {"order": "migrate", "attempt": 2},
        {"order": "watch", "target": "c"},
    ],
)
def test_another_order_for_one_that_is_under_way_is_refused(other: dict[str, Any]) -> None:
    held = job(order="migrate")
    with pytest.raises(OrderError, match="already under way to b: attempt 1 of run run-1"):
        Supervisor._held_already(held, parse_order({**ORDER, **other}))


OTHERS = {"uuid": "u", "run_id": "run-2", "attempt": 1}


@pytest.mark.parametrize(
    ("held", "order", "result"),
    [
        ({"order": "migrate"}, OTHERS, "refused"),
        ({"order": "migrate"}, {**OTHERS, "run_id": "run-1", "attempt": 2}, "refused"),
        ({"order": "migrate"}, {**OTHERS, "run_id": "run-1"}, "withdrawn"),
        ({"order": "migrate"}, {**OTHERS, "run_id": ""}, "withdrawn"),
        ({"order": "migrate"}, {"uuid": "u"}, "withdrawn"),
        ({"order": "watch"}, OTHERS, "withdrawn"),
        ({"order": "migrate"}, {"uuid": "x"}, "none"),
    ],
)
def test_an_abort_of_one_attempt_aborts_no_other(held: dict[str, Any], order: dict[str, Any], result: str) -> None:
    made = job(**held)
    board: Any = SimpleNamespace(_jobs={"u": made}, _log=lambda _text: None, _changed=lambda _job: None)
    assert Supervisor.abort(board, order)["result"] == result
    assert made._withdrawn is (result == "withdrawn")


@pytest.mark.parametrize(
    ("seen", "settled", "done"),
    [
        (True, FinalPlace(True, "b"), ["stamp", "keep"]),
        (True, FinalPlace(False, "a"), ["forget", "remove"]),
        (True, FinalPlace(False, "a", Reason.StoppedByItself), ["forget", "remove if not defined there"]),
        (True, FinalPlace(False, ""), []),
        (False, FinalPlace(True, "b"), []),  # what happened to the files since is not known
    ],
)
def test_the_disks_of_an_adopted_copy_are_seen_to(
    monkeypatch: pytest.MonkeyPatch, seen: bool, settled: FinalPlace, done: list[str]
) -> None:
    did: list[str] = []
    volumes = SimpleNamespace(
        keep=lambda: did.append("keep"),
        remove=lambda runs: did.append("remove" if runs else "remove if not defined there"),
    )
    monkeypatch.setattr(holder_job, "TargetVolumes", lambda *_a, **_more: volumes)
    monkeypatch.setattr(holder_job, "stamp_copies_left", lambda *_a, watched: did.append("stamp" * watched))
    monkeypatch.setattr(holder_job, "forget", lambda *_a: did.append("forget"))
    monkeypatch.setattr(holder_job, "wait_for_final_place", lambda *_a: settled)
    made = job(method="BlockMigration")
    made.local = SimpleNamespace(conn=None)  # type: ignore[assignment]
    made._links = SimpleNamespace(  # type: ignore[assignment]
        peer=lambda _uri: nullcontext(), apart=lambda _uri, work: work(None, lambda: False)
    )
    made.probe = SimpleNamespace(  # type: ignore[assignment]
        seen=seen,
        suspended=False,
        start=lambda _first: None,
        end=lambda: None,
        sample=made.probe.sample,
        mode=made.probe.mode,
    )
    monkeypatch.setattr(holder_job, "resume", lambda *_a: "")
    made._watch()
    assert did == done
