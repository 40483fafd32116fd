from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests import migration_api


def vmi(**state: Any) -> dict[str, Any]:
    meta = {"namespace": "shop", "name": "web", "uid": "v1"}
    status = {"nodeName": "n1", "migrationState": {"migrationUid": "m1", **state}}
    return {"metadata": meta, "spec": {}, "status": status}


def migration(phase: str, deleted: bool = True) -> dict[str, Any]:
    meta = {"namespace": "shop", "name": "m", "uid": "m1"}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": {"vmiName": "web"}, "status": {"phase": phase}}


POD = {"metadata": {"namespace": "shop", "name": "target", "uid": "p1"}, "status": {}}


class Api:
    """`meanwhile`: what happens while the target pod is looked for."""

    def __init__(self, meanwhile: Callable[[Api], None] = lambda _api: None) -> None:
        self.vmi, self.migration = vmi(), migration("TargetReady")
        self._meanwhile = meanwhile
        self.deleted: list[str] = []

    def list(self, path: str, *_selected: str) -> tuple[list[dict[str, Any]], str]:
        if path.endswith("pods"):
            self._meanwhile(self)
            return [POD], ""
        return [copy.deepcopy(self.migration if path.endswith("migrations") else self.vmi)], ""

    def request(self, method: str, path: str, _body: Any, retry: bool = True) -> None:
        assert method == "DELETE" and not retry
        self.deleted.append(path.rsplit("/", 1)[-1])

    def end(self) -> list[str]:
        read, moving = copy.deepcopy((self.vmi, self.migration))
        migration_api.end_target(self, read, moving)  # type: ignore[arg-type]
        return self.deleted


def test_a_stuck_preparation_is_ended_by_its_target_pod() -> None:
    assert Api().end() == ["target"]


def test_a_target_pod_to_which_the_guest_has_come_meanwhile_is_left_alone() -> None:
    """The answers to the first reads may be tens of seconds old."""

    def begins(api: Api) -> None:
        api.vmi = vmi(startTimestamp="2026-01-01T00:00:01Z", mode="PostCopy")

    def runs(api: Api) -> None:
        api.migration = migration("Running")

    def is_another(api: Api) -> None:
        api.vmi["metadata"]["uid"] = "v2"

    assert [Api(it).end() for it in (begins, runs, is_another)] == [[], [], []]


def test_what_is_told_again_and_again_stays_the_same_text() -> None:
    """After the tenth of its kind client-go tells them together, and each try has a pod of its own."""
    text = 'Error creating pod: pods "virt-launcher-web-{}" is forbidden: maximum memory usage per Pod is 64Mi'
    told = [text.format("s69kr"), text.format("x2b7q"), f"(combined from similar events): {text.format('pn4nm')}"]
    found = {migration_api.settled(one) for one in told}
    assert found == {"Error creating pod: the target pod is forbidden: maximum memory usage per Pod is 64Mi"}
    kept = "Migration of virt-launcher-web-s69kr failed"
    assert migration_api.settled(kept) == kept
