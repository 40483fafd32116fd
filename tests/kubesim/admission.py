"""virt-api's webhooks: pod evictions, new and changed migrations, new VMIs."""

from __future__ import annotations

from . import validation, words
from .answers import ApiError, denied, internal, invalid, status
from .budgets import assess, selects
from .kinds import PDBS, PODS, POLICIES, VMIMS, VMIS, Kind
from .store import Obj, Store
from .world import World

EVICTION = "virt-launcher-eviction-interceptor.kubevirt.io"
HOTPLUG = "hotplug-pod-eviction-interceptor.kubevirt.io"
MIGRATION = "migration-create-validator.kubevirt.io"
MIGRATION_UPDATE = "migration-update-validator.kubevirt.io"
VMI = "virtualmachineinstances-mutator.kubevirt.io"
POLICY = "migration-policy-validator.kubevirt.io"
DESCHEDULER = "sigs.k8s.io/descheduler"
FINALIZED = "Cannot migrate VMI in finalized state."


def webhook_down(name: str, path: str) -> ApiError:
    return internal(
        f'failed calling webhook "{name}": failed to call webhook: Post '
        f'"https://virt-api.kubevirt.svc:443/{path}?timeout=10s": '
        "dial tcp 127.0.0.1:443: connect: connection refused"
    )


def evict(world: World, namespace: str, name: str, body: Obj, dry: bool) -> None:
    """The eviction subresource. Raises ApiError for everything but 201."""
    store = world.store
    if body.get("metadata", {}).get("name", name) != name:
        raise status(400, "name in URL does not match name in Eviction object", "BadRequest")
    pod = store.get(PODS, namespace, name)
    dry = dry or "All" in (body.get("deleteOptions", {}).get("dryRun") or [])
    _webhook(world, pod, body, dry)
    if not words.final(pod) and not pod["metadata"].get("deletionTimestamp"):
        _budgets(store, pod)
    if not dry:
        more = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        pod = store.change(PODS, namespace, name, lambda o: words.set_condition(o, "DisruptionTarget", "True", **more))
        world.delete_pod(pod)


def _webhook(world: World, pod: Obj, body: Obj, dry: bool) -> None:
    name = pod["metadata"]["name"]
    if name.startswith(("virt-launcher", "hp-volume-")) and world.virt_api_down:
        raise webhook_down(EVICTION, "pod-eviction-validate")
    if words.labels(pod).get("kubevirt.io") == "hotplug-disk":
        _hotplug(world, pod)
    if not words.is_launcher(pod) or words.final(pod):
        return
    namespace = pod["metadata"]["namespace"]
    domain = words.annotations(pod).get("kubevirt.io/domain")
    vmi = world.store.find(VMIS, namespace, domain) if domain else None
    if vmi is None:
        return
    node = pod.get("spec", {}).get("nodeName", "")
    strategy = vmi["spec"].get("evictionStrategy") or world.config().get("evictionStrategy", "None")
    migratable = words.is_true(vmi, "LiveMigratable")
    full = f'"{namespace}/{vmi["metadata"]["name"]}"'
    if strategy == "None" or (strategy == "LiveMigrateIfPossible" and not migratable):
        return
    if strategy == "LiveMigrate" and not migratable:
        text = f"VMI {vmi['metadata']['name']} is configured with an eviction strategy but is not live-migratable"
        raise denied(EVICTION, text, 429)
    if vmi.get("status", {}).get("evacuationNodeName"):
        text = f"Evacuation in progress: Eviction triggered evacuation of VMI {full}"
        raise denied(EVICTION, text, 429)
    if vmi.get("status", {}).get("nodeName") != node:
        raise denied(EVICTION, "Eviction request for target Pod", 429)
    if not dry:

        def mark(obj: Obj) -> None:
            obj.setdefault("status", {})["evacuationNodeName"] = node
            asked = (body.get("metadata", {}).get("annotations") or {}).get("requested-by")
            if asked == DESCHEDULER:
                obj["metadata"].setdefault("annotations", {})["kubevirt.io/eviction-source"] = "descheduler"

        world.store.change(VMIS, namespace, vmi["metadata"]["name"], mark)
    raise denied(EVICTION, f"Eviction triggered evacuation of VMI {full}", 429)


def _hotplug(world: World, pod: Obj) -> None:
    owners = pod["metadata"].get("ownerReferences") or []
    if len(owners) != 1:
        return
    namespace = pod["metadata"]["namespace"]
    owner = world.store.find(PODS, namespace, owners[0]["name"])
    if owner is not None and words.is_launcher(owner) and not words.final(owner):
        vmi = words.annotations(owner).get("kubevirt.io/domain", "")
        text = (
            f"cannot evict hotplug pod: {pod['metadata']['name']} associated with running vmi: "
            f"{vmi} in namespace {namespace}"
        )
        raise denied(HOTPLUG, text, 429)


def _budgets(store: Store, pod: Obj) -> None:
    namespace = pod["metadata"]["namespace"]
    found = [pdb for pdb in store.all(PDBS, namespace) if selects(pdb, pod)]
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise status(500, text)
    for pdb in found:
        _budget(store, pdb)


def _budget(store: Store, pdb: Obj) -> None:
    name, now = pdb["metadata"]["name"], assess(store, pdb)
    cause, headers, details = "", {}, {}
    if not now.computed:
        cause = f"The disruption budget {name} is still being processed by the server."
        headers, details = {"Retry-After": "10"}, {"retryAfterSeconds": 10}
    elif not now.allowed:
        cause = f"The disruption budget {name} needs {now.desired} healthy pods and has {now.healthy} currently"
    if cause:
        raise status(
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.",
            "TooManyRequests",
            {"causes": [{"reason": "DisruptionBudget", "message": cause}], **details},
            headers,
        )


def older(world: World, kind: Kind, obj: Obj, how: str) -> list[str]:
    """Warnings of fields that this version does not know yet; they are taken out."""
    if kind is not VMIMS:
        return []
    spec = obj.get("spec") or {}
    unknown = sorted(set(spec) - _fields(world.version))
    for key in unknown:
        del spec[key]
    return validation.unknown(kind, [f"spec.{key}" for key in unknown], how)


def mutate(world: World, kind: Kind, obj: Obj) -> None:
    """What admission changes in a new object."""
    if kind is VMIMS:
        if world.virt_api_down:
            raise webhook_down("migrations-mutator.kubevirt.io", "migration-mutate-create")
        obj.pop("status", None)
        if obj.setdefault("spec", {}).get("vmiName"):
            admit_migration(obj)
    elif kind is VMIS:
        obj["spec"].setdefault("evictionStrategy", world.config().get("evictionStrategy", "None"))
    elif kind is PODS:
        obj["status"] = {"phase": "Pending"}


def create(world: World, kind: Kind, obj: Obj) -> None:
    """What admission refuses of a new object."""
    if kind is VMIMS:
        _new_migration(world, obj)
    elif kind is POLICIES:
        _policy(obj)


def _policy(obj: Obj) -> None:
    for name in ("bandwidthPerMigration", "completionTimeoutPerGiB"):
        if str(obj["spec"].get(name, "")).startswith("-"):
            raise invalid(POLICY, "must not be negative", f"spec.{name}", "FieldValueInvalid")


def _new_migration(world: World, obj: Obj) -> None:
    spec, meta = obj["spec"], obj["metadata"]
    vmi_name = spec.get("vmiName") or ""
    if not vmi_name:
        raise invalid(MIGRATION, "vmiName is missing", "spec.vmiName", "FieldValueRequired")
    if spec.get("priority"):
        text = "Migration priority queue, only virt-controller is allowed to set priority field"
        raise invalid(MIGRATION, text, "spec.migrationPriority", "FieldValueForbidden")
    check_vmi(world, meta["namespace"], vmi_name)


def _fields(version: tuple[int, int]) -> set[str]:
    """What spec of a migration has in that version of KubeVirt."""
    later = {"addedNodeSelector": (1, 6), "sendTo": (1, 6), "receive": (1, 6), "priority": (1, 7)}
    return {"vmiName"} | {name for name, since in later.items() if version >= since}


def check_vmi(world: World, namespace: str, vmi_name: str) -> None:
    """May a migration of this VMI be created? Raises ApiError 400."""
    vmi = world.store.find(VMIS, namespace, vmi_name)
    if vmi is None:
        raise denied(MIGRATION, f'the VMI "{namespace}/{vmi_name}" does not exist')
    if words.final(vmi):
        raise denied(MIGRATION, FINALIZED)
    found = words.condition(vmi, "LiveMigratable")
    if found is not None and found["status"] != "True":
        text = f"Cannot migrate VMI, Reason: {found['reason']}, Message: {found['message']}"
        raise denied(MIGRATION, text)
    for other in world.store.all(VMIMS, namespace):
        if words.labels(other).get(words.VMI_NAME) == vmi_name and not words.final(other):
            text = (
                f"in-flight migration detected. Active migration job ({other['metadata']['uid']}) "
                f"is currently already in progress for VMI {vmi_name}."
            )
            raise denied(MIGRATION, text)


def admit_migration(obj: Obj) -> None:
    """Label and finalizer of every migration."""
    meta = obj["metadata"]
    meta.setdefault("labels", {})[words.VMI_NAME] = obj["spec"]["vmiName"]
    meta["finalizers"] = [words.FINALIZER]


def update(world: World, kind: Kind, old: Obj, new: Obj) -> None:
    """What admission refuses of, or undoes in, a changed object."""
    if kind.group == "kubevirt.io" and world.virt_api_down and kind is not VMIMS:
        raise webhook_down(f"{kind.plural}-mutator.kubevirt.io", f"{kind.plural}-mutate")
    if kind is VMIMS:
        if new.get("spec") != old.get("spec"):
            text = "update of Migration object's spec is restricted"
            raise invalid(MIGRATION_UPDATE, text, "", "FieldValueNotSupported")
        if words.labels(new).get(words.VMI_NAME) != words.labels(old).get(words.VMI_NAME) and (not words.final(old)):
            text = "selector label can't be modified on an in-flight migration"
            raise invalid(MIGRATION_UPDATE, text, "", "FieldValueNotSupported")
        new["status"] = old.get("status", {})
        if not new["status"]:
            del new["status"]
    elif kind is VMIS:
        if new.get("spec") != old.get("spec"):
            text = "update of VMI object is restricted"
            raise invalid("virtualmachineinstance-update-validator.kubevirt.io", text, "", "")
        new["status"] = old.get("status", {})
