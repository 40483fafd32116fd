# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import (
    auth,
    options,
    service,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.pods import PodOptions
from kubesim import Kubesim
from kubesim.given import Given

ROOT = Path(__file__).resolve().parents[2]
ROLE = ROOT / "docs" / "kubevirt-clusterrole.yml"
NODES = ("n1", "n2", "n3")
TOKEN = "maintenance"


@pytest.fixture
def sim() -> Iterator[Kubesim]:
    """Three nodes, ten times as fast as real; our account has the role that we document.

    With VIRTOPS_KUBECONFIG the cluster that it leads to, see kubesim.given.
    """
    if os.environ.get("VIRTOPS_KUBECONFIG"):
        given = Given(Path(os.environ["VIRTOPS_KUBECONFIG"]))
        try:
            yield given  # type: ignore[misc]
        finally:
            given.clean()
        return
    with Kubesim(scale=10) as cluster:
        for name in NODES:
            cluster.add_node(name)
        rules = yaml.safe_load(ROLE.read_text(encoding="utf-8"))["rules"]
        cluster.api.access.rules[TOKEN] = rules
        yield cluster
        assert cluster.world.broken == []


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
            machines=options.asks_the_machine({"rules": rules}),
        )

    def slice(self, intent: Intent, seconds: float = 5.0, run_id: str = "", **policy: Any) -> Any:
        """One slice of a run of its own, or of the run named."""
        self.runs += 1
        return service.run_slice(
            self.request(intent, run_id or f"run-{self.runs}", seconds, **policy)
        )

    def run(self, intent: Intent, **policy: Any) -> dict[str, Any]:
        """A run to its end; on a simulated cluster, ten times as fast, it may take 40 s."""
        self.runs += 1
        run_id = f"run-{self.runs}"
        for _slice in range(40 if isinstance(self.sim, Given) else 8):
            found = self.slice(intent, 5.0, run_id, **policy)
            if found["ended"] == "final":
                return found
        raise AssertionError(f"not final: {found}")

    def drain(self, **policy: Any) -> dict[str, Any]:
        return self.run(Intent.DRAINED, **policy)

    def restore(self, **policy: Any) -> dict[str, Any]:
        return self.run(Intent.ACTIVE, **policy)


@pytest.fixture
def operator(sim: Kubesim, tmp_path: Path) -> Operator:
    return Operator(sim, sim.kubeconfig(tmp_path / "kubeconfig", TOKEN))


@pytest.fixture
def verdicts() -> Callable[[dict[str, Any]], dict[str, str]]:
    return lambda result: {vm["name"].split("/")[1]: vm["verdict"] for vm in result["vms"]}


@pytest.fixture
def make_operator() -> type[Operator]:
    return Operator


# What a skip's text says is missing, and under which word it is counted.
MISSING = {
    "needs the simulator": "simulator",
    "needs agents that obey knobs": "knobs",
    "needs a real guest": "guest",
}


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Against a given cluster the last line says how much of the checks it could stand."""
    if not os.environ.get("VIRTOPS_KUBECONFIG") or hasattr(config, "workerinput"):
        return
    stats = terminalreporter.stats
    counted = dict.fromkeys([*MISSING.values(), "else"], 0)
    for report in stats.get("skipped", []):
        text = str(report.longrepr)
        counted[next((word for start, word in MISSING.items() if start in text), "else")] += 1
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    terminalreporter.write_line(
        f"integration-kubevirt: passed={len(stats.get('passed', []))} failed={failed} "
        + " ".join(f"skipped_{word}={number}" for word, number in counted.items())
    )
