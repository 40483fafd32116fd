from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth, client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import Source
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.pods.filters import PodOptions
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import One
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays
from ansible_collections.virtops.maintenance.tests.kubevirt.still_cluster import Still
from kubesim import Kubesim
from kubesim.given import SPEED, TOUCHED, Given
from kubesim.kinds import NODES as KINDS_OF_NODES
from kubesim.needs import OWN, needs
from kubesim.patience import patience
from kubesim.remote import Remote

NODES = ("n1", "n2", "n3")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker of pytest-xdist gets a stretch of the list: what runs playbooks is at the beginning of all.

    It takes the longest, and lies together in the alphabet.
    """
    if given_cluster():
        _tell_what_it_cannot_give(items)
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    long = [item for item in items if {"plays", "jobs"} & {*getattr(item, "fixturenames", ())}]
    short = [item for item in items if item not in long]
    items[:] = []
    for worker in range(workers):
        items += long[worker::workers]
        stretch = len(short) // (workers - worker)
        items += short[:stretch]
        del short[:stretch]


def given_cluster() -> str:
    """The kubeconfig that VIRTOPS_KUBECONFIG names; empty: the tests start the simulator."""
    return os.environ.get("VIRTOPS_KUBECONFIG", "")


def _tell_what_it_cannot_give(items: list[pytest.Item]) -> None:
    """Before the first test: what skips in the middle of one has made VMs by then."""
    cluster = Remote(Path(given_cluster()))
    others = {node["metadata"]["name"] for node in cluster.all(KINDS_OF_NODES)} - {*NODES}
    theirs = cluster.theirs()
    for item in items:
        made_by = getattr(item, "_fixtureinfo", None)
        fixtures = [found[-1].func for found in made_by.name2fixturedefs.values()] if made_by else []
        given = getattr(item, "callspec", None)
        why = needs([getattr(item, "function", None), *fixtures], given.params if given else {}, theirs)
        if not why and "still" in getattr(item, "fixturenames", ()):
            why = OWN
        if not why and others and item.get_closest_marker("three_nodes"):
            why = "needs the simulator: a cluster of three nodes"
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_report_collectionfinish(items: list[pytest.Item]) -> list[str]:
    """What is asked of the given cluster, and what is not for want of what: each test, by its reason."""
    if not given_cluster():
        return []
    skipped: dict[str, list[pytest.Item]] = {}
    for item in items:
        for mark in [*item.iter_markers("skip"), *item.iter_markers("skipif")][:1]:
            if mark.name == "skip" or mark.args[0]:
                skipped.setdefault(str(mark.kwargs.get("reason")), []).append(item)
    every = [reason for reason, tests in skipped.items() for _test in tests]
    counted = ", ".join(f"{word} {number}" for word, number in _by_word(every).items() if number)
    lines = [f"integration-kubevirt: {len(items) - len(every)} tests begin, {len(every)} do not: {counted or 'none'}"]
    for reason, tests in sorted(skipped.items()):
        lines.append(f"  {reason}: {len(tests)}")
        lines += [f"    {file}: {', '.join(names)}" for file, names in _by_file(tests).items()]
    return lines


def _by_file(tests: Iterable[pytest.Item]) -> dict[str, dict[str, None]]:
    """The tests' names, each once, however many parameters it has."""
    found: dict[str, dict[str, None]] = {}
    for test in tests:
        found.setdefault(test.path.name, {})[test.name.partition("[")[0]] = None
    return found


def _by_word(reasons: Iterable[str]) -> dict[str, int]:
    """How many were skipped for want of what."""
    counted = dict.fromkeys([*MISSING.values(), "else"], 0)
    for text in reasons:
        counted[next((word for start, word in MISSING.items() if start in text), "else")] += 1
    return counted


@pytest.fixture(autouse=True)
def no_simulator_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test checks on a simulator of its own says nothing about the given cluster."""
    if given_cluster():
        monkeypatch.setattr(Kubesim, "__enter__", _skip_own)


def _skip_own(_sim: Kubesim) -> Kubesim:
    pytest.skip(OWN)


@pytest.fixture(autouse=True)
def denials_are_believed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second after the first, not four: a simulator knows from its start who may do what. How long that is
    doubted of one that has just started is what test_api_away asks.
    """
    if not given_cluster() and request.path.name != "test_api_away.py":
        monkeypatch.setattr(client, "DENIES_FOR", 0.5)


@pytest.fixture
def sim(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubesim]:
    """Three nodes, ten times as fast as real; our account has the role that we document.

    With VIRTOPS_KUBECONFIG the cluster that it leads to, see kubesim.given.
    """
    if given_cluster():
        given = Given(Path(given_cluster()))
        # What counts: what the test asks the cluster, and the product in this process.
        given.begin(lambda: request.node.user_properties.append(TOUCHED))
        send = Client._send

        def counted(client: Client, *args: Any) -> Any:
            given.touch()
            return send(client, *args)

        monkeypatch.setattr(Client, "_send", counted)
        try:
            yield given  # type: ignore[misc]
        finally:
            given.clean()
        return
    with Kubesim(scale=SPEED) as cluster:
        for name in NODES:
            cluster.add_node(name)
        cluster.api.access.rules[TOKEN] = documented_rules()
        yield cluster
        assert cluster.world.broken == []


@pytest.fixture
def still(tmp_path: Path) -> Iterator[Still]:
    """Three nodes, and no controller at work."""
    with Kubesim() as sim:
        yield Still(sim, tmp_path)


class Operator:
    """Runs slices on n1 as the modules do."""

    def __init__(self, sim: Kubesim, kubeconfig: Path) -> None:
        self.sim = sim
        self.auth = auth.settings({"kubeconfig": str(kubeconfig)}, {})
        self.runs = 0

    def request(
        self,
        intent: Intent,
        run_id: str,
        seconds: float,
        pods: PodOptions | None = None,
        rules: Any = (),
        metrics: Source | None = None,
        **policy: Any,
    ) -> Any:
        settings = {"limits": options._KUBEVIRTS, "backoff": 0.5, **policy}
        return service.Request(
            self.auth,
            "n1",
            Policy(rules=options.rules(rules), **settings),
            intent,
            run_id,
            "me",
            "why",
            seconds,
            pods=pods or PodOptions(),
            machines=options.needs_virtual_machines({"rules": rules}),
            metrics=metrics,
        )

    def slice(self, intent: Intent, seconds: float = 5.0, run_id: str = "", **policy: Any) -> Any:
        """One slice of a run of its own, or of the run named."""
        self.runs += 1
        return service.run_slice(self.request(intent, run_id or f"run-{self.runs}", seconds, **policy))

    def answer(self, intent: Intent, seconds: float, run_id: str, rules: Any, **more: Any) -> dict[str, Any]:
        """A slice of a run that goes on; `more`: of the request, the answers to hooks."""
        request = self.request(intent, run_id, seconds, rules=rules)
        return service.run_slice(replace(request, **more))

    def run(self, intent: Intent, seconds: float = 5.0, **policy: Any) -> dict[str, Any]:
        """A run to its end, in slices, however many it takes.

        Each slice but the first goes on with the run, as those of the modules do: one that begins
        it anew has its attempts anew.
        """
        self.runs += 1
        request = self.request(intent, f"run-{self.runs}", seconds, **policy)
        end = time.monotonic() + patience()
        while True:
            found = service.run_slice(request)
            if found["ended"] == "final":
                return found
            assert time.monotonic() < end, f"not final: {found}"
            request = replace(request, begun=True)

    def drain_until(self, so: Callable[[dict[str, Any]], Any], seconds: float = 2.0, **policy: Any) -> dict[str, Any]:
        """Slices of one drain until its result is `so`: how far one slice comes depends on the cluster."""
        self.runs += 1
        request = self.request(Intent.DRAINED, f"run-{self.runs}", seconds, **policy)
        end = time.monotonic() + patience()
        while True:
            found = service.run_slice(request)
            if so(found):
                return found
            assert found["ended"] != "final" and time.monotonic() < end, f"not so: {found}"
            request = replace(request, begun=True)

    def drain(self, **policy: Any) -> dict[str, Any]:
        return self.run(Intent.DRAINED, **policy)

    def restore(self, **policy: Any) -> dict[str, Any]:
        return self.run(Intent.ACTIVE, **policy)


@pytest.fixture
def operator(sim: Kubesim, tmp_path: Path) -> Operator:
    return Operator(sim, sim.kubeconfig(tmp_path / "kubeconfig", TOKEN))


@pytest.fixture
def one(sim: Kubesim, operator: Operator) -> One:
    return One(sim, operator.auth)


@pytest.fixture
def plays(sim: Kubesim, tmp_path: Path) -> Iterator[Plays]:
    started = Plays(sim, tmp_path)
    yield started
    started.end()


@pytest.fixture
def verdicts() -> Callable[[dict[str, Any]], dict[str, str]]:
    return lambda result: {vm["name"].split("/")[1]: vm["verdict"] for vm in result["vms"]}


@pytest.fixture
def make_operator() -> type[Operator]:
    return Operator


# What a skip's text says is missing, and under which word it is counted.
MISSING = {"needs the simulator": "simulator", "needs agents that obey knobs": "knobs", "needs a real guest": "guest"}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Against a given cluster the last line says how much of the checks it could stand.

    `passed`: tests that asked it something. `passed_without_it`: the rest, which say nothing of it.
    """
    if not given_cluster() or hasattr(config, "workerinput"):
        return
    stats = terminalreporter.stats
    passed = stats.get("passed", [])
    touched = [report for report in passed if TOUCHED in map(tuple, report.user_properties)]
    counted = _by_word(str(report.longrepr) for report in stats.get("skipped", []))
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    terminalreporter.write_line(
        f"integration-kubevirt: passed={len(touched)} failed={failed} "
        + " ".join(f"skipped_{word}={number}" for word, number in counted.items())
        + f" passed_without_it={len(passed) - len(touched)}"
    )
