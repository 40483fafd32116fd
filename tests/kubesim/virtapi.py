"""virt-api's subresources: evacuate/cancel, start, stop, restart, migrate, version."""

from __future__ import annotations

from typing import Any

from . import words
from .admission import MIGRATION, check_vmi
from .answers import ApiError, internal, status
from .kinds import NODES, VMIMS, VMIS, VMS
from .store import Obj
from .world import World

DRAIN_TAINT = "kubevirt.io/drain"


def _missing(kind: str, name: str) -> ApiError:
    details = {"name": name, "group": "kubevirt.io", "kind": kind}
    return status(404, f'{kind}.kubevirt.io "{name}" not found', "NotFound", details)


def unreachable() -> ApiError:
    """What the API server says when virt-api does not answer."""
    text = "error trying to reach service: dial tcp 127.0.0.1:443: connect: connection refused"
    return ApiError(503, text + "\n")


def _refused(name: str, text: str) -> ApiError:
    details = {"name": name, "group": "kubevirt.io", "kind": "virtualmachine"}
    full = f'Operation cannot be fulfilled on virtualmachine.kubevirt.io "{name}": {text}'
    return status(409, full, "Conflict", details)


def put(world: World, namespace: str, plural: str, name: str, sub: str, body: Any) -> int:
    """The status code of the answer, or ApiError."""
    if world.virt_api_down:
        raise unreachable()
    body = body if isinstance(body, dict) else {}
    if sub == "evacuate/cancel" and world.version >= (1, 7):
        return _cancel(world, namespace, plural, name, body)
    if plural == "virtualmachines" and sub in ("start", "stop", "restart", "migrate"):
        vm = world.store.find(VMS, namespace, name)
        if vm is None:
            raise _missing("virtualmachine", name)
        does = {"start": _start, "stop": _stop, "restart": _restart, "migrate": _migrate}
        return does[sub](world, vm, body)
    raise status(404, "the server could not find the requested resource", "NotFound")


def _cancel(world: World, namespace: str, plural: str, name: str, body: Obj) -> int:
    vmi = world.store.find(VMIS, namespace, name)
    if vmi is None:
        raise _missing("virtualmachineinstance", name)
    marked = vmi.get("status", {}).get("evacuationNodeName", "")
    if not marked:
        return 200
    node = world.store.find(NODES, "", marked)
    if node is None:
        raise internal(f'nodes "{marked}" not found')
    for taint in node.get("spec", {}).get("taints") or []:
        if taint["key"] == DRAIN_TAINT:
            text = (
                f'Node "{marked}" has NodeDrainTaintKey "&Taint{{Key:{DRAIN_TAINT},Value:,'
                f'Effect:{taint["effect"]},TimeAdded:<nil>,}}"'
            )
            raise status(400, text, "BadRequest")
    if body.get("evacuationNodeName", "") != marked:
        raise internal("the server rejected our request due to an error in our request")
    if "All" not in (body.get("dryRun") or []):
        world.store.change(VMIS, namespace, name, lambda o: o["status"].pop("evacuationNodeName", None))
    return 200


def _vmi(world: World, vm: Obj) -> Obj | None:
    return world.store.find(VMIS, vm["metadata"]["namespace"], vm["metadata"]["name"])


def _request(world: World, vm: Obj, *requests: Obj) -> None:
    def edit(obj: Obj) -> None:
        obj.setdefault("status", {})["stateChangeRequests"] = list(requests)

    world.store.change(VMS, vm["metadata"]["namespace"], vm["metadata"]["name"], edit)


def _set_strategy(world: World, vm: Obj, strategy: str) -> None:
    world.store.change(
        VMS, vm["metadata"]["namespace"], vm["metadata"]["name"], lambda o: o["spec"].update(runStrategy=strategy)
    )


def _start(world: World, vm: Obj, _body: Obj) -> int:
    name, vmi = vm["metadata"]["name"], _vmi(world, vm)
    strategy = vm["spec"].get("runStrategy", "Halted")
    if vmi is not None and not words.final(vmi):
        raise _refused(name, "VM is already running")
    if strategy in ("Always", "Once"):
        raise _refused(name, f"{strategy} does not support manual start requests")
    if strategy == "Halted":
        _set_strategy(world, vm, "Always")
    elif strategy == "RerunOnFailure" and vmi is not None and words.phase(vmi) == "Failed":
        raise _refused(name, "RerunOnFailure does not support starting VM from failed state")
    elif vmi is not None:
        stop = {"action": "Stop", "uid": vmi["metadata"]["uid"]}
        _request(world, vm, stop, {"action": "Start"})
    else:
        _request(world, vm, {"action": "Start"})
    return 202


def _stop(world: World, vm: Obj, _body: Obj) -> int:
    name, vmi = vm["metadata"]["name"], _vmi(world, vm)
    strategy = vm["spec"].get("runStrategy", "Halted")
    if vmi is None or words.final(vmi):
        raise _refused(name, "VM is not running")
    if strategy in ("Always", "Once"):
        _set_strategy(world, vm, "Halted")
    else:
        _request(world, vm, {"action": "Stop", "uid": vmi["metadata"]["uid"]})
    return 202


def _restart(world: World, vm: Obj, _body: Obj) -> int:
    name, vmi = vm["metadata"]["name"], _vmi(world, vm)
    if vm["spec"].get("runStrategy", "Halted") in ("Halted", "Once"):
        text = f"RunStategy {vm['spec'].get('runStrategy', 'Halted')} does not support manual restart requests"
        raise _refused(name, text)
    if vmi is None or words.final(vmi):
        raise _refused(name, "VM is not running")
    stop = {"action": "Stop", "uid": vmi["metadata"]["uid"]}
    _request(world, vm, stop, {"action": "Start"})
    return 202


def _migrate(world: World, vm: Obj, body: Obj) -> int:
    namespace, name = vm["metadata"]["namespace"], vm["metadata"]["name"]
    vmi = _vmi(world, vm)
    if vmi is None:
        raise _missing("virtualmachineinstance", name)
    if words.phase(vmi) != "Running":
        raise _refused(name, "VM is not running")
    try:
        check_vmi(world, namespace, name)
    except ApiError as exc:
        text = exc.body["message"] if isinstance(exc.body, dict) else MIGRATION
        raise internal(text) from exc
    meta = {
        "generateName": "kubevirt-migrate-vm-",
        "namespace": namespace,
        "labels": {words.VMI_NAME: name},
        "finalizers": [words.FINALIZER],
    }
    spec = {"vmiName": name}
    if body.get("addedNodeSelector"):
        spec["addedNodeSelector"] = body["addedNodeSelector"]
    world.store.create(VMIMS, {"metadata": meta, "spec": spec}, "All" in (body.get("dryRun") or []))
    return 202
