"""Who asked, when and why; and who else moves a VM."""

from __future__ import annotations

import contextlib
import json

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.watches import Watches
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.migration import run_migration
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.model import (
    MigrationRequest,
    WantedState,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.names import FROM_NODE
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests.signature import Signature
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.platform import KubeVirtPlatform
from kubesim import admission
from kubesim.answers import ApiError
from kubesim.kinds import EVENTS, VMIMS, VMIS
from kubesim.reading import clean, evictions, launcher, row

REQUEST = "virtops.maintenance/request"


def signed(obj) -> dict:
    return json.loads(obj["metadata"]["annotations"][REQUEST])


def events(sim, reason: str) -> list[str]:
    found = [e for e in sim.all(EVENTS) if e["reason"] == reason]
    return [e["message"] for e in found if e["involvedObject"]["kind"] == "VirtualMachineInstance"]


def test_who_asked_stands_on_the_vm_and_on_kubevirts_own_migration(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="10")
    assert operator.drain()["phase"] == "Drained"
    (migration,) = sim.all(VMIMS)
    assert migration["metadata"]["name"].startswith("kubevirt-evacuation-")
    for obj in (sim.find(VMIS, "vm"), migration):
        note = signed(obj)
        assert (note["run"], note["by"], note["reason"]) == ("run-1", "me", "why")
        assert (note["node"], note["at"][:2]) == ("n1", "20")
    assert events(sim, "MaintenanceRequested") == ["evacuation of node n1, run run-1 of me: why"]
    signed_at = min(c.at for c in sim.requests("PATCH", "/virtualmachineinstances/vm"))
    told_at = min(c.at for c in sim.requests("POST", "/events"))
    asked_at = min(c.at for c in sim.requests("POST", "/eviction"))
    assert signed_at < told_at < asked_at


def test_an_abort_takes_the_signature_back_and_says_so(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    operator.slice(Intent.DRAINED, 1.5)
    assert operator.restore()["phase"] == "Active" and clean(sim)
    assert REQUEST not in sim.find(VMIS, "vm")["metadata"]["annotations"]
    assert len(events(sim, "MaintenanceWithdrawn")) == 1


def evicted_by_the_descheduler(sim) -> None:
    pod = launcher(sim)["metadata"]["name"]
    meta = {"name": pod, "annotations": {"requested-by": admission.DESCHEDULER}}

    def evict() -> None:
        with contextlib.suppress(ApiError):
            admission.evict(sim.world, "default", pod, {"metadata": meta}, False)

    sim.call(evict)


def test_an_eviction_by_the_descheduler_is_named_and_left_alone(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="60")
    evicted_by_the_descheduler(sim)
    sim.until(lambda: len(list(sim.world.store.all(VMIMS))) == 1)
    found = row(operator.slice(Intent.DRAINED, 1.0), "vm")
    assert (found["reason"], found["verdict"]) == ("AdoptedMigration", "pending")
    assert "the descheduler" in found["message"]
    assert evictions(sim) == []
    notes = sim.find(VMIS, "vm")["metadata"]["annotations"]
    assert notes["kubevirt.io/eviction-source"] == "descheduler" and REQUEST not in notes
    operator.slice(Intent.ACTIVE, 1.0)
    assert sim.find(VMIS, "vm")["status"]["evacuationNodeName"] == "n1"  # not ours to take away
    assert sim.requests("PUT", "/evacuate/cancel") == []


def test_two_loops_on_one_vm_are_reported(sim, operator) -> None:
    """Ours has marked it, and before KubeVirt follows the workload updater migrates it."""
    sim.add_vm("vm", "n1", migrate_seconds="60")
    sim.world.paused.add("evacuation")
    operator.slice(Intent.DRAINED, 1.0, "r")
    meta = {"name": "kubevirt-workload-update-x", "namespace": "default"}
    meta["labels"] = {"kubevirt.io/vmi-name": "vm"}
    meta["annotations"] = {"kubevirt.io/workloadUpdateMigration": ""}
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": "vm"}})
    sim.world.paused.clear()
    found = row(operator.slice(Intent.DRAINED, 1.5, "r"), "vm")
    assert found["reason"] == "TwoLoops"
    assert "workload updater" in found["message"] and "this run" in found["message"]


def test_an_older_evacuation_is_named(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="60")
    sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")
    sim.until(lambda: len(list(sim.world.store.all(VMIMS))) == 1)
    found = row(operator.slice(Intent.DRAINED, 1.0), "vm")
    assert found["reason"] == "AdoptedMigration"
    assert "an evacuation of n1 that this run did not start" in found["message"]


def test_a_mark_of_ours_that_has_gone_is_ours_no_longer(sim, operator) -> None:
    """The next one is of whoever sets it, also where another run has signed in between."""
    sim.add_vm("vm", "n1")
    platform = KubeVirtPlatform(Client(operator.auth), "n1")
    record = NodeRecord("n1", "r", runs=["r"])
    platform.observe(record)
    (known,) = platform.records.instances.values()
    known.asked = True
    platform.observe(record)
    platform.close()
    assert not known.asked


def test_who_is_only_told_has_no_mark_of_ours(sim, operator) -> None:
    """Where a rule says External nothing is evicted; the owner himself may do that."""
    sim.add_vm("vm", "n1", migrate_seconds="300")
    operator.slice(Intent.DRAINED, 1.0, rules=[{"name": "theirs", "strategy": "External"}])
    assert signed(sim.find(VMIS, "vm"))["run"] == "run-1" and evictions(sim) == []
    sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")
    sim.until(lambda: len(list(sim.world.store.all(VMIMS))) == 1)
    operator.slice(Intent.ACTIVE, 1.5)
    assert sim.find(VMIS, "vm")["status"]["evacuationNodeName"] == "n1"
    assert sim.requests("DELETE", "virtualmachineinstancemigrations") == []


def migrate(operator, seconds: float = 1.0, **more) -> dict:
    """A slice of what a user asks for this one VM."""
    fixed = {"want": WantedState.MIGRATED, "run_id": "users", "requester": "a user", "seconds": seconds}
    return run_migration(MigrationRequest(operator.auth, "vm", "default", **fixed, **more))


def test_a_migration_of_another_run_is_named_and_left_to_it(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="300")
    migrate(operator)
    found = row(operator.slice(Intent.DRAINED, 1.0), "vm")
    assert found["reason"] == "AdoptedMigration" and "a user (run users)" in found["message"]
    operator.slice(Intent.ACTIVE, 1.0)
    assert sim.requests("DELETE", "virtualmachineinstancemigrations") == []
    assert signed(sim.find(VMIS, "vm"))["run"] == "users"


def test_a_restore_leaves_the_note_of_a_run_that_took_over(sim, operator) -> None:
    """What moves is the drain's, and goes with it; the other run sees that for itself."""
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    operator.slice(Intent.DRAINED, 1.5)
    migrate(operator)
    assert operator.restore()["phase"] == "Active" and clean(sim)
    assert signed(sim.find(VMIS, "vm"))["run"] == "users"
    found = row(migrate(operator, begun=True), "vm")
    assert "started anew" not in found["message"]


def test_a_note_that_another_run_wrote_meanwhile_is_not_taken_back(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    operator.slice(Intent.DRAINED, 1.5)
    read = sim.find(VMIS, "vm")
    migrate(operator)
    client = Client(operator.auth)
    signature = Signature(client, Watches(client, "n1"), lambda: "now")
    signature.remove_mark(read)
    now = sim.find(VMIS, "vm")
    assert signed(now)["run"] == "users"
    signature.remove_mark(now)
    assert REQUEST not in sim.find(VMIS, "vm")["metadata"]["annotations"]


def test_a_restore_leaves_what_another_drain_has_signed_since(sim, operator, monkeypatch) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="5")
    assert operator.drain()["phase"] == "Drained"
    note, real, signs = json.dumps({"run": "other", "node": "n2"}), Client.gone, [True]

    def gone(self, method, path, *body):
        if method == "PATCH" and path.endswith("/virtualmachineinstances/vm") and signs:
            signs.pop()
            sim.edit(VMIS, "vm", lambda o: o["metadata"]["annotations"].update({REQUEST: note}), "default")
            sim.edit(VMIS, "vm", lambda o: o["metadata"]["labels"].update({FROM_NODE: "n2"}), "default")
        return real(self, method, path, *body)

    monkeypatch.setattr(Client, "gone", gone)
    assert operator.restore()["phase"] == "Active" and not signs
    meta = sim.find(VMIS, "vm")["metadata"]
    assert (meta["annotations"][REQUEST], meta["labels"][FROM_NODE]) == (note, "n2")
