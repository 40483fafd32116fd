"""What a migration waits for is the same answer, whoever asks: the migration of one VM, the drain,
and kubevirt_migration_info. Each cause is planted, and the three are compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.migration import run_migration
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.model import (
    MigrationRequest,
    WantedState,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration_info.read import (
    InfoRequest,
    waiting,
)
from kubesim import Kubesim
from kubesim.kinds import NODES, PODS, VMIMS, VMIS
from kubesim.reading import row

# What is to be done once the migration is there.
Later = Callable[[], None]
Planted = Callable[[Kubesim], "Later | None"]


def by_hand(sim: Kubesim, name: str) -> None:
    """A migration of a VM by somebody, that runs on."""
    meta = {"name": f"m-{name}", "namespace": "default", "labels": {"kubevirt.io/vmi-name": name}}
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": name}})
    sim.until(lambda: sim.world.store.find(VMIMS, "default", f"m-{name}").get("status"))
    sim.until(lambda: sim.world.store.find(VMIMS, "default", f"m-{name}")["status"]["phase"] == "Running")


def outbound(sim: Kubesim) -> None:
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    sim.add_vm("holder", "n1", migrate_seconds="100000")
    by_hand(sim, "holder")


def of_the_cluster(sim: Kubesim) -> None:
    sim.configure(migrations={"parallelMigrationsPerCluster": 1})
    sim.add_vm("holder", "n2", migrate_seconds="100000")
    by_hand(sim, "holder")


def quota(sim: Kubesim) -> None:
    meta = {"name": "tight", "namespace": "default"}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}})


def nowhere(sim: Kubesim) -> None:
    """The nodes are Ready and schedulable, and too small."""
    small = {"memory": "1Mi", "pods": "100"}
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["status"].update(allocatable=small))


def refused(sim: Kubesim) -> Later:
    """PodSecurity, as an event on the VMI; its migration does not begin."""
    sim.world.paused.add("migration")
    text = 'Error creating pod: pods "virt-launcher-vm" is forbidden: violates PodSecurity'

    def later() -> None:
        found = sim.find(VMIS, "vm")
        sim.call(lambda: sim.world.event(found, "FailedCreate", text, "Warning"))

    return later


def unattached(sim: Kubesim) -> Later:
    """A volume that cannot be attached, told of a target pod that is there for a while."""
    notes = {"lab/target-pod": "hang"}
    sim.edit(VMIS, "vm", lambda o: o["metadata"].update(annotations=notes), "default")

    def later() -> None:
        pods = [p for p in sim.all(PODS) if "kubevirt.io/migrationJobUID" in p["metadata"]["labels"]]
        text = "Multi-Attach error for volume pvc-1: already exclusively attached to one node"
        sim.call(lambda: sim.world.event(pods[-1], "FailedAttachVolume", text, "Warning"))
        since = datetime.fromtimestamp(time.time() - 30, UTC)
        old = {"creationTimestamp": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
        name = pods[-1]["metadata"]["name"]
        sim.edit(PODS, name, lambda o: o["metadata"].update(old), "default")

    return later


CAUSES: dict[str, tuple[Planted, str, str]] = {
    "outbound": (outbound, "policy and limits", "outbound migrations of n1 are taken: default/holder"),
    "cluster": (of_the_cluster, "policy and limits", "migrations of the cluster are taken: default/holder"),
    "quota": (quota, "quota, storage", "exceeded quota: tight"),
    "nowhere": (nowhere, "target pod", "0/3 nodes are available"),
    "refused": (refused, "target pod", "violates PodSecurity"),
    "volume": (unattached, "quota, storage", "Multi-Attach error"),
}
TOLD = ("quota", "nowhere", "refused")


@pytest.mark.parametrize(("plant", "where", "words"), CAUSES.values(), ids=CAUSES)
def test_the_migration_of_one_vm_tells_what_the_info_tells(
    sim, operator, plant: Planted, where: str, words: str
) -> None:
    sim.add_vm("vm", "n1")
    later = plant(sim)
    base = {"name": "vm", "namespace": "default", "run_id": "one", "seconds": 3.5}
    request = MigrationRequest(auth=operator.auth, want=WantedState.MIGRATED, **base)
    told = run_migration(request)
    if later is not None:
        later()
        told = run_migration(replace(request, begun=True))
    vm = told["vms"][0]
    first = waiting(InfoRequest(operator.auth, name="vm", namespace="default"))
    finding = first["migrations"][0]["findings"][0]
    assert (vm["reason"], vm["message"]) == (finding["code"], finding["sentence"])
    assert words in vm["message"] and told["phase"] == "Migrating" and finding["where"] == where


@pytest.mark.full
@pytest.mark.parametrize(("plant", "_where", "words"), [CAUSES[c] for c in TOLD], ids=TOLD)
def test_the_drain_tells_it_too(sim, operator, plant: Planted, _where: str, words: str) -> None:
    sim.add_vm("vm", "n1")
    later = plant(sim)
    if later is not None:
        operator.slice(Intent.DRAINED, 2.0, run_id="r")
        later()
    found = row(operator.slice(Intent.DRAINED, 6.0, run_id="r"), "vm")
    first = waiting(InfoRequest(operator.auth, name="vm", namespace="default"))
    finding = first["migrations"][0]["findings"][0]
    assert (found["reason"], found["message"]) == (finding["code"], finding["sentence"])
    assert words in found["message"]


@pytest.mark.full
def test_slots_of_another_node_are_not_taken_for_its_own(sim, operator) -> None:
    sim.configure(migrations={"parallelMigrationsPerCluster": 1, "parallelOutboundMigrationsPerNode": 1})
    sim.add_vm("vm", "n1")
    sim.add_vm("holder", "n2", migrate_seconds="100000")
    by_hand(sim, "holder")
    base = {"name": "vm", "namespace": "default", "run_id": "one", "seconds": 3.5}
    told = run_migration(MigrationRequest(auth=operator.auth, want=WantedState.MIGRATED, **base))
    assert "1 of 1 migrations of the cluster are taken" in told["vms"][0]["message"]
