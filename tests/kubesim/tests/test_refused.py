"""Writes that a real API server refuses, and the few beside them that it takes.

refused.json has 35 with the recorded answers: status, message, reason, details, Warning. What the
real one lists twice among the causes is there once. `...`: an echo of the whole object follows.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesim import Kubesim
from kubesim.answers import ApiError
from kubesim.kinds import KINDS

WRITES = json.loads((Path(__file__).parent / "refused.json").read_text(encoding="utf-8"))
REPEATED = "x repeated 262200 times"
MERGE = "application/merge-patch+json"
Obj = dict[str, Any]


@pytest.fixture(scope="module")
def sim() -> Iterator[Kubesim]:
    with Kubesim(scale=0) as cluster:
        cluster.add_node("n1")
        yield cluster


def ask(sim: Kubesim, method: str, path: str, body: Any, kind: str = "application/json") -> tuple[int, Obj, Any]:
    text = json.dumps(body).replace(REPEATED, "x" * 262200)
    headers = {"Authorization": "Bearer admin", "Content-Type": kind}
    request = urllib.request.Request(sim.url + path, text.encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10, context=sim.trust) as response:
            return response.status, json.loads(response.read()), response.headers
    except urllib.error.HTTPError as exc:
        return exc.code, json.loads(exc.read()), exc.headers


def versions(sim: Kubesim) -> list[tuple[str, str]]:
    return [(o["kind"], o["metadata"]["resourceVersion"]) for kind in KINDS for o in sim.all(kind)]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write["why"])
def test_it_answers_a_write_as_the_real_one(sim: Kubesim, write: Obj) -> None:
    before = versions(sim)
    path = f"{write['path']}?{write['query']}"
    code, body, headers = ask(sim, write["method"], path, write["body"], write["type"])
    assert code == write["status"], body
    if code >= 300:
        assert body.get("reason") == write.get("reason")
        wanted = write["message"]
        told = body["message"]
        assert told.startswith(wanted.removesuffix("...")) if _cut(write) else told == wanted
        assert _details(body, write) == write.get("details", {})
    assert headers.get("Warning") == write.get("warning")
    assert versions(sim) == before, "a dry run wrote"


def _cut(write: Obj) -> bool:
    return bool(write["message"].endswith("{..."))


def _details(body: Obj, write: Obj) -> Obj:
    found = body.get("details", {})
    if _cut(write):
        for cause in found["causes"]:
            del cause["message"]
    return dict(found)


def test_nearly_all_of_them_are_refused() -> None:
    assert len(WRITES) == 35
    assert sum(write["status"] >= 300 for write in WRITES) == 32


def pod(**more: Any) -> Obj:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}, **more}


@pytest.mark.parametrize(
    ("path", "body", "code", "text"),
    [
        ("pods", pod(spec={"containers": "c"}), 400, "cannot unmarshal string into Go struct field"),
        ("pods", pod(metadata={}), 422, "metadata.name: Required value: name or generateName"),
        ("pods", pod(apiVersion="v2"), 400, "does not match the expected API version (v1)"),
        ("pods?fieldValidation=Strict", pod(surprise=1), 400, 'unknown field "surprise"'),
        ("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": ["pods"]}}, 400, "array"),
        (
            "persistentvolumeclaims",
            {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}},
            422,
            "spec.accessModes: Required value",
        ),
    ],
)
def test_more_that_is_refused(sim: Kubesim, path: str, body: Obj, code: int, text: str) -> None:
    got, answer, _headers = ask(sim, "POST", f"/api/v1/namespaces/default/{path}", body)
    assert (got, text in answer["message"]) == (code, True), answer


def test_a_custom_resource_is_replaced_only_by_its_version(sim: Kubesim) -> None:
    root = "/apis/migrations.kubevirt.io/v1alpha1/migrationpolicies"
    head = {"apiVersion": "migrations.kubevirt.io/v1alpha1", "kind": "MigrationPolicy"}
    policy = {**head, "metadata": {"name": "one"}, "spec": {"selectors": {}}}
    assert ask(sim, "POST", root, policy)[0] == 201
    code, body, _headers = ask(sim, "PUT", f"{root}/one", policy)
    assert (code, body["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    code, body, _headers = ask(sim, "PATCH", f"{root}/one", {"spec": {"selectors": None}}, MERGE)
    assert (code, body["details"]["causes"][0]["field"]) == (422, "spec.selectors")


def test_a_pod_is_pending_whatever_its_maker_says(sim: Kubesim) -> None:
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    _code, made, _headers = ask(sim, "POST", path, pod(status={"phase": "Running"}))
    assert made["status"]["phase"] == "Pending"


def test_tests_too_put_only_into_it_what_is_valid(sim: Kubesim) -> None:
    with pytest.raises(ApiError, match="accessModes"):
        sim.add("persistentvolumeclaims", {"metadata": {"name": "c", "namespace": "default"}})
    with pytest.raises(ApiError, match="unknown field"):
        sim.add("pods", pod(surprise=1))
