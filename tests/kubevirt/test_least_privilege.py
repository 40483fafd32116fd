"""The documented ClusterRole grants nothing that is not needed.

Each verb is taken away, one at a time: the preflight names it, or what a user sees changes. A verb
that neither notices does not belong into the role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import AccessDenied
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.declare import DeclareRequest, declare
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration_info.read import (
    InfoRequest,
    waiting,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.observe import control_node
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.pods.filters import PodOptions
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules, rules_without
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import One
from ansible_collections.virtops.maintenance.tests.kubevirt.still_cluster import Still
from ansible_collections.virtops.maintenance.tests.kubevirt.test_turns import COUNT, drains_elsewhere
from kubesim import Kubesim, templates
from kubesim.access import AUTHENTICATED
from kubesim.kinds import BY_PLURAL, VMIS
from kubesim.reading import add_pod, clean, evictions, row, take_slots

VMIMS = BY_PLURAL["virtualmachineinstancemigrations"]
ONE_NODE = "ReadWriteOnce"
GRANTED = sorted(
    (verb, resource) for rule in documented_rules() for resource in rule["resources"] for verb in rule["verbs"]
)


@pytest.fixture(autouse=True)
def believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a denial has to stand for some seconds is asked elsewhere (test_api_away); here each would cost them."""
    monkeypatch.setattr(client, "DENIES_FOR", 0.0)


# What the preflight says: on a cluster that stands still, with a VM, its volume and another pod.


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Still]:
    with Kubesim() as sim:
        still = Still(sim, tmp_path_factory.mktemp("quiet"))
        root = {"name": "root", "persistentVolumeClaim": {"claimName": "root"}}
        still.vm(vmi={"spec": {"volumes": [root]}})
        add_pod(sim, "web", "n1")
        yield still


def _preflight(still: Still) -> str:
    found = still.look(allow_stop=True, pods=PodOptions(disable_eviction=True))
    return " ".join(row["message"] for row in found["findings"])


# What else a user sees. Each returns it as text.


@dataclass
class Scene:
    sim: Kubesim
    operator: Any
    one: One
    folder: Path
    patch: pytest.MonkeyPatch


def _refusal(what: Callable[[], Any]) -> str:
    try:
        return str(what())
    except AccessDenied as exc:
        return str(exc)


def _from_a_pod(scene: Scene) -> str:
    """Is it on the node that is drained?"""
    add_pod(scene.sim, "job", "n2")
    (scene.folder / "namespace").write_text("default", encoding="ascii")
    scene.patch.setattr(control_node, "NAMESPACE_FILE", str(scene.folder / "namespace"))
    scene.patch.setenv("HOSTNAME", "job")
    return _refusal(lambda: scene.operator.slice(Intent.DRAINED, 0.5))


def _agent(scene: Scene) -> str:
    """A pod whose DaemonSet is there stays; one whose DaemonSet is gone is in the way."""
    scene.sim.add("daemonsets", templates.daemon_set("agent"))
    add_pod(scene.sim, "agent-x", "n1", owner="DaemonSet/agent")
    return _refusal(lambda: scene.operator.slice(Intent.DRAINED, 2.0))


def _claims(scene: Scene) -> str:
    """What to expect of a VM of which KubeVirt has not said whether it can migrate."""
    sim = scene.sim
    sim.add("persistentvolumeclaims", templates.claim("disk", ONE_NODE))
    sim.add_vm("vm", "n1", wait=False, start_seconds="1000")
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm") is not None)
    disk = {"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}
    sim.edit(VMIS, "vm", lambda o: o["spec"].update(volumes=[disk]), "default")
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm")["status"].get("nodeName"))
    said = str(row(scene.operator.slice(Intent.DRAINED, 1.0), "vm")["message"])
    return said if ONE_NODE in said else f"{said} (not known)"


def _why_it_waits(scene: Scene) -> str:
    """All that the module for one migration reads."""
    sim = scene.sim
    take_slots(sim)
    sim.add_vm("vm", "n1")
    sim.add("migrationpolicies", {"metadata": {"name": "slow"}, "spec": {"selectors": {}}})
    _migration_by_hand(sim)
    asked = InfoRequest(scene.operator.auth, name="vm", namespace="default")
    return " ".join(waiting(asked)["not_read"])


def _migration_by_hand(sim: Kubesim) -> None:
    meta = {"name": "m", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "vm"}}
    sim.add(VMIMS.plural, {"metadata": meta, "spec": {"vmiName": "vm"}})
    sim.until(lambda: sim.world.store.find(VMIMS, "default", "m").get("status"))


def _restored(scene: Scene) -> str:
    """Nothing of a maintenance stays."""
    scene.operator.drain()
    scene.operator.restore()
    return " ".join(o["metadata"]["name"] for o in scene.sim.all(BY_PLURAL["leases"]))


def _others_drain(scene: Scene) -> str:
    """Drains of several nodes at once share what KubeVirt can move; who is alone asks for all."""
    for number in range(COUNT):
        seconds = "2" if number < 3 else "600"
        scene.sim.add_vm(f"vm{number}", "n1", migrate_seconds=seconds)
    drains_elsewhere(scene.sim, "n2", "n3")
    scene.operator.slice(Intent.DRAINED, 5.0)
    return "alone" if len(evictions(scene.sim)) == COUNT else "not all are asked for"


def _others_drain_unstreamed(scene: Scene) -> str:
    """The same, of an API server that cannot list and watch in one request."""
    scene.sim.api.streams_lists = False
    return _others_drain(scene)


def _declares(scene: Scene) -> str:
    scene.sim.add_vm("vm", "n1")
    asked = DeclareRequest(scene.operator.auth, "External", names=["vm"], namespace="default")
    return _refusal(lambda: declare(asked))


def _one_migration(scene: Scene) -> str:
    scene.sim.add_vm("vm", "n1")
    return _refusal(scene.one.migrate)


# What the preflight does not name: where it shows, and what is said there without it.
SHOWS: dict[tuple[str, str], tuple[Callable[[Scene], str], str]] = {
    ("get", "pods"): (_from_a_pod, "get pods"),
    ("get", "daemonsets"): (_agent, "get daemonsets"),
    ("get", "namespaces"): (_why_it_waits, "get namespaces"),
    ("list", "migrationpolicies"): (_why_it_waits, "list migrationpolicies"),
    ("list", "events"): (_why_it_waits, "list events"),
    ("get", "persistentvolumeclaims"): (_claims, "not known"),
    ("delete", "leases"): (_restored, "virtops-maintenance-n1"),
    ("list", "leases"): (_others_drain_unstreamed, "alone"),
    ("watch", "leases"): (_others_drain, "alone"),
    ("patch", "virtualmachines"): (_declares, "patch virtualmachines"),
    ("create", VMIMS.plural): (_one_migration, f"create {VMIMS.plural}"),
}


# What a drain, a restore, an abort, a plan and a roll do not ask for where nothing is in the way: what else uses it.
AT_TIMES = {
    ("get", "pods"): "the preflight, of the pod in which the controller runs",
    ("delete", "pods"): "pods.disable_eviction, force_stop, a target pod that does not get ready",
    ("get", "daemonsets"): "of a pod that says it belongs to one",
    ("get", "persistentvolumeclaims"): "of a VM of which KubeVirt has not said whether it can migrate",
    ("get", "namespaces"): "where there is a MigrationPolicy",
    ("list", "persistentvolumes"): "the preflight, where a VM has a claim; a drain, where the Node names volumes",
    ("list", "volumeattachments"): "where the Node names volumes that are attached",
    ("list", "events"): "why something waits",
    ("patch", "virtualmachines"): "kubevirt_eviction_strategy",
    ("create", VMIMS.plural): "kubevirt_migration",
    ("delete", "virtualmachineinstances"): "a stop that KubeVirt's webhook refuses to do by an eviction",
}
# What everybody may who is known: it is in no role.
EVERYBODY = {("create", "selfsubjectaccessreviews"), ("get", "version"), ("list", "kubevirts")}


@pytest.mark.full
def test_what_is_asked_for_is_what_the_role_grants(sim: Kubesim, operator: Any, plays: Any) -> None:
    """Counted by the server, both ways."""
    sim.api.access.rules.pop(AUTHENTICATED, None)
    sim.add_vm("slow", "n1", migrate_seconds="3000")
    sim.add_vm("stops", "n1", strategy="None", run_strategy="Manual")
    add_pod(sim, "web", "n1")
    operator.slice(Intent.DRAINED, 2.0, allow_stop=True)
    operator.restore()
    sim.edit(VMIS, "slow", lambda o: o["metadata"]["annotations"].update({"lab/migrate-seconds": "1"}), "default")
    for playbook, more in (("plan", {}), ("rolling_maintenance", {"maintenance_reboot": False})):
        rules = [{"name": "all", "allow_stop": True}]
        done = plays.own(playbook, maintenance_hosts="n1,n2", maintenance_rules=rules, **more)
        assert done.returncode == 0, done.stdout
    used = sim.api.access.used
    assert used - set(GRANTED) - EVERYBODY == set()
    assert set(GRANTED) - used <= set(AT_TIMES) <= set(GRANTED)


@pytest.mark.parametrize(("verb", "resource"), [one for one in GRANTED if one not in SHOWS])
def test_the_preflight_names_what_is_missing(quiet: Still, verb: str, resource: str) -> None:
    rules = quiet.sim.api.access.rules
    rules.pop(AUTHENTICATED, None)  # KubeVirt lets everybody read its object, where nobody forbids
    rules[TOKEN] = documented_rules()
    assert _preflight(quiet) == ""
    rules[TOKEN] = rules_without(verb, resource)
    assert f"{verb} {resource}" in _preflight(quiet)


@pytest.mark.full
@pytest.mark.parametrize("missing", [False, True], ids=["there", "missing"])
@pytest.mark.parametrize(("verb", "resource"), SHOWS)
def test_what_is_missing_shows(
    sim: Kubesim,
    operator: Any,
    one: One,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    resource: str,
    missing: bool,
) -> None:
    where, text = SHOWS[verb, resource]
    assert (verb, resource) in GRANTED
    if missing:
        sim.api.access.rules[TOKEN] = rules_without(verb, resource)
    said = where(Scene(sim, operator, one, tmp_path, monkeypatch))
    assert (text in said) == missing, said


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("create", "pods/eviction"), ("deletecollection", "pods"), ("get", "virtualmachineinstances")],
)
def test_a_drain_says_before_it_begins_what_it_would_miss_later(sim, operator, verb: str, resource: str) -> None:
    sim.add_vm("vm", "n1")
    sim.api.access.rules[TOKEN] = rules_without(verb, resource)
    with pytest.raises(
        AccessDenied, match=rf"Not allowed: {verb} {resource}\S* in default \(.*\)\. Nothing was changed\."
    ):
        operator.slice(Intent.DRAINED, 2.0)
    assert evictions(sim) == [] and clean(sim)
