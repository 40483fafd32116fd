"""What README and the start page show of KubeVirt, typed as it is there: it works, and prints these lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import readme

from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays
from kubesim import Kubesim


@pytest.fixture
def plays(tmp_path: Path) -> Iterator[Plays]:
    """On the nodes that the pages name."""
    with Kubesim(scale=10) as sim:
        for name in ("node-1", "node-2", "node-3"):
            sim.add_node(name)
        sim.api.access.rules[TOKEN] = documented_rules()
        sim.add_vm("web", "node-1")
        yield Plays(sim, tmp_path)
        assert sim.leftovers() == []


@pytest.mark.parametrize("page", ["README.md", pytest.param("docs/start-kubevirt.md", marks=pytest.mark.full)])
def test_the_commands_of_the_page_print_what_it_shows(page: str, plays: Plays, tmp_path: Path) -> None:
    (tmp_path / "nodes.yml").write_text(readme.inventory("nodes.yml", page), encoding="utf-8")
    for command, printed in readme.sessions(page):
        done = plays.typed(command)
        assert done.returncode == 0, done.stdout
        shapes = {readme.shape(line) for line in done.stdout.splitlines()}
        for line in printed:
            assert readme.shape(line) in shapes, f"{line} is not in:\n{done.stdout}"
