"""Two rolls of one fleet are begun at the same moment: by the modules' own calls, and by playbooks.

One wins, the other one is refused; never is more out than the budget of one host; a drain or a
restore of a single host in between is refused.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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

from . import ways
from .case import Bed
from .simulator import NODES, out_in_record

REFUSED = ("A roll already exists for this fleet", " belongs to roll ")
_DEFAULTS = {name: spec.get("default") for name, spec in ROLL_SPEC.items()}
# How many times shorter the pauses between two looks at the record are than those of the modules.
_HASTE = 20


class Races:
    """Rolls that are begun by the calls of the modules, each pair in a namespace of its own."""

    def __init__(self, sim: Kubesim, directory: Path) -> None:
        self._auth = auth.settings({"kubeconfig": str(sim.kubeconfig(directory / "races"))}, {})
        clock = system_clock()
        self._clock = record.Clock(clock.now, clock.wall, lambda s: time.sleep(s / _HASTE))
        self._most_out: dict[str, int] = {}
        sim.call(lambda: sim.world.on_change(self._change))
        self._sim = sim

    def _change(self, change: Change) -> None:
        out = out_in_record(change.obj)
        if out is not None:
            space = change.obj["metadata"]["namespace"]
            self._most_out[space] = max(self._most_out.get(space, 0), len(out))

    def race(self, number: int) -> list[str]:
        """What was wrong with it."""
        space = f"race-{number}"
        self._sim.add("namespaces", {"metadata": {"name": space}})
        line = threading.Barrier(3)
        with ThreadPoolExecutor(3) as pool:
            both = [pool.submit(self._roll, space, name, line) for name in ("a", "b")]
            single = pool.submit(self._single, space, line)
            ends = sorted(roll.result() for roll in both)
            wrong = [] if single.result() else ["a drain of a single host was not refused"]
        if ends != ["refused", "won"]:
            wrong.append(f"the two rolls {ends}")
        if self._most_out[space] != 1:
            wrong.append(f"{self._most_out[space]} hosts were out at once")
        return wrong

    def _store(self, space: str) -> RollOfCluster:
        return RollOfCluster(Client(self._auth), space)

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

    def _roll(self, space: str, run: str, line: threading.Barrier) -> str:
        store = self._store(space)
        line.wait()
        try:
            self._call(store, run, state="begun", roll_id=run, hosts=[*NODES])
        except RollRefused:
            return "refused"
        with ThreadPoolExecutor(len(NODES)) as pool:
            list(pool.map(lambda node: self._host(space, run, node), NODES))
        found = self._call(store, run, state="ended")
        return "won" if found["roll"]["state"] == "ended" else str(found["message"])

    def _host(self, space: str, run: str, node: str) -> None:
        store = self._store(space)
        if self._call(store, run, state="admitted", roll_host=node)["answer"] == "go":
            # What a drain and a restore see, and between them what the playbook notes.
            for seen, noted in ((Stage.EMPTY, "at work"), (Stage.EMPTY, "checking"), (Stage.RESTORING, "done")):
                self._clock.sleep(1)
                stages.note_seen(store, node, run, seen, self._clock)
                self._call(store, run, state="noted", roll_host=node, stage=noted)

    def _single(self, space: str, line: threading.Barrier) -> bool:
        """A drain of the last host, as soon as there is a roll: is it refused?"""
        store = self._store(space)
        line.wait()
        while store.read()[0] is None:
            self._clock.sleep(0.1)
        try:
            owner.check_host(store, NODES[-1], "", self._clock, begun=False, drains=True)
        except RollRefused:
            return True
        return False


@contextmanager
def by_modules(directory: Path) -> Iterator[Callable[[int], list[str]]]:
    with Kubesim() as sim:
        for node in NODES:
            sim.add_node(node)
        yield Races(sim, directory).race


_count = itertools.count()


def by_playbooks(bed: Bed, hosts: Sequence[str], mark: str) -> list[str]:
    """Two playbooks over hosts of which they share one; then a drain and a restore beside them.

    The winner is killed and aborted, so the place is as it was. What was wrong.
    """
    mark = f"{mark}-{next(_count)}"

    def start(playbook: str, names: Sequence[str], **more: Any) -> Command:
        return bed.start(playbook, "", mark, {"maintenance_hosts": ",".join(names), **more})

    both = [
        start("rolling_maintenance", names, maintenance_reboot=False, drain_allow_stop=True)
        for names in (hosts[:2], hosts[1:])
    ]
    try:
        while all(play.running for play in both):
            time.sleep(0.1)
        wrong = _is_refused(next(play for play in both if not play.running))
        if not any(play.running for play in both):
            return [*wrong, "both rolls have ended"]
        winner = next(play for play in both if play.running)
        own = hosts[:2] if winner is both[0] else hosts[1:]
        for playbook in ("restore", "drain"):
            wrong += _is_refused(start(playbook, own[-1:]))
        if not winner.running:
            wrong.append("the winner has ended")
    finally:
        for play in both:
            if play.running:
                ways.cancel("SIGKILL", play)
    aborted = watch(bed.start("abort", "", mark, {}))
    if aborted.code:
        wrong.append(f"abort ended with {aborted.code}: {aborted.text[-1000:]}")
    return wrong


def _is_refused(play: Command) -> list[str]:
    ended = watch(play)
    if ended.code and any(text in ended.text for text in REFUSED):
        return []
    return [f"{play.argv[-1]} was not refused: {ended.text[-1000:]}"]
