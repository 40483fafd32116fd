# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator against what a real control plane answered.

expected/*.json holds, for each recorded scenario, the requests in their order and at their
times, the answers (status, message, reason, Retry-After), and the phases of every migration.
The simulator itself never sees these files.
"""

from __future__ import annotations

import contextlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from kubesim import Kubesim
from kubesim.kinds import PODS, VMIMS, VMIS
from kubesim.store import Change

EXPECTED = Path(__file__).parent / "expected"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Not here as a replay: 17 (a node dies) is in test_cluster.py, by its moments; 18 (the bare API) is
# in test_api.py. Of these three, compared nowhere: the order of updates of different resources,
# texts and times of events, Warning headers, managedFields, and fields that no controller here
# writes (VMI guest info, volume status, conditions other than those that maintenance reads).
# Server-side apply and PartialObjectMetadata (18) are not simulated: nobody here uses them.


class Replay:
    """One scenario in one namespace of a cluster.

    `prefix` renames its nodes, its VMs and the namespace. `slower`: all that lasts, and all
    pauses between requests, last so many times as long. `mix` may put the steps in another order.
    """

    def __init__(
        self,
        sim: Kubesim,
        name: str,
        prefix: str = "",
        slower: float = 1.0,
        mix: Callable[[list[Any]], None] | None = None,
    ) -> None:
        self.sim = sim
        self.name = name
        text = (EXPECTED / f"{name}.json").read_text(encoding="utf-8")
        self.namespace = f"{prefix}ns{name[:2]}"
        if prefix:
            text = re.sub(r"\bsim(\d)\b", rf"{prefix}sim\1", text)
        self.prefix = prefix
        self.slower = slower
        self.told = json.loads(text)
        if prefix:
            self._rename()
        if mix:
            mix(self.told["steps"])
        self.pods: dict[str, list[str]] = {}
        self.migrations: dict[str, list[str]] = {}
        self.phases: dict[str, list[str]] = {}
        self.wrong: list[str] = []
        sim.call(lambda: sim.world.on_change(self._look))

    def _look(self, change: Change) -> None:
        meta = change.obj["metadata"]
        if meta.get("namespace") != self.namespace:
            return
        if change.kind is PODS and change.type == "ADDED":
            vm = (meta.get("annotations") or {}).get("kubevirt.io/domain")
            if vm:
                self.pods.setdefault(vm, []).append(meta["name"])
        if change.kind is VMIMS:
            uid = meta["uid"]
            if change.type == "ADDED":
                vm = change.obj["spec"]["vmiName"]
                self.migrations.setdefault(vm, []).append(meta["name"])
                self.phases[meta["name"] + uid] = []
            seen = self.phases[meta["name"] + uid]
            phase = change.obj.get("status", {}).get("phase")
            if phase and seen[-1:] != [phase]:
                seen.append(phase)

    def _rename(self) -> None:
        """Every VM has another name, wherever it stands."""
        names = "|".join(sorted(self.told["vms"], key=len, reverse=True))
        text = json.dumps(self.told)
        # Where a name stands: as a key or value, in placeholders, behind a slash, in VMI "ns/x".
        mark = re.compile(rf'(?<=["/ ])({names})(?=["/ \\\\])')
        self.told = json.loads(mark.sub(rf"{self.prefix}\1", text))

    def set_up(self) -> None:
        for number in (1, 2, 3):
            pool = f"{self.prefix}{self.namespace}"
            self.sim.add_node(f"{self.prefix}sim{number}", pool=pool)
        for name, vm in self.told["vms"].items():
            if "at" not in vm:
                self._add(name, vm)
        for name, vm in self.told["vms"].items():
            slow = float(vm.get("notes", {}).get("lab/start-seconds", "0")) > 1
            off = vm.get("run") in ("Halted", "Manual")
            if "at" not in vm and not slow and not off:
                self.sim.until(lambda name=name: self.sim.running(name, self.namespace))
        if self.name.startswith("13"):
            spec = {"nodeName": f"{self.prefix}sim1"}
            meta = {"name": "plain", "namespace": self.namespace}
            pod = {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}
            self.sim.add("pods", pod)

    def _add(self, name: str, vm: dict[str, Any]) -> None:
        knobs = {}
        for note, value in vm.get("notes", {}).items():
            lasts = note.endswith("-seconds")
            knobs[note.removeprefix("lab/")] = str(float(value) * self.slower) if lasts else value
        self.sim.add_vm(
            name,
            vm.get("node", f"{self.prefix}sim1"),
            strategy=vm.get("strategy"),
            run_strategy="" if vm.get("bare") else vm.get("run", "Always"),
            namespace=self.namespace,
            wait=False,
            labels=vm.get("labels"),
            grace=vm.get("grace", 30),
            pool=f"{self.prefix}{self.namespace}",
            start=False,
            **knobs,
        )

    def steps(self) -> Iterator[tuple[float, Callable[[], None]]]:
        """What is to be done, and after how many simulated seconds."""
        late = sorted((vm["at"], name) for name, vm in self.told["vms"].items() if "at" in vm)
        for at, name in late:
            yield at * self.slower, lambda name=name: self._add(name, self.told["vms"][name])
        for step in self.told["steps"]:
            yield step["t"] * self.slower, lambda step=step: self._step(step)

    def _step(self, step: dict[str, Any]) -> None:
        if "virt_api_down" in step:
            self.sim.world.virt_api_down = step["virt_api_down"]
        elif "edit" in step:
            notes = step["notes"]
            self.sim.edit(
                VMIS,
                step["edit"],
                lambda o: o["metadata"]["annotations"].update(notes),
                self.namespace,
            )
        else:
            self._request(step)

    def _real(self, text: str) -> str:
        """With the names that this run has."""

        def pod(found: re.Match[str]) -> str:
            return self.pods.get(found[1], [])[int(found[2])]

        def migration(found: re.Match[str]) -> str:
            return self.migrations[found[1]][int(found[2])]

        text = re.sub(r"<pod (\S+) (\d+)>", pod, text)
        text = re.sub(r"<migration (\S+) (\d+)>", migration, text)
        space = self.namespace
        text = text.replace("/ns/", f"/{space}/").replace('"ns"', f'"{space}"')
        return text.replace('\\"ns/', f'\\"{space}/')

    def _request(self, step: dict[str, Any]) -> None:
        try:
            step = json.loads(self._real(json.dumps(step)))
        except (KeyError, IndexError) as exc:
            self.wrong.append(f"{step['method']} {step['path']}: not there: {exc!r}")
            return
        url = self.sim.url + step["path"]
        if step.get("query"):
            url += "?" + urlencode(step["query"])
        sub = "subresources.kubevirt.io" in url
        accept = step.get("accept") or ("*/*" if sub else "application/json")
        headers = {"Authorization": "Bearer admin", "Accept": accept}
        data = None
        if step["method"] in ("POST", "PUT", "PATCH"):
            data = json.dumps(step.get("body", {})).encode()
            headers["Content-Type"] = step.get("type", "application/json")
        request = urllib.request.Request(url, data, headers, method=step["method"])
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.sim.trust) as response:
                answer = (response.status, response.read(), response.headers)
        except urllib.error.HTTPError as exc:
            answer = (exc.code, exc.read(), exc.headers)
        self._compare(step, *answer)

    def _compare(self, step: dict[str, Any], status: int, raw: bytes, headers: Any) -> None:
        text, reason = raw.decode().strip(), None
        if text.startswith("{"):
            body = json.loads(text)
            text, reason = body.get("message", ""), body.get("reason")
        text = UID.sub("<uid>", text)
        want = step.get("message", "")
        where = f"{step['t']} {step['method']} {step['path']} {json.dumps(step.get('body'))[:90]}"
        if status != step["status"]:
            self.wrong.append(f"{where}: {status} ({text}), not {step['status']} ({want})")
        elif want and text != want:
            self.wrong.append(f"{where}:\n      {text}\n  not {want}")
        elif status >= 300 and reason != step.get("reason"):
            self.wrong.append(f"{where}: reason {reason}, not {step.get('reason')}")
        elif headers.get("Retry-After") != step.get("retry"):
            self.wrong.append(f"{where}: Retry-After {headers.get('Retry-After')}")

    def finish(self) -> None:
        """Wait for the phases that were recorded, then compare."""
        with contextlib.suppress(TimeoutError):
            self.sim.until(lambda: self._phases() == self.told["phases"], 60)
        seen = self._phases()
        for vm, wanted in self.told["phases"].items():
            if seen.get(vm) != wanted:
                self.wrong.append(f"phases of {vm}: {seen.get(vm)}, not {wanted}")

    def _phases(self) -> dict[str, list[list[str]]]:
        found: dict[str, list[list[str]]] = {}
        count: dict[str, int] = {}
        for vm, names in self.migrations.items():
            for name in names:
                keys = [key for key in self.phases if key.startswith(name) and UID.search(key)]
                keys = [key for key in keys if len(key) == len(name) + 36]
                number = count.get(name, 0)
                count[name] = number + 1
                found.setdefault(vm, []).append(self.phases[keys[number]])
        return found


def scenarios() -> list[str]:
    return sorted(path.stem for path in EXPECTED.glob("*.json"))


def check(sim: Kubesim, *replays: Replay) -> None:
    """All of them at once. Nothing happens in the cluster but when the clock is moved on."""
    for replay in replays:
        replay.set_up()
    begin = sim.world.clock.at
    todo = [(at, act) for replay in replays for at, act in replay.steps()]
    for at, act in sorted(todo, key=lambda one: one[0]):
        sim.advance(max(0.0, begin + at - sim.world.clock.at))
        act()
    for replay in replays:
        replay.finish()
        assert not replay.wrong, "\n".join(replay.wrong)
    assert sim.world.broken == []


@pytest.mark.parametrize("name", scenarios())
def test_it_answers_as_the_real_one(name: str) -> None:
    with Kubesim(scale=0) as sim:
        if name[:2] in ("03", "09", "12", "15", "16"):  # so it was when they were recorded
            sim.configure(migrations={"parallelMigrationsPerCluster": 12})
        check(sim, Replay(sim, name))


def test_two_scenarios_at_once_under_other_names() -> None:
    with Kubesim(scale=0) as sim:
        sim.configure(migrations={"parallelMigrationsPerCluster": 12})
        check(
            sim,
            Replay(sim, "01-eviction-livemigrate", "x"),
            Replay(sim, "05-eviction-external", "y"),
            Replay(sim, "02-eviction-not-migratable", "z"),
        )


def test_other_durations() -> None:
    """Everything lasts longer; what is answered stays the same."""
    with Kubesim(scale=0) as sim:
        check(sim, Replay(sim, "01-eviction-livemigrate", "w", slower=1.7))


def backwards(steps: list[Any]) -> None:
    """The first evictions in the opposite order, each at the time of another one.

    A later one is left out: what it meets depends on the order.
    """
    where = [
        i for i, s in enumerate(steps) if s.get("path", "").endswith("/eviction") and s["t"] < 1
    ]
    times = [steps[i]["t"] for i in where]
    turned = [steps[i] for i in reversed(where)]
    for place, step, at in zip(where, turned, times, strict=True):
        steps[place] = {**step, "t": at}
    steps[:] = [s for s in steps if not (s.get("path", "").endswith("/eviction") and s["t"] >= 1)]


def test_another_order() -> None:
    """Six VMs evicted the other way round: the same answers, and all of them arrive."""
    with Kubesim(scale=0) as sim:
        check(sim, Replay(sim, "14-six-at-once-limits", mix=backwards))
