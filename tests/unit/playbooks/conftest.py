# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

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
