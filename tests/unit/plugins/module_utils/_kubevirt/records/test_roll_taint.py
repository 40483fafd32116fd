"""Nodes that a roll has still to empty have a taint; what others have there stays."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage, State
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import RollLease

BUSY = {"key": "busy", "effect": "NoExecute"}
KEY = "virtops.maintenance/roll"


class Api:
    """Three nodes and the Lease. `others`: how often somebody else writes a node between two requests of ours."""

    def __init__(self) -> None:
        self.nodes = {name: {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {}} for name in "abc"}
        self.lease: dict[str, Any] | None = None
        self.others = 0
        self.refuses: int | None = None
        self.lost = False  # is a write of the Lease the second of two?
        self.log: list[str] = []

    def find(self, path: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.nodes.get(path.rpartition("/")[2]))

    def list(self, path: str) -> tuple[list[dict[str, Any]], str]:
        assert path.endswith("/nodes")
        return copy.deepcopy([*self.nodes.values()]), "1"

    def merge(self, path: str, patch: dict[str, Any]) -> None:
        node = self.nodes[path.rpartition("/")[2]]
        if self.refuses:
            raise KubeError(self.refuses, "no", "PATCH")
        if self.others:
            self.others -= 1
            node["metadata"]["resourceVersion"] += "+"
        if patch["metadata"]["resourceVersion"] != node["metadata"]["resourceVersion"]:
            raise KubeError(409, "changed", "PATCH")
        node["spec"].update(patch["spec"])
        self.log.append(path.rpartition("/")[2])

    def request(self, _method: str, _path: str, body: dict[str, Any], **_options: Any) -> None:
        if self.lost:
            raise KubeError(409, "changed", "PUT")
        self.lease = body
        self.log.append("lease")

    @property
    def tainted(self) -> str:
        found = {name: node["spec"].get("taints") or [] for name, node in self.nodes.items()}
        return "".join(name for name, taints in found.items() if any(taint["key"] == KEY for taint in taints))


def roll(*stages: str, state: str = "running") -> Roll:
    hosts = {name: HostEntry(name, Stage(stage)) for name, stage in zip("abc", stages, strict=True)}
    return Roll("7f3a", "run", "", "", "", hosts=hosts, state=State(state))


@pytest.fixture
def api() -> Api:
    return Api()


def write(api: Api, now: Roll) -> bool:
    return RollLease(api, "default").write(now, api.lease)  # type: ignore[arg-type]


def begun(api: Api) -> None:
    assert write(api, roll("waiting", "waiting", "waiting"))
    assert write(api, roll("draining", "waiting", "waiting"))
    assert api.tainted == "abc"


def test_it_is_put_with_the_first_host_and_taken_away_with_each(api: Api) -> None:
    api.nodes["b"]["spec"]["taints"] = [BUSY]
    begun(api)
    assert api.nodes["b"]["spec"]["taints"] == [BUSY, {"key": KEY, "value": "7f3a", "effect": "PreferNoSchedule"}]
    assert api.log == ["lease", "lease", "a", "b", "c"]
    api.log.clear()
    write(api, roll("draining", "waiting", "waiting"))  # renewed
    assert api.log == ["lease"]
    write(api, roll("done", "draining", "waiting"))
    assert (api.log, api.tainted) == (["lease", "a", "lease"], "bc")
    write(api, roll("done", "done", "done", state="ended"))
    assert (api.tainted, api.nodes["b"]["spec"]["taints"]) == ("", [BUSY])


@pytest.mark.parametrize("state", ["stopped", "aborting", "paused", "ended", "refused"])
def test_of_a_roll_that_does_not_go_on_none_stays(api: Api, state: str) -> None:
    """Not even where a write was lost after the node had been changed."""
    begun(api)
    write(api, roll("done", "waiting", "waiting"))
    api.nodes["a"]["spec"]["taints"] = [{"key": KEY, "value": "7f3a", "effect": "PreferNoSchedule"}]
    write(api, roll("done", "waiting", "waiting", state=state))
    assert api.tainted == ""


def test_what_an_aborted_playbook_puts_late_does_not_stay(api: Api) -> None:
    """It was putting them while the abort took away those that were there."""
    begun(api)
    write(api, roll("draining", "waiting", "waiting", state="aborting"))
    api.nodes["b"]["spec"]["taints"] = [{"key": KEY, "value": "7f3a", "effect": "PreferNoSchedule"}]
    write(api, roll("waiting", "waiting", "waiting", state="aborted"))
    assert api.tainted == ""


def test_what_a_roll_left_whose_record_was_deleted_goes_with_the_next_one(api: Api) -> None:
    begun(api)
    api.lease = None
    api.nodes["d"] = {"metadata": {"name": "d", "resourceVersion": "1"}, "spec": {"taints": [BUSY, {"key": KEY}]}}
    begun_now = {name: HostEntry(name, Stage.WAITING) for name in "ab"}
    assert write(api, Roll("99", "run", "", "", "", hosts=begun_now))
    assert write(api, Roll("99", "run", "", "", "", hosts={**begun_now, "a": HostEntry("a", Stage.DRAINING)}))
    assert (api.tainted, api.nodes["d"]["spec"]["taints"]) == ("ab", [BUSY])


def test_who_loses_the_write_puts_none(api: Api) -> None:
    assert write(api, roll("waiting", "waiting", "waiting"))
    api.lost = True
    assert not write(api, roll("draining", "waiting", "waiting"))
    assert api.tainted == ""


def test_others_may_write_the_node_at_the_same_time(api: Api) -> None:
    api.others = 3
    begun(api)


def test_an_account_that_may_not_has_its_roll_without(api: Api) -> None:
    api.refuses = 403
    assert write(api, roll("waiting", "waiting", "waiting"))
    assert write(api, roll("draining", "waiting", "waiting"))
    assert (api.tainted, api.log) == ("", ["lease", "lease"])
    assert write(api, roll("done", "done", "done", state="ended"))


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "always written by others"])
def test_one_that_cannot_be_taken_away_is_an_error_and_not_forgotten(api: Api, refused: bool) -> None:
    begun(api)
    api.refuses, api.others = (403, 0) if refused else (None, 100)
    with pytest.raises(KubeError):
        write(api, roll("done", "done", "done", state="ended"))
    assert api.lease is not None
    assert '"state":"running"' in json.dumps(json.loads(api.lease["metadata"]["annotations"][names.ROLL])).replace(
        " ", ""
    )


def test_a_node_that_is_gone_has_none(api: Api) -> None:
    begun(api)
    del api.nodes["c"]
    assert write(api, roll("done", "done", "done", state="ended"))
    assert api.tainted == ""
