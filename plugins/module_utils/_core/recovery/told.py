"""Report a recovery to those who do not run it: status, Events on the Node, later jobs, notifications. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..model.columns import count
from .proof import Proof

_STARTED = ("runs", "start", "removed")  # verdicts of VMs that are elsewhere


def in_status(host: str, found_dead: str, proof: Proof | None, vms: int) -> str:
    """The sentence on a recovery in the host's row of the status. `vms`: how many were taken over. Empty: there is
    nothing to say."""
    elsewhere = f"{count(vms, 'VM')} started elsewhere"
    again = f"the playbook recover for {host}"
    if proof is not None:
        return f"recovered ({proof}), {elsewhere}; once it is back, run {again} again"
    if vms:
        return f"recovered, {elsewhere}, and seen alive since: run {again} again"
    return f"found dead at {found_dead}, and nothing proves that it is off: run {again}" if found_dead else ""


def notices(result: Mapping[str, Any], whose: str, begins: bool, ends: bool) -> Iterator[tuple[str, str, bool]]:
    """(reason, message, nobody has to look) of each Event on the Node after a slice. `whose`: the run. `begins`: the
    node was given up in it; `ends`: this run gave it up, or gave it back."""
    phase, stay = result["phase"], ", ".join(_stay(result))
    if begins:
        proof = Proof.from_dict(result["proof"])
        yield "MaintenanceRecoveryBegan", f"The node is {proof}: its VMs are started elsewhere, {whose}", True
    if ends and phase == "Recovered":
        yield "MaintenanceRecoveryEnded", f"Its VMs run elsewhere, {whose}", True
    if ends and phase == "Blocked":
        yield "MaintenanceRecoveryFailed", f"Not started elsewhere: {stay}, {whose}", False
    if ends and phase == "Returned":
        yield "MaintenanceRecoveryEnded", f"The node is back and serves again, {whose}", True


def stats(result: Mapping[str, Any]) -> dict[str, Any]:
    """Statistics for later jobs. A host that failed before it had a phase has none."""
    proof = result.get("proof")
    return {
        "phase": result.get("phase", ""),
        "looks": result.get("looks", ""),
        "found_dead": result.get("found_dead", ""),
        "proof": str(Proof.from_dict(proof)) if proof else "",
        "started": sum(vm["verdict"] in _STARTED for vm in result.get("vms", ())),
        "stays": _stay(result),
    }


def event(result: Mapping[str, Any], failure: str) -> dict[str, Any]:
    """Build the event for the user's notifications. `failure`: why the host is not recovered; empty: it is."""
    found, host = stats(result), result["host"]
    if failure:
        return {"event": "failed", "host": host, "message": failure, **found}
    if found["phase"] == "Recovered":
        message = f"{host} is recovered: {found['proof']}, {count(found['started'], 'VM')} started elsewhere"
    else:
        message = str(result["message"])
    return {"event": "recovered", "host": host, "message": message, **found}


def _stay(result: Mapping[str, Any]) -> list[str]:
    return [vm["name"] for vm in result.get("vms", ()) if vm["verdict"] not in _STARTED and vm["message"]]
