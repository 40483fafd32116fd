"""A recorded scenario, played again on the simulator, and what was different.

tests/expected/*.json holds, for each scenario, the requests in their order and at their times, the
answers (status, message, reason, Retry-After), and the orders in which VMIs and migrations changed
(see orders). The simulator itself never sees these files.
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

from . import templates
from .cluster import Kubesim
from .kinds import NODES, PODS, VMIMS, VMIS
from .orders import Lists, Orders
from .store import Change

_BEFORE = 2.0  # seconds from the making of the VMs to the first request
_BEAT = 10.3  # seconds from one recorded heartbeat to the next
EXPECTED = Path(__file__).parent / "tests" / "expected"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Replay:
    """One scenario in one namespace of a cluster.

    `prefix` renames its nodes, its VMs and the namespace. `slower`: all pauses between requests,
    and between heartbeats, last so many times as long. `mix` may put the steps in another order.
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
        self.spaces = {self._space(vm) for vm in self.told["vms"].values()}
        self.orders = Orders()
        self.wrong: list[str] = []
        self.over = False  # the recording has no more steps
        self.settled = False  # then all had changed as was recorded
        sim.call(lambda: sim.world.on_change(self._look))

    def _space(self, vm: dict[str, Any]) -> str:
        """`space`: of those in a second namespace."""
        return self.namespace + vm.get("space", "")

    def _look(self, change: Change) -> None:
        meta, gone = change.obj["metadata"], change.type == "DELETED"
        if meta.get("namespace") not in self.spaces:
            return
        if change.kind is PODS and change.type == "ADDED":
            vm = (meta.get("annotations") or {}).get("kubevirt.io/domain")
            if vm:
                self.pods.setdefault(vm, []).append(meta["name"])
        elif change.kind is VMIS:
            self.orders.vmi(change.obj, gone)
        elif change.kind is VMIMS:
            self.orders.migration(change.obj, gone)
            if change.type == "ADDED":
                vm = change.obj["spec"]["vmiName"]
                self.migrations.setdefault(vm, []).append(meta["name"])
        self.settle()

    def settle(self) -> None:
        """Once all is as was recorded, what comes later was not recorded."""
        if self.over and not self.settled:
            self.settled = not list(self._differences())

    def _rename(self) -> None:
        """Every VM has another name, wherever it stands."""
        told = self.told
        names = "|".join(sorted(told["vms"], key=len, reverse=True))
        # As a value, in placeholders, in a path or "ns/x", behind VMI; never a key or a plain word,
        # nor the version of an API, which is the name of a VM as well.
        places = ('(?<=")', "(?<=(?:pod|VMI|ion) )", "(?<=ns/)", "(?<=nsb/)", "(?<=instances/)", "(?<=machines/)")
        no_version = r'(?<!version \\")(?<!apiVersion": ")'
        mark = re.compile(rf'(?:{"|".join(places)}){no_version}({names})(?=["/ .\\])(?!":)')
        for part in ("vms", "vmis", "migrations"):
            told[part] = {f"{self.prefix}{name}": row for name, row in told[part].items()}
        for vm in told["vms"].values():
            vm["labels"] = json.loads(mark.sub(rf"{self.prefix}\1", json.dumps(vm.get("labels"))))
        told["steps"] = json.loads(mark.sub(rf"{self.prefix}\1", json.dumps(told["steps"])))

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
                self.sim.until(lambda name=name, vm=vm: self.sim.running(name, self._space(vm)))
        if self.name.startswith("13"):
            spec = {"nodeName": f"{self.prefix}sim1", "containers": [templates.container()]}
            meta = {"name": "plain", "namespace": self.namespace}
            pod = {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}
            self.sim.add("pods", pod)

    def _add(self, name: str, vm: dict[str, Any]) -> None:
        # `slow`: what took longer than its knob says when it was recorded.
        notes = {**vm.get("notes", {}), **vm.get("slow", {})}
        knobs = {note.removeprefix("lab/"): value for note, value in notes.items()}
        self.sim.add_vm(
            name,
            vm.get("node", f"{self.prefix}sim1"),
            strategy=vm.get("strategy"),
            run_strategy="" if vm.get("bare") else vm.get("run", "Always"),
            namespace=self._space(vm),
            wait=False,
            labels=vm.get("labels"),
            grace=vm.get("grace", 30),
            pool=f"{self.prefix}{self.namespace}",
            start=False,
            **knobs,
        )

    def beats(self) -> None:
        """The heartbeats of its nodes when they were recorded: what a controller does may wait for
        one. After the recording they go on."""
        told = self.told["beats"] or [1.0]
        told = [*told, *(told[-1] + _BEAT * (n + 1) for n in range(20))]
        for at in told:
            for number in (1, 2, 3):
                name = f"{self.prefix}sim{number}"
                self.sim.call(lambda at=at, name=name: self.sim.world.later(at * self.slower, self._beat, name))

    def _beat(self, name: str) -> None:
        notes = {"kubevirt.io/heartbeat": self.sim.world.clock.stamp()}
        store = self.sim.world.store
        if store.find(NODES, "", name) is None:
            return
        store.change(NODES, "", name, lambda o: o["metadata"]["annotations"].update(notes))

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
            self.sim.edit(VMIS, step["edit"], lambda o: o["metadata"]["annotations"].update(notes), self.namespace)
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
        text = text.replace("<pool>", f"{self.prefix}{space}")
        return re.sub(r'(?<=[/":])ns(?=b?[/":\\])', space, text)

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
        headers = {"Accept": accept}
        if step.get("as", "admin"):
            headers["Authorization"] = f"Bearer {step.get('as', 'admin')}"
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
        text, reason, body = raw.decode().strip(), None, {}
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
        elif "allowed" in step and body["status"]["allowed"] is not step["allowed"]:
            self.wrong.append(f"{where}: allowed {body['status']['allowed']}")
        elif headers.get("Retry-After") != step.get("retry"):
            self.wrong.append(f"{where}: Retry-After {headers.get('Retry-After')}")

    def end(self) -> None:
        """That was its last step."""
        self.over = True
        self.sim.call(self.settle)

    def finish(self) -> None:
        """Wait until all has changed as was recorded, then compare."""
        with contextlib.suppress(TimeoutError):
            self.sim.until(lambda: self.settled, 60)
        if not self.settled:
            self.wrong.extend(self._differences())

    def _differences(self) -> Iterator[str]:
        yield from _differences("VMI", self.orders.vmis(), self.told["vmis"])
        yield from _differences("migrations of", self.orders.migrations(), self.told["migrations"])


def _differences(what: str, seen: Lists, told: Lists) -> Iterator[str]:
    for vm in sorted({*seen, *told}):
        if seen.get(vm) != told.get(vm):
            yield f"{what} {vm}:\n      {seen.get(vm)}\n  not {told.get(vm)}"


def check(sim: Kubesim, *replays: Replay) -> None:
    """All of them at once. Nothing happens in the cluster but when the clock is moved on."""
    sim.world.heartbeat = 1e9  # they come when they were recorded
    sim.world.target_ends = 0.7  # as those agents had it
    for replay in replays:
        replay.set_up()
    if sim.world.pace > 1:  # so does what had begun before the first request
        sim.advance(_BEFORE * (sim.world.pace - 1))
    begin = sim.world.clock.at
    todo = []
    for replay in replays:
        replay.beats()
        steps = list(replay.steps())
        todo += [*steps, (max(at for at, _act in steps), replay.end)]
    for at, act in sorted(todo, key=lambda one: one[0]):
        sim.advance(max(0.0, begin + at - sim.world.clock.at))
        act()
    for replay in replays:
        replay.finish()
        assert not replay.wrong, "\n".join(replay.wrong)
    assert sim.world.broken == []
