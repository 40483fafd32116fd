"""What a new record takes from the platform, and keeps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import start

POOL = "storage pool nfs"


def platform(*provides: str) -> Any:
    return SimpleNamespace(boot_id="b", now=lambda: 1.0, wall=lambda: "", provides=lambda: provides)


def request(run_id: str, only: str = "") -> Any:
    asked = {"node": "a", "policy": Policy(), "intent": Intent.DRAINED, "run_id": run_id, "begun": False}
    return SimpleNamespace(**asked, of_roll=False, requester="", reason="", only=only, to="")


def test_a_new_record_knows_what_the_host_provided() -> None:
    """And keeps it: the run that carries on after the reboot must not take what is left for all there was."""
    record = start(platform(POOL), request("one"), None)
    assert record.provides == [POOL]
    record = NodeRecord.from_json(record.to_json())
    assert start(platform(), request("two"), record).provides == [POOL]


def test_the_record_of_one_migration_does_not() -> None:
    assert start(platform(POOL), request("one", only="u1"), None).provides == []
