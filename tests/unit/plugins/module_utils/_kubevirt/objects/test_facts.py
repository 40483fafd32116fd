from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    NodeRecord,
    RecordError,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth, client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import facts, names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records import node_record
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests import eviction

HOOK = 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '


def vmi(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "shop", "uid": "v1"}, "status": status}


def migration(uid: str = "m2", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "m", "namespace": "shop", "uid": uid}, "status": status}


def test_the_state_of_the_migration_before_is_not_this_ones() -> None:
    old = {"migrationUid": "m1", "failed": True, "mode": "PostCopy"}
    assert facts.state_of(vmi(migrationState=old), migration("m2", phase="Pending")) == {}
    assert facts.job(vmi(migrationState=old), migration("m2"), None, True).mode.value == "PreCopy"
    assert facts.state_of(vmi(migrationState=old), migration("m1")) == old


@pytest.mark.parametrize(
    ("code", "text", "answer", "reason"),
    [
        (429, HOOK + 'Eviction triggered evacuation of VMI "a/b"', "marked", None),
        (429, HOOK + 'Evacuation in progress: Eviction triggered evacuation of VMI "a/b"', "in_progress", None),
        (
            429,
            HOOK + "VMI b is configured with an eviction strategy but is not live-migratable",
            "not_migratable",
            Reason.MigratableNotKnown,
        ),
        (429, HOOK + "Eviction request for target Pod", "target_pod", Reason.InboundMigration),
        (429, "cannot evict hotplug pod: hp associated with running vmi: b", "hotplug", None),
        (429, HOOK + "kubevirt failed getting the vmi: timeout", "later", Reason.APIError),
        (
            500,
            'Internal error occurred: failed calling webhook "virt-launcher-eviction"',
            "later",
            Reason.WebhookUnavailable,
        ),
        (
            500,
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            "budget",
            Reason.DisruptionBudget,
        ),
        (404, 'pods "x" not found', "gone", None),
    ],
)
def test_what_an_eviction_is_told(code: int, text: str, answer: str, reason: Reason | None) -> None:
    found, finding = eviction.classify(KubeError(code, text))
    assert found.value == answer
    assert (finding.reason if finding else None) is reason


def test_a_budget_names_itself() -> None:
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget x needs 2"}
    exc = KubeError(429, "Cannot evict pod", body={"details": {"causes": [cause]}})
    found, finding = eviction.classify(exc)
    assert found is eviction.Answer.BUDGET
    assert finding is not None and "budget x" in finding.message


@pytest.mark.parametrize(
    ("text", "flags", "reason"),
    [
        ("Live migration has been aborted", {"abortRequested": True}, Reason.AbortRequested),
        ("Live migration has been aborted", {}, Reason.CompletionTimeout),
        ("Live migration stuck for 150 seconds and has been aborted", {}, Reason.ProgressTimeout),
        ("Live migration is not completed after 9 seconds and has been aborted", {}, Reason.CompletionTimeout),
        ("Target pod is down", {}, Reason.MigrationFailed),
    ],
)
def test_why_a_migration_failed(text: str, flags: dict[str, bool], reason: Reason) -> None:
    state = {"migrationUid": "m2", "failed": True, "failureReason": text, **flags}
    assert facts.why_failed(vmi(migrationState=state), migration()).reason is reason


def test_a_condition_that_is_absent_is_not_false() -> None:
    assert facts.migratable(vmi()) == (None, ())
    told = {"type": "LiveMigratable", "status": "False", "reason": "SEVNotLiveMigratable"}
    able, found = facts.migratable(vmi(conditions=[told]))
    assert able is False and found[0].reason is Reason.SEVNotLiveMigratable
    able, found = facts.migratable(vmi(conditions=[{**told, "reason": "NewReason"}]))
    assert able is False and "NewReason" in found[0].message


def test_versions() -> None:
    assert facts.version("v1.9.0-rc.2") == (1, 9)
    assert facts.version("") == (0, 0)


class Fake:
    """Remembers what was merged."""

    def __init__(self) -> None:
        self.notes: dict[str, Any] = {}

    def merge(self, _path: str, patch: dict[str, Any]) -> dict[str, Any]:
        self.notes.update(patch["metadata"]["annotations"])
        return {"metadata": {"uid": "n", "annotations": dict(self.notes)}}


def test_a_record_of_many_vms_fits_into_an_annotation() -> None:
    fake = Fake()
    store = node_record.Records(fake, "n1")  # type: ignore[arg-type]
    record = NodeRecord("n1", "run")
    for number in range(500):
        uid = f"{number:08d}-0000-4000-8000-000000000000"
        record.vms[uid] = VMRecord(uid, f"shop/web-{number}")
        store.instances[uid] = node_record.Instance("shop", f"web-{number}", uid)
    node = store.save(record)
    assert sum(len(text) for text in fake.notes.values()) < 128 * 1024
    again = node_record.Records(fake, "n1")  # type: ignore[arg-type]
    found = again.load(node)
    assert found is not None and found.to_json() == record.to_json()
    assert again.instances == store.instances


def test_a_record_that_is_not_readable_is_an_error() -> None:
    for text in ("z:!", "{", '{"schema": 99}'):
        node = {"metadata": {"annotations": {names.RECORD: text}}}
        with pytest.raises(RecordError):
            node_record.Records(Fake(), "n1").load(node)  # type: ignore[arg-type]


def test_options_come_before_the_environment() -> None:
    environ = {
        "K8S_AUTH_HOST": "https://env",
        "K8S_AUTH_VERIFY_SSL": "no",
        "K8S_AUTH_API_KEY": "secret",
        "K8S_AUTH_PROXY_HEADERS_USER_AGENT": "me",
        "K8S_AUTH_IMPERSONATE_GROUPS": "a,b",
    }
    found = auth.settings({"host": "https://option"}, environ)
    assert found["host"] == "https://option"
    assert found["validate_certs"] is False
    assert found["api_key"] == "secret"
    assert found["proxy_headers"] == {"user_agent": "me"}
    assert found["impersonate_groups"] == ["a", "b"]
    config = auth.configuration(found)
    assert config.host == "https://option" and config.verify_ssl is False


def test_each_group_has_a_header_of_its_own() -> None:
    found = auth.settings({"impersonate_user": "me", "impersonate_groups": ["a", "b"]}, {})
    assert auth.headers(found) == [("Impersonate-User", "me"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]


def test_each_group_reaches_the_server() -> None:
    import http.server
    import threading

    seen: list[list[str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get_all("Impersonate-Group") or [])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        options = {"host": f"http://127.0.0.1:{server.server_port}", "api_key": "t", "impersonate_groups": ["a", "b"]}
        client.Client(auth.settings(options, {})).get("/api/v1/nodes/n1")
        thread.join()
    assert seen == [["a", "b"]]
