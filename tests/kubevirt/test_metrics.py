"""Dirty rates of a Prometheus, asked over HTTPS: the document, rules, the plan, what fails."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.metrics import Source, source_of
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.plan.fleet import read_fleet
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import check_mode, service
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.check_mode import plan
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import Plays, written
from kubesim import Kubesim
from kubesim.kinds import VMIMS, VMIS
from kubesim.metrics import METRIC, series
from kubesim.reading import evictions, row

pytestmark = pytest.mark.full

SECRET = "prometheus-s3cret"
BUSY = {"name": "busy", "when": "dirty_rate > `100`", "strategy": "External"}


@pytest.fixture
def given(sim: Kubesim, tmp_path: Path) -> dict[str, Any]:
    """The option metrics for the Prometheus of the cluster."""
    sim.api.access.users[SECRET] = "maintenance"
    assert sim.certificates is not None
    (tmp_path / "ca.pem").write_text(sim.certificates.ca, encoding="ascii")
    return {"url": sim.metrics_url, "token": SECRET, "ca_cert": str(tmp_path / "ca.pem")}


@pytest.fixture
def source(given: dict[str, Any]) -> Source:
    found = source_of(given)
    assert found is not None
    return found


def asked(sim: Kubesim) -> list[str]:
    return [call.query for call in sim.requests("GET", "/prometheus/api/v1/query")]


def look(operator: Any, source: Source | None, rules: Any = ()) -> dict[str, Any]:
    return check_mode.read_node(operator.request(Intent.DRAINED, "r", 1.0, rules=rules, metrics=source))


def rates(found: dict[str, Any]) -> dict[str, float | None]:
    return {document["name"]: document["dirty_rate"] for document in found["documents"]}


def test_the_document_has_the_dirty_rate_by_one_request(sim, operator, source) -> None:
    sim.add_vm("fast", "n1", dirty_rate="250")
    sim.add_vm("slow", "n1", dirty_rate="0.5")
    sim.add_vm("silent", "n1")
    sim.add_vm("else", "n2", dirty_rate="9")
    found = look(operator, source)
    assert rates(found) == {"fast": 250.0, "slow": 0.5, "silent": None}
    assert "warnings" not in found
    (query,) = asked(sim)
    assert METRIC in query and "n1" in query
    assert set(rates(look(operator, None)).values()) == {None} and len(asked(sim)) == 1


def test_a_rule_decides_by_the_dirty_rate_and_is_undecided_without(sim, operator, source) -> None:
    sim.add_vm("fast", "n1", dirty_rate="250")
    sim.add_vm("slow", "n1", dirty_rate="5")
    sim.add_vm("silent", "n1")
    found = operator.drain(rules=[BUSY], metrics=source, external_timeout=1.0)
    assert row(found, "fast")["reason"] == "ExternalOwnerTimedOut" and row(found, "slow")["verdict"] == "moved"
    assert row(found, "silent")["reason"] == "Undecided" and "dirty_rate" in row(found, "silent")["message"]
    assert evictions(sim) == ["slow"] and "warnings" not in found


REPLIES = [
    ((401, "Unauthorized"), "answered 401 (it does not accept the token): Unauthorized."),
    ((403, "Forbidden\n"), "answered 403 (the token may not query): Forbidden."),
    ((302, ""), "answered 302."),
    ((503, '{"status": "error", "error": "loading"}'), "answered 503: loading."),
    ((200, "<html>\n log in"), "did not answer with Prometheus JSON: <html> log in."),
    ((200, "[]"), "did not answer with Prometheus JSON: []."),
    ((200, '{"status": "error", "error": "too many"}'), "answered an error: too many."),
    (
        (200, '{"status": "success", "data": {"resultType": "vector", "result": [{}]}}'),
        "answered in a form that is not Prometheus's: ",
    ),
]


def test_a_server_that_fails_is_a_warning(sim, operator, source) -> None:
    sim.add_vm("fast", "n1", dirty_rate="250")
    for reply, text in REPLIES:
        sim.api.metrics.reply = reply
        found = look(operator, source, [BUSY])
        assert row(found, "fast")["reason"] == "Undecided"
        (warning,) = found["warnings"]
        assert warning.startswith(f"The metrics server {sim.metrics_url} {text}")
        assert "uses its `unknown` answer" in warning and SECRET not in json.dumps(found)
    found = operator.drain(rules=[BUSY], metrics=source)
    assert row(found, "fast")["reason"] == "Undecided" and sim.node_of("fast") == "n1" and found["warnings"]
    go_on = [{**BUSY, "unknown": "next"}]
    assert operator.drain(rules=go_on, metrics=source)["phase"] == "Drained"


def test_a_token_that_the_server_does_not_know_is_a_warning(sim, operator, source) -> None:
    sim.add_vm("fast", "n1", dirty_rate="250")
    found = look(operator, replace(source, token="another"))
    assert "answered 401 (it does not accept the token): Unauthorized." in found["warnings"][0]
    found = look(operator, replace(source, token=""))
    assert "answered 401 (it wants a token)" in found["warnings"][0]
    assert rates(found) == {"fast": None}


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_certificate_that_is_not_trusted_is_a_warning(sim, operator, source) -> None:
    sim.add_vm("fast", "n1", dirty_rate="250")
    found = look(operator, replace(source, ca_cert=None))
    assert rates(found) == {"fast": None} and "does not answer" in found["warnings"][0]
    assert "CERTIFICATE_VERIFY_FAILED" in found["warnings"][0]
    unchecked = replace(source, ca_cert=None, validate_certs=False)
    assert rates(look(operator, unchecked)) == {"fast": 250.0}


def test_a_server_that_hangs_or_is_not_there_is_a_warning(sim, operator, source) -> None:
    """And it is not asked again at once: a drain must not wait for it at each step."""
    sim.add_vm("vm", "n1", dirty_rate="250")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        first, again = (look(operator, replace(source, url="http://127.0.0.1:9")) for _time in range(2))
        assert first["warnings"] == again["warnings"] and "refused" in first["warnings"][0]
        found = operator.drain(metrics=replace(source, url=url, timeout=0.5))
        assert found["phase"] == "Drained" and _callers(deaf) <= 2
        assert "does not answer" in found["warnings"][0] and "timed out" in found["warnings"][0]


def _callers(deaf: socket.socket) -> int:
    """How many have connected and were not answered."""
    deaf.setblocking(False)
    number = 0
    with suppress(BlockingIOError):
        while True:
            deaf.accept()[0].close()
            number += 1
    return number


def test_a_server_without_such_metrics_is_a_warning(sim, operator, source) -> None:
    sim.world.version = (1, 5)
    sim.add_vm("fast", "n1", dirty_rate="250")
    found = look(operator, source)
    assert rates(found) == {"fast": None}
    assert f"has no {METRIC} of node n1 for the last 5m" in found["warnings"][0]


def test_labels_keep_clusters_apart(sim, operator, source) -> None:
    now = time.time()
    sim.add_vm("vm", "n1")
    sim.api.metrics.more = [
        series("n1", "vm", (now - 1, 900), cluster="west"),
        series("n1", "vm", (now - 9, 7), cluster="east"),
    ]
    assert rates(look(operator, replace(source, labels={"cluster": "east"}))) == {"vm": 7.0}


def test_what_was_told_once_holds_over_slices(sim, operator, source) -> None:
    """KubeVirt does not measure what migrates, and an answer may be lost."""
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    sim.add_vm("first", "n1", dirty_rate="1", migrate_seconds="40")
    sim.add_vm("later", "n1", dirty_rate="250", migrate_seconds="5")
    rules = [{"name": "last", "when": "dirty_rate > `100`", "priority": -5}]

    def step(cursor: str, begun: bool, seconds: float) -> dict[str, Any]:
        request = operator.request(Intent.DRAINED, "r", seconds, rules=rules, metrics=source)
        return service.run_slice(replace(request, begun=begun, cursor=cursor))

    found = step("", False, 1.0)
    assert row(found, "later")["decided_by"].endswith("rule last") and len(asked(sim)) == 1
    sim.api.metrics.reply = (503, "")
    found = step(found["cursor"], True, 30.0)
    assert found["phase"] == "Drained" and len(asked(sim)) == 1 and "warnings" not in found
    assert row(found, "later")["decided_by"].endswith("rule last")
    assert evictions(sim) == ["first", "later"]


def test_the_preflight_judges_by_it(sim, operator, source) -> None:
    sim.add_vm("fast", "n1", dirty_rate="250")
    rules = [{**BUSY, "strategy": None}]

    def codes(source: Source) -> list[str]:
        found = preflight(operator.request(Intent.DRAINED, "p", 1.0, rules=rules, metrics=source), {})
        return [f["code"] for f in found["findings"]] + found.get("warnings", [])

    assert "Undecided" not in codes(source)
    sim.api.metrics.reply = (403, "no")
    told = codes(source)
    assert "Undecided" in told and "answered 403" in told[-1]


def test_what_kubevirt_will_make_of_a_guest_that_writes_much_is_said_beforehand_and_meanwhile(
    sim, operator, source
) -> None:
    sim.configure(migrations={"bandwidthPerMigration": "64Mi"})
    sim.add_vm("fast", "n1", dirty_rate="250", memory="2Gi", labels={"app": "db"}, migrate_seconds="400")
    sim.add_vm("slow", "n1", dirty_rate="5", labels={"app": "web"})
    found = preflight(operator.request(Intent.DRAINED, "p", 1.0, metrics=source), {})
    (told,) = [f for f in found["findings"] if f["code"] == "NotConverging"]
    assert told["subject"] == "VM default/fast" and told["severity"] == "warning" and not found["blockers"]
    says = "It writes 250 MiB/s, and a migration may use 64 MiB/s: it would pause for 3.9 s, 0.9 s are allowed."
    assert f"{says} KubeVirt aborts after 450 s." in told["message"]
    first = service.run_slice(operator.request(Intent.DRAINED, "r", 4.0, metrics=source))
    assert row(first, "fast")["reason"] == "NotConverging" and row(first, "slow")["reason"] == ""
    # What it says helps can be applied as it is, also while it moves, and helps.
    policy = json.loads(row(first, "fast")["message"].partition("<<< '")[2].partition("'")[0])
    assert policy["spec"]["selectors"] == {"virtualMachineInstanceSelector": {"app": "db"}}
    sim.add("migrationpolicies", policy)
    assert "NotConverging" not in {
        f["code"] for f in preflight(operator.request(Intent.DRAINED, "p", 1.0, metrics=source), {})["findings"]
    }


@pytest.mark.parametrize("gates", [[], ["MigrationStallDetection"]])
def test_a_migration_that_cannot_succeed_is_ended_and_its_stall_is_no_progress(sim, operator, source, gates) -> None:
    """KubeVirt would let it run for 450 s, or for as long as its stall detection likes."""
    sim.configure(migrations={"bandwidthPerMigration": "64Mi"}, developerConfiguration={"featureGates": gates})
    sim.add_vm("fast", "n1", dirty_rate="250", memory="2Gi", migrate_seconds="900")
    found = operator.drain(metrics=source, pending_timeout=3.0)
    told = row(found, "fast")
    assert (found["phase"], told["verdict"], told["reason"]) == ("Blocked", "blocked", "NotConverging"), told
    assert ("stall detection decides" if gates else "KubeVirt aborts after 450 s") in told["message"]
    assert sim.find(VMIS, "fast")["status"]["nodeName"] == "n1"
    assert not [m for m in sim.all(VMIMS) if m["status"]["phase"] not in ("Failed", "Succeeded")]


def test_the_plan_reads_the_whole_cluster_at_once(sim, operator, source) -> None:
    sim.add_vm("a", "n1", dirty_rate="250")
    sim.add_vm("b", "n2", dirty_rate="7")
    found = read_fleet(operator.auth, source)
    told = {vm["name"]: vm["document"]["dirty_rate"] for vm in found["vms"]}
    assert told == {"default/a": 250.0, "default/b": 7.0} and len(asked(sim)) == 1
    sim.api.metrics.reply = (500, "no")
    assert "answered 500: no" in read_fleet(operator.auth, source)["warnings"][0]


def play(plays: Plays, *more: str, **variables: Any) -> tuple[int, str]:
    """And no output, however verbose, has the token."""
    done = plays.own("drain", "-vvv", *more, maintenance_hosts="n1", **variables)
    assert SECRET not in done.stdout
    return done.returncode, done.stdout


def test_the_shipped_rules_decide_in_a_drain(sim, plays, given) -> None:
    """Memory writers go last. Without the metrics they are like any other VM."""
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    sim.add_vm("a-fast", "n1", dirty_rate="450", migrate_seconds="3")
    sim.add_vm("b-slow", "n1", dirty_rate="20", migrate_seconds="3")
    rules = "{{ rules_memory_writers }}"
    code, told = play(plays, drain_rules=rules, maintenance_metrics=given)
    assert code == 0 and "rule memory writers, slowed down" in told, told
    order = [c.path.split("/")[-2] for c in written(sim.log) if c.path.endswith("/eviction")]
    assert "b-slow" in order[0] and "a-fast" in order[-1], order


def test_a_failing_server_is_told_and_a_wrong_option_touches_nothing(sim, plays, given) -> None:
    sim.add_vm("vm", "n1", dirty_rate="450")
    before = len(sim.log)
    wrong = {**given, "url": "prometheus:9091"}
    code, told = play(plays, maintenance_rules=[BUSY], maintenance_metrics=wrong)
    assert code != 0 and "metrics.url is 'prometheus:9091'" in told
    assert written(sim.log[before:]) == [] and sim.node_of("vm") == "n1"
    sim.api.metrics.reply = (403, "Forbidden")
    rules = [{**BUSY, "unknown": "next"}]
    code, told = play(plays, maintenance_rules=rules, maintenance_metrics=given)
    assert code == 0 and sim.node_of("vm") != "n1", told
    assert f"{sim.metrics_url} answered 403" in " ".join(told.split())


def test_check_mode_takes_it_for_its_times(sim, operator, source) -> None:
    """What the option speeds says of a VM comes first."""
    sim.add_vm("vm", "n1", dirty_rate="50")

    def seconds(metrics: Source | None, **speeds: Any) -> float:
        request = operator.request(Intent.DRAINED, "c", 1.0, metrics=metrics)
        return float(plan(request, {"link": 64, **speeds})["predicted_duration"])

    assert seconds(source) > seconds(None)
    assert seconds(source) == seconds(None, dirty_rates={"default/vm": 50})
    assert seconds(source, dirty_rates={"default/vm": 1}) < seconds(source)


def test_the_plan_takes_it_as_what_a_vm_writes(sim, plays, given) -> None:
    """Faster than its link: copying it would come to no end."""
    sim.add_vm("vm", "n1", dirty_rate="450")
    done = plays.own("plan", maintenance_hosts="n1", maintenance_metrics=given)
    assert done.returncode != 0
    assert "It writes 450 MiB/s, and the link to n2 carries 110 MiB/s" in done.stdout, done.stdout
