"""One collection with stand-ins for all tests, compiled once. What a test gives and sees is in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.tests.unit.playbooks.stand_ins import Roll, collection


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collection(tmp_path_factory.mktemp("collections"))


@pytest.fixture
def roll(tmp_path: Path, collections: Path) -> Roll:
    return Roll(tmp_path, collections)
