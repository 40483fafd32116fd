"""What the preflight asks the API for: dry runs and rights. A right that is missing is named."""

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.pods.filters import PodOptions
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight import dry_runs
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests import rights
from ansible_collections.virtops.maintenance.tests.kubevirt.account import documented_rules
from ansible_collections.virtops.maintenance.tests.kubevirt.still_cluster import Still
from kubesim.reading import add_pod


def test_the_dry_runs_say_so_and_nothing_else_is_sent(still: Still) -> None:
    for number in range(3):
        still.vm(f"vm{number}")
    assert still.look()["findings"] == []
    posts = [call for call in still.sim.log if call.method != "GET"]
    evictions = [call for call in posts if call.path.endswith("/eviction")]
    assert len(evictions) == 3 and all("dryRun=All" in call.query for call in evictions)
    reviews = [call for call in posts if call.path == rights.REVIEWS]
    assert len(evictions) + len(reviews) == len(posts)


def test_the_documented_role_grants_every_right_that_is_asked_for() -> None:
    granted = {
        (group, resource, verb)
        for rule in documented_rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    wanted = (*dry_runs.RIGHTS, dry_runs.EVICTS_PODS, dry_runs.DELETES_PODS)
    asked = {(right.group, right.resource, right.verb) for right in wanted}
    assert asked - granted == set()


def test_a_namespace_that_is_being_deleted_is_no_missing_right(still: Still) -> None:
    """Its VMs end with it. Kubernetes refuses evictions there with a 403."""
    still.vm()
    text = 'pods "x" is forbidden: unable to create new content in namespace a because it is being terminated'
    still.sim.api.faults.plan(403, 9, lambda method, path: method == "POST" and path.endswith("/eviction"), text=text)
    assert Reason.Forbidden not in still.told()


def test_who_may_not_even_look_is_told_what_is_missing(still: Still) -> None:
    still.vm()
    still.forbid("pods")
    told = still.look()
    assert any("list pods" in line for line in told["blockers"])
    assert any("Everything else" in line for line in told["cautions"])


def test_rights_in_the_namespace_of_the_vms_are_enough(still: Still, monkeypatch) -> None:
    """A role binding instead of a cluster role binding."""
    still.vm()
    asked = rights._allowed

    def only_there(client: Any, right: Any, namespace: str) -> bool:
        return asked(client, right, namespace) and (right.everywhere or namespace == "default")

    monkeypatch.setattr(rights, "_allowed", only_there)
    assert still.look()["findings"] == []


def test_who_may_not_make_other_pods_go_is_told_where(still: Still, monkeypatch) -> None:
    """A role binding in the namespace of the VMs does not do for pods of another one."""
    still.vm(space="shop")
    add_pod(still.sim, "web", "n1")
    asked = rights._allowed

    def only_there(client: Any, right: Any, namespace: str) -> bool:
        return asked(client, right, namespace) and (right.everywhere or namespace == "shop")

    monkeypatch.setattr(rights, "_allowed", only_there)
    row = still.told()[Reason.Forbidden]
    assert row["message"] == "create pods/eviction in default (to ask the other pods to leave)."
    row = still.told(pods=PodOptions(disable_eviction=True))[Reason.Forbidden]
    assert row["message"].startswith("delete pods in default ")
