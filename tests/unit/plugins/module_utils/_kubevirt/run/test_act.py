"""Acts through the API are tested in tests/kubevirt. Here: that none was forgotten, and what
changes between a look and an act.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import Instance
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.act import NO_COUNTERPART, Actor


def test_every_action_of_the_core_is_known_or_has_no_counterpart() -> None:
    nothing: Any = SimpleNamespace(watches=None)
    actor = Actor(nothing, nothing, nothing, lambda: "now")
    assert set(actor._acts) == set(Do) - NO_COUNTERPART
    for do in NO_COUNTERPART:
        found = actor.apply(Action(do, "n1", "u1"), NodeRecord("n1", "run"))
        assert found is not None
        assert "no counterpart" in found.message


class Api:
    """One VMI on n1. `meanwhile` (what was asked, the Api): what happens after each request."""

    def __init__(self, strategy: str, meanwhile: Callable[[str, Api], None]) -> None:
        meta = {"namespace": "shop", "name": "web", "uid": "v1", "resourceVersion": "1"}
        self.vmi: dict[str, Any] = {"metadata": meta, "spec": {"evictionStrategy": strategy}}
        self.vmi["status"] = {"phase": "Running", "nodeName": "n1"}
        self.migratable("True")
        self._meanwhile = meanwhile
        self.later: dict[str, Any] = {}
        self.asked: list[str] = []
        self.stopped = self.retried = False

    def migratable(self, status: str) -> None:
        self.vmi["status"]["conditions"] = [{"type": "LiveMigratable", "status": status}]

    def change(self, **status: Any) -> None:
        self.vmi["status"].update(status)
        version = int(self.vmi["metadata"]["resourceVersion"])
        self.vmi["metadata"]["resourceVersion"] = str(version + 1)

    def find(self, _path: str) -> dict[str, Any]:
        return self._answer("GET")

    def request(self, method: str, _path: str, body: Any, _query: Any = None, **options: Any) -> dict[str, Any]:
        wanted = body.get("preconditions", {}).get("resourceVersion")
        if method == "DELETE":
            self.retried = options.get("retry", True)
            if wanted not in (None, self.vmi["metadata"]["resourceVersion"]):
                self._answer("DELETE 409")
                raise KubeError(409, "changed")
            self.stopped = True
        elif method == "PATCH":
            self.vmi["metadata"]["annotations"] = body["metadata"]["annotations"]
            self.change()
        return self._answer(method)

    def gone(self, method: str, path: str, body: Any) -> None:
        self.request(method, path, body)

    def _answer(self, what: str) -> dict[str, Any]:
        found = copy.deepcopy(self.vmi)
        self.asked.append(what)
        self._meanwhile(what, self)
        return found

    def act(self, do: Do) -> Any:
        """As an actor whose watch tells what was so before any request."""
        watched = [copy.deepcopy(self.vmi)]
        seen = SimpleNamespace(put=lambda _obj: None, items=lambda: watched)
        pod = {"metadata": {"namespace": "shop", "name": "launcher", "uid": "p1"}, "status": {}}
        pod["metadata"]["labels"] = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "v1"}
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        pod["spec"] = {"nodeName": "n1"}
        observer: Any = SimpleNamespace(
            node="n1",
            watches=SimpleNamespace(vmis=seen, need_pods=lambda: [pod]),
            cluster=SimpleNamespace(version=(1, 8), default_strategy="None"),
            unfinished=lambda _uuid: [],
            of=lambda _uuid: [],
            evicted={},
        )
        records: Any = SimpleNamespace(instances={"u1": Instance("shop", "web", "v1")})
        client: Any = self
        actor = Actor(client, observer, records, lambda: "now")
        return actor.apply(Action(do, "n1", "u1"), NodeRecord("n1", "run"))


def test_a_vm_that_moves_while_it_is_asked_to_stop_is_not_stopped_where_it_went() -> None:
    for moment in ("PATCH", "POST"):  # its signature; then the Event that tells of it

        def moves(what: str, api: Api, moment: str = moment) -> None:
            if what == moment:
                api.change(nodeName="n2")

        api = Api("LiveMigrate", moves)
        assert api.act(Do.SHUTDOWN) is None and not api.stopped


def test_a_vm_whose_state_changes_while_it_is_asked_to_stop_is_stopped() -> None:
    api = Api("LiveMigrate", lambda what, api: api.change() if what == "POST" else None)
    assert api.act(Do.SHUTDOWN) is None and api.stopped
    assert api.asked[-3:] == ["DELETE 409", "GET", "DELETE"]


def test_a_stop_that_is_not_answered_is_not_asked_for_blindly_again() -> None:
    def lost(what: str, _api: Api) -> None:
        if what == "DELETE":
            raise KubeError(0, "no answer")

    api = Api("LiveMigrate", lost)
    assert api.act(Do.SHUTDOWN).reason is Reason.APIError
    assert api.asked.count("DELETE") == 1 and not api.retried


def signed(strategy: str, meanwhile: Callable[[str, Api], None]) -> Api:
    """In the second attempt of a run: what is signed is not written, nor read, again."""
    api = Api(strategy, meanwhile)
    note = json.dumps({"run": "run", "what": "evacuation"})
    api.vmi["metadata"]["annotations"] = {names.REQUEST: note}
    return api


def test_a_guest_that_cannot_be_migrated_any_more_is_not_evicted() -> None:
    """A watch may lag, and KubeVirt would stop a LiveMigrateIfPossible guest."""
    api = signed("LiveMigrateIfPossible", lambda _what, _api: None)
    read = api.find

    def since(path: str) -> dict[str, Any]:
        api.migratable("False")
        return read(path)

    api.find = since  # type: ignore[method-assign]
    assert api.act(Do.MIGRATE).reason is Reason.MigratableNotKnown
    assert api.asked == ["GET"]


def test_others_are_evicted_without_another_read() -> None:
    api = signed("LiveMigrate", lambda _what, _api: None)
    assert api.act(Do.MIGRATE) is None and api.asked == ["POST"]
