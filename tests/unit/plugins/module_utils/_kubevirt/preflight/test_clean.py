"""No false alarm: clean clusters as their API shows them, through all that the preflight reads."""

from __future__ import annotations

from typing import Any

import pytest
from clean_clusters import Clean

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import check, result
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import DirtyRates
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import quotas as preflight_limits
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.observe import control_node
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import gather
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests import rights
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.work import Request

POLICY = Policy()


class Server:
    """Answers as a server whose evictions find nothing in their way; what writes is an error."""

    server = "https://192.0.2.1:6443"

    def __init__(self, cluster: Clean) -> None:
        self.cluster = cluster

    def list(self, path: str) -> tuple[list[Any], str]:
        return self.cluster.objects.get(path.rsplit("/", 1)[1], []), "1"

    def request(self, method: str, path: str, body: Any = None, query: Any = None, **_more: Any) -> Any:
        if path == rights.REVIEWS:
            return {"status": {"allowed": True}}
        if path.endswith("/eviction") and query == {"dryRun": "All"}:
            raise KubeError(429, 'denied the request: Eviction triggered evacuation of VMI "x"')
        assert method == "GET", (method, path)
        return {}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is none of the VMs."""
    monkeypatch.setattr(control_node, "own_uuid", lambda: "")
    monkeypatch.setattr(control_node, "own_address", lambda _server: "")


def look(cluster: Clean) -> dict[str, Any]:
    client: Any = Server(cluster)
    request = Request({}, "n1", POLICY, Intent.DRAINED, "preflight")
    found = gather(client, request, DirtyRates())
    return result(found, check(found, POLICY), {})


@pytest.mark.parametrize("hundred", [0, 1])
def test_no_false_alarm_on_200_clean_clusters(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        told = look(Clean(seed))
        assert told["findings"] == [], (seed, told["blockers"], told["cautions"])
        assert told["vms_checked"] >= 1


def test_they_have_what_looks_like_trouble() -> None:
    """Else they would be clean for want of anything."""
    clusters = [Clean(seed) for seed in range(200)]
    pods = [pod for one in clusters for pod in one.objects["pods"]]
    nodes = [node for one in clusters for node in one.objects["nodes"]]
    quotas = [quota for one in clusters for quota in one.objects.get("resourcequotas", [])]
    budgets = [b["metadata"]["name"] for o in clusters for b in o.objects.get("poddisruptionbudgets", [])]
    assert sum(pod["status"]["phase"] == "Succeeded" for pod in pods) > 100
    assert sum(any(t["effect"] == "NoSchedule" for t in n["spec"]["taints"]) for n in nodes) > 100
    assert sum("scopes" in q["spec"] or "scopeSelector" in q["spec"] for q in quotas) > 100
    assert budgets.count("web") > 20


@pytest.mark.parametrize(
    ("what", "code"),
    [("taints", "NoTargetTolerated"), ("room", "NoTarget"), ("quota", "QuotaExceeded"), ("budget", "DisruptionBudget")],
)
def test_the_same_clusters_with_one_thing_wrong_are_told(what: str, code: str) -> None:
    """The clean ones are not clean because nothing is looked at."""
    for seed in range(20):
        cluster = Clean(seed)
        spoil(cluster, what)
        codes = {row["code"] for row in look(cluster)["findings"]}
        assert any(name.startswith(code) for name in codes), (seed, codes)


def spoil(cluster: Clean, what: str) -> None:
    space = next(p for p in cluster.objects["pods"] if p["spec"]["nodeName"] == "n1")["metadata"]["namespace"]
    for node in cluster.objects["nodes"]:
        if what == "taints":
            node["spec"]["taints"].append({"key": "mine", "value": "x", "effect": "NoExecute"})
        elif what == "room":
            node["status"]["allocatable"]["memory"] = "64Mi"
    for pod in cluster.objects["pods"] if what == "taints" else ():
        pod["spec"].pop("tolerations", None)
    for vmi in cluster.objects["virtualmachineinstances"] if what == "taints" else ():
        vmi["spec"].pop("tolerations", None)
    if what == "quota":
        cluster.add("resourcequotas", "tight", space, {"spec": {"hard": {"pods": "0"}}})
    elif what == "budget":
        body = {"spec": {"selector": {}, "maxUnavailable": 1}}
        cluster.add("poddisruptionbudgets", "never", space, body)


@pytest.mark.parametrize(
    ("affinity", "counts"),
    [
        ({}, False),
        ({"podAntiAffinity": [{"topologyKey": "zone"}]}, False),
        ({"podAffinity": [{"namespaces": ["shop"]}]}, True),
        ({"podAntiAffinity": [{"namespaceSelector": {}}]}, True),
    ],
)
def test_a_quota_of_affinity_across_namespaces_counts_pods_that_have_it(affinity: dict[str, Any], counts: bool) -> None:
    scope = {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]}
    spec = {"hard": {"pods": "0"}, "scopeSelector": scope}
    must, may = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
    for wrapped in (
        {kind: {must: terms} for kind, terms in affinity.items()},
        {kind: {may: [{"podAffinityTerm": t} for t in terms]} for kind, terms in affinity.items()},
    ):
        pod = {"spec": {"affinity": wrapped}}
        quota = {"metadata": {"name": "q"}, "spec": spec}
        assert bool(preflight_limits.quotas_left([quota], pod, lambda _resource: 0.0)) is counts
