"""The bare API: lists, pages, watches, patches, rights, as a real API server was seen to answer."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from kubesim import Kubesim
from kubesim.kinds import NODES

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
VMIS_PATH = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"


@pytest.fixture(scope="module")
def sim() -> Iterator[Kubesim]:
    with Kubesim(scale=10) as cluster:
        for name in ("n1", "n2"):
            cluster.add_node(name)
        cluster.add_vm("v1", "n1")
        cluster.add_vm("v2", "n1")
        yield cluster


def ask(
    sim: Kubesim, method: str, path: str, body: Any = None, kind: str = "", token: str = "admin"
) -> tuple[int, Any, Any]:
    accept = "*/*" if "subresources" in path else "application/json"
    headers = {"Authorization": f"Bearer {token}", "Accept": accept}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = kind or "application/json"
    request = urllib.request.Request(sim.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10, context=sim.trust) as response:
            code, raw, told = response.status, response.read(), response.headers
    except urllib.error.HTTPError as exc:
        code, raw, told = exc.code, exc.read(), exc.headers
    text = raw.decode()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return code, lines[0] if len(lines) == 1 and "type" not in lines[0] else lines, told


def test_pages(sim: Kubesim) -> None:
    code, first, _headers = ask(sim, "GET", f"{VMIS_PATH}?limit=1")
    assert code == 200 and len(first["items"]) == 1
    after = first["metadata"]["continue"]
    assert first["metadata"]["remainingItemCount"] == 1
    _code, second, _headers = ask(sim, "GET", f"{VMIS_PATH}?limit=1&continue={after}")
    assert "continue" not in second["metadata"]
    names = [page["items"][0]["metadata"]["name"] for page in (first, second)]
    assert names == ["v1", "v2"]


def test_a_watch_from_too_far_back_is_200_with_one_error(sim: Kubesim) -> None:
    path = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=1"
    code, events, _headers = ask(sim, "GET", path)
    assert code == 200 and len(events) == 1
    assert events[0]["type"] == "ERROR"
    assert (events[0]["object"]["code"], events[0]["object"]["reason"]) == (410, "Expired")


def test_a_watch_ends_with_a_bookmark(sim: Kubesim) -> None:
    _code, listed, _headers = ask(sim, "GET", "/api/v1/pods")
    version = listed["metadata"]["resourceVersion"]
    path = f"/api/v1/pods?watch=true&resourceVersion={version}&timeoutSeconds=1"
    _code, events, _headers = ask(sim, "GET", path + "&allowWatchBookmarks=true")
    assert events[-1]["type"] == "BOOKMARK"
    code, events, _headers = ask(sim, "GET", path)
    assert (code, events) == (200, [])


def test_a_list_as_a_watch(sim: Kubesim) -> None:
    path = f"{VMIS_PATH}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true"
    match = "&resourceVersionMatch=NotOlderThan"
    _code, events, _headers = ask(sim, "GET", f"{path}&sendInitialEvents=true{match}")
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK", "BOOKMARK"]
    notes = [event["object"]["metadata"].get("annotations", {}) for event in events]
    assert notes[2] == {"k8s.io/initial-events-end": "true"} and notes[3] == {}
    code, body, _headers = ask(sim, "GET", f"{path}&sendInitialEvents=true")
    assert code == 422 and "requires setting resourceVersionMatch" in body["message"]
    sim.api.streams_lists = False  # as of 1.33
    code, body, _headers = ask(sim, "GET", f"{path}&sendInitialEvents=true{match}")
    sim.api.streams_lists = True
    assert code == 422 and body["details"]["causes"][0]["field"] == "sendInitialEvents"


def test_a_list_of_the_future_is_504(sim: Kubesim) -> None:
    code, body, headers = ask(sim, "GET", "/api/v1/pods?resourceVersion=99999999")
    assert (code, body["reason"], headers["Retry-After"]) == (504, "Timeout", "1")


def test_selectors(sim: Kubesim) -> None:
    def names(query: str) -> list[str]:
        _code, body, _headers = ask(sim, "GET", f"{VMIS_PATH}?{query}")
        return [item["metadata"]["name"] for item in body["items"]]

    assert names("labelSelector=app%20in%20(v1,v9)") == ["v1"]
    assert names("labelSelector=app!=v1,kubevirt.io/nodeName=n1") == ["v2"]
    assert names("labelSelector=!nosuch") == ["v1", "v2"]
    assert names("fieldSelector=metadata.name=v2") == ["v2"]
    code, _body, _headers = ask(sim, "GET", f"{VMIS_PATH}?fieldSelector=status.nodeName=n1")
    assert code == 400


def test_patches(sim: Kubesim) -> None:
    node, vmi = "/api/v1/nodes/n1", f"{VMIS_PATH}/v1"
    assert ask(sim, "PATCH", vmi, {"metadata": {}}, STRATEGIC)[0] == 415
    wrong = [{"op": "test", "path": "/metadata/name", "value": "x"}]
    code, body, _headers = ask(sim, "PATCH", node, wrong, JSON_PATCH)
    assert code == 422
    assert body["message"] == "the server rejected our request due to an error in our request"
    code, body, _headers = ask(sim, "PATCH", vmi, {"status": {"evacuationNodeName": "n1"}}, MERGE)
    assert code == 200 and "evacuationNodeName" not in body["status"]
    assert ask(sim, "PATCH", f"{vmi}/status", {}, MERGE)[0] == 404
    two = [{"key": key, "effect": "NoSchedule"} for key in ("a", "b")]
    ask(sim, "PATCH", node, {"spec": {"taints": two}}, STRATEGIC)
    _code, body, _headers = ask(sim, "PATCH", node, {"spec": {"taints": two[:1]}}, STRATEGIC)
    assert body["spec"]["taints"] == two[:1]  # there is no merge key: the list is replaced
    ask(sim, "PATCH", node, {"spec": {"taints": None}}, MERGE)


def test_a_stale_write_is_409(sim: Kubesim) -> None:
    _code, node, _headers = ask(sim, "GET", "/api/v1/nodes/n2")
    sim.edit(NODES, "n2", lambda o: o["metadata"]["labels"].update(some="change"))
    assert ask(sim, "PUT", "/api/v1/nodes/n2", node)[0] == 409
    old = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}}
    code, body, _headers = ask(sim, "PATCH", "/api/v1/nodes/n2", old, MERGE)
    assert (code, body["reason"]) == (409, "Conflict")


def test_rights(sim: Kubesim) -> None:
    cancel = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/v1"
    group, long = "subresources.kubevirt.io", "virtualmachineinstances/evacuate/cancel"
    rules = {"apiGroups": [group], "verbs": ["update"]}
    sim.api.access.rules["long"] = [{**rules, "resources": [long]}]
    sim.api.access.rules["short"] = [{**rules, "resources": ["virtualmachineinstances/evacuate"]}]
    code, body, _headers = ask(sim, "PUT", f"{cancel}/evacuate/cancel", {}, token="long")
    assert code == 403 and "virtualmachineinstances/evacuate" in body["message"]
    code, body, _headers = ask(sim, "PUT", f"{cancel}/evacuate/cancel", {}, token="short")
    assert (code, body) == (401, [])
    asked = {"verb": "get", "resource": "nodes"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"resourceAttributes": asked}}
    code, body, _headers = ask(sim, "POST", path, body, token="short")
    assert (code, body["status"]) == (201, {"allowed": False})
    assert ask(sim, "GET", "/api/v1/nodes", token="nobody")[0] == 401


def test_everybody_who_is_known_reads_kubevirt(sim: Kubesim) -> None:
    """And nobody else: without a token it is forbidden, with a wrong one nobody is known."""
    rule = {"apiGroups": [""], "resources": ["none"], "verbs": ["get"]}
    sim.api.access.rules["known"] = [rule]
    for path in ("/apis/kubevirt.io/v1/kubevirts", "/apis/subresources.kubevirt.io/v1/version"):
        codes = [ask(sim, "GET", path, token=token)[0] for token in ("known", "", "unknown")]
        assert codes == [200, 403, 401]


def test_a_token_that_has_expired(sim: Kubesim) -> None:
    sim.api.access.rules["short-lived"] = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    assert ask(sim, "GET", "/api/v1/nodes/n1", token="short-lived")[0] == 200
    sim.api.access.expired.add("short-lived")
    code, body, _headers = ask(sim, "GET", "/api/v1/nodes/n1", token="short-lived")
    assert (code, body["message"], body["reason"]) == (401, "Unauthorized", "Unauthorized")


def test_a_refusal_in_the_words_of_the_real_one(sim: Kubesim) -> None:
    """Rights come from ClusterRole and ClusterRoleBinding objects, made through the API."""
    user, group = "system:serviceaccount:t18:limited", "rbac.authorization.k8s.io"
    root = f"/apis/{group}/v1"
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"], "resourceNames": ["n1"]}
    role = {"metadata": {"name": "limited"}, "rules": [rule]}
    assert ask(sim, "POST", f"{root}/clusterroles", role)[0] == 201
    binding = {
        "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"kind": "ServiceAccount", "name": "limited", "namespace": "t18"}],
    }
    assert ask(sim, "POST", f"{root}/clusterrolebindings", binding)[0] == 201
    assert ask(sim, "GET", "/api/v1/nodes/n1", token=user)[0] == 200
    assert ask(sim, "GET", "/api/v1/nodes/n2", token=user)[0] == 403
    code, body, _headers = ask(sim, "PATCH", "/api/v1/nodes/n1", {}, MERGE, token=user)
    assert (code, body["reason"], body["details"]) == (403, "Forbidden", {"name": "n1", "kind": "nodes"})
    assert body["message"] == (
        f'nodes "n1" is forbidden: User "{user}" cannot patch resource "nodes" in API group "" at the cluster scope'
    )
    path = "/api/v1/namespaces/t18/pods/p/eviction"
    _code, body, _headers = ask(sim, "POST", path, {}, token=user)
    assert body["message"] == (
        f'pods "p" is forbidden: User "{user}" cannot create resource "pods/eviction" '
        'in API group "" in the namespace "t18"'
    )
    path = "/apis/kubevirt.io/v1/namespaces/t18/virtualmachineinstances"
    _code, body, _headers = ask(sim, "GET", path, token=user)
    assert body["message"] == (
        f'virtualmachineinstances.kubevirt.io is forbidden: User "{user}" cannot list resource '
        '"virtualmachineinstances" in API group "kubevirt.io" in the namespace "t18"'
    )
    assert body["details"] == {"group": "kubevirt.io", "kind": "virtualmachineinstances"}


def test_discovery_says_that_pods_can_be_evicted(sim: Kubesim) -> None:
    """Else kubectl drain deletes them."""
    _code, body, _headers = ask(sim, "GET", "/api/v1")
    found = {r["name"]: r for r in body["resources"]}["pods/eviction"]
    assert (found["group"], found["version"], found["kind"]) == ("policy", "v1", "Eviction")
    _code, body, _headers = ask(sim, "GET", "/apis")
    assert "policy" in {group["name"] for group in body["groups"]}


def test_a_server_that_restarts_is_away_then_not_ready_then_denies_everything() -> None:
    with Kubesim(scale=0) as sim:
        sim.add_node("n1")
        faults = sim.api.faults
        sim.restart(1e6)
        with pytest.raises((urllib.error.URLError, ConnectionError, http.client.HTTPException)):
            ask(sim, "GET", "/api/v1/nodes/n1")
        assert faults.away_until < faults.starting_until < faults.blank_until
        faults.away_until = 0.0
        assert ask(sim, "GET", "/api/v1/nodes/n1")[0] == 503
        faults.starting_until = 0.0
        code, told, _headers = ask(sim, "GET", "/api/v1/nodes/n1")
        assert (code, told["reason"]) == (403, "Forbidden") and 'nodes "n1" is forbidden' in told["message"]
        faults.blank_until = 0.0
        assert ask(sim, "GET", "/api/v1/nodes/n1")[0] == 200
