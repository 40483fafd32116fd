"""Two rolls of one fleet are begun at the same moment: by the modules' own calls, and by playbooks.

One wins, the other one is refused; never is more out than the budget of one host; a drain or a
restore of a single host in between is refused.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from demo.plays import Command, watch

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import owner, record, stages
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.options import ROLL_SPEC, answer_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import system_clock
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll_fleet import RollOfCluster
from kubesim import Kubesim
from kubesim.store import Change
from lab.procs import PATIENCE

from . import hosts, simulator, ways
from .case import Bed, Case, Kind, Outcome, carry_on
from .simulator import NODES, out_in_record

REFUSED = ("A roll already exists for this fleet", " belongs to roll ")
_DEFAULTS = {name: spec.get("default") for name, spec in ROLL_SPEC.items()}
# How many times shorter the pauses between two looks at the record are than those of the modules.
_HASTE = 20


class Race:
    """Rolls that are begun by the calls of the modules, against a simulator in this process."""

    folders: Sequence[Path] = ()

    def __init__(self, sim: Kubesim, directory: Path) -> None:
        self._auth = auth.settings({"kubeconfig": str(sim.kubeconfig(directory / "races"))}, {})
        clock = system_clock()
        self._clock = record.Clock(clock.now, clock.wall, lambda s: time.sleep(s / _HASTE))
        self._most_out = 0
        sim.call(lambda: sim.world.on_change(self._change))

    def _change(self, change: Change) -> None:
        self._most_out = max(self._most_out, len(out_in_record(change.obj)))

    def play(self, case: Case) -> Outcome:
        out, line = Outcome(case), threading.Barrier(3)
        with ThreadPoolExecutor(3) as pool:
            both = [pool.submit(self._roll, name, line) for name in ("a", "b")]
            single = pool.submit(self._single, line)
            ends = sorted(str(roll.exception() or roll.result()) for roll in both)
            out.wrong += [] if single.result() else ["a drain of a single host was not refused"]
        if ends != ["refused", "won"]:
            out.wrong.append(f"the two rolls {ends}")
        if self._most_out != 1:
            out.wrong.append(f"{self._most_out} hosts were out at once")
        return out

    def _store(self) -> RollOfCluster:
        return RollOfCluster(Client(self._auth), "default")

    def _call(self, store: RollOfCluster, run: str, **params: Any) -> dict[str, Any]:
        """Slices, until it is final, as the action plugin calls them."""
        watched: dict[str, Any] = {}
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            given = {**_DEFAULTS, "roll_run": run, "slice": 2, "watch": watched, **params}
            found = answer_of(given, store, self._clock, lambda: "")
            if found["ended"] == "final":
                return found
            watched = found["watch"]
        raise TimeoutError(f"{params} of run {run} has had no answer for {PATIENCE} s")

    def _roll(self, run: str, line: threading.Barrier) -> str:
        store = self._store()
        line.wait()
        try:
            self._call(store, run, state="begun", roll_id=run, hosts=[*NODES])
        except RollRefused:
            return "refused"
        with ThreadPoolExecutor(len(NODES)) as pool:
            list(pool.map(lambda node: self._host(run, node), NODES))
        found = self._call(store, run, state="ended")
        return "won" if found["roll"]["state"] == "ended" else str(found["message"])

    def _host(self, run: str, node: str) -> None:
        store = self._store()
        if self._call(store, run, state="admitted", roll_host=node)["answer"] == "go":
            # What a drain and a restore see, and between them what the playbook notes.
            for seen, noted in ((Stage.EMPTY, "at work"), (Stage.EMPTY, "checking"), (Stage.RESTORING, "done")):
                self._clock.sleep(1)
                stages.note_seen(store, node, run, seen, self._clock)
                self._call(store, run, state="noted", roll_host=node, stage=noted)

    def _single(self, line: threading.Barrier) -> bool:
        """A drain of the last host, as soon as there is a roll: is it refused?"""
        store = self._store()
        line.wait()
        while store.read()[0] is None:
            self._clock.sleep(0.1)
        try:
            owner.check_host(store, NODES[-1], "", self._clock, begun=False, drains=True)
        except RollRefused:
            return True
        return False


@contextmanager
def by_modules(_lab: str = "", _fresh: bool = True) -> Iterator[Race]:
    with tempfile.TemporaryDirectory() as folder, Kubesim() as sim:
        for node in NODES:
            sim.add_node(node)
        yield Race(sim, Path(folder))


def play(bed: Bed, case: Case) -> Outcome:
    """Two playbooks over hosts of which they share one; then a drain and a restore beside them.

    The winner is killed and aborted, and the place has to be as it was.
    """
    out = Outcome(case)
    names = (bed.hosts[:2], bed.hosts[1:])
    both = [_start(bed, "rolling_maintenance", some, maintenance_reboot=False, drain_allow_stop=True) for some in names]
    try:
        while all(run.running for run in both):
            time.sleep(0.1)
        wrong = _is_refused(next(run for run in both if not run.running))
        winner = next((run for run in both if run.running), None)
        for playbook in ("restore", "drain"):
            wrong += _is_refused(_start(bed, playbook, names[winner is both[1]][-1:]))
        if winner is None or not winner.running:
            wrong.append("both rolls have ended")
    finally:
        for run in both:
            if run.running:
                ways.cancel("SIGKILL", run)
    out.wrong += wrong
    carry_on(bed, "abort", out)
    if not bed.outs.most_out:
        out.wrong.append("no host was out")
    return out


def _start(bed: Bed, playbook: str, hosts: Sequence[str], **more: Any) -> Command:
    return bed.start(playbook, {"maintenance_hosts": ",".join(hosts), **more})


def _is_refused(play: Command) -> list[str]:
    ended = watch(play)
    if ended.code and any(text in ended.text for text in REFUSED):
        return []
    return [f"{play.argv[-1]} was not refused: {ended.text[-1000:]}"]


MODULES = Kind("modules", by_modules, {}, "", play=Race.play)
KINDS = (MODULES, *(replace(kind, play=play) for kind in (simulator.ROLLS, hosts.ROLLS)))
