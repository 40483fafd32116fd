"""Lines about a dead host: its VMs, and why it is not recovered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import GONE, Proof

_DONE = ("Recovered", "Recovering", "Blocked", "Returned", "Stopped")


def lines(result: Mapping[str, Any], check: bool) -> Iterator[str]:
    """One for each VM of which something is to be said."""
    host = result.get("host", "")
    if "kept_on" in result:
        yield from _protected(result, check)
    if result.get("looks") == "Alive" and result["phase"] == "Alive":
        yield f"{host}  {result['message']} There is nothing to recover."
    if (result.get("phase"), result.get("looks")) == ("Recovering", "NotKnown"):
        yield str(result["message"])
    if result.get("phase") not in _DONE:
        return
    proof = result.get("proof") or {}
    if proof.get("kind") in {kind.value for kind in GONE} and result["phase"] != "Returned":
        yield f"{host}  Nobody switched it off: it is {Proof.from_dict(proof)}."
    if result.get("protected_at") and result["phase"] != "Returned":
        yield f"{host}  Its VMs are those that it had at {result['protected_at']}. protect records who came later."
    if result.get("booted"):
        yield f"{result['booted']}."
    for vm in result["vms"]:
        text = _of_vm(vm, check)
        if text:
            yield f"{host}  {text}"


def _protected(result: Mapping[str, Any], check: bool) -> Iterator[str]:
    host, vms = result["host"], result["vms"]
    ready = sum(vm["protected"] for vm in vms)
    kept = ", ".join(result["kept_on"]) or ("no peer yet" if check else "no peer")
    guard = "it has the guard" if result["guard"] else "it has no guard (maintenance_guard)"
    yield f"{host}  {ready} of its {len(vms)} VMs could be started elsewhere; recovery data on {kept}; {guard}"
    for vm in vms:
        if not vm["protected"]:
            yield f"{host}  {vm['name']} would stay: {vm['reason']}: {vm['message']}"
    if result["not_asked"]:
        yield f"{host}  not asked whether they can take its VMs: {', '.join(result['not_asked'])}"


def _of_vm(vm: Mapping[str, Any], check: bool) -> str:
    name, target, verdict = vm["name"], vm["target"], vm["verdict"]
    if verdict in ("waits", "returns"):
        return str(vm["message"])
    if verdict == "removed":
        return f"{name} runs on {target}: its definition here {'would be' if check else 'is'} removed"
    if verdict == "runs":
        if not target:
            return str(vm["message"])
        return f"{name} runs on {target}{'. ' if vm['message'] else ''}{vm['message']}"
    if verdict == "start" and check:
        return f"{name} would be started on {target}"
    if verdict == "start":
        return f"{name}: {vm['message']}" if vm["message"] else ""
    if vm["message"]:
        why = f"{vm['reason']}: {vm['message']}" if vm["reason"] else vm["message"]
        return f"{name} stays: {why} {vm['remedy']}".rstrip()
    return ""


def warnings(result: Mapping[str, Any]) -> list[str]:
    """What the module warns of, and peers that did not take what others took."""
    missing = result.get("not_kept_on", ()) if result.get("kept_on") else ()
    return [*result.get("warned", ()), *(f"{result['host']}: no recovery data on {peer}" for peer in missing)]


def unprotected(result: Mapping[str, Any], check: bool) -> str:
    """Why no peer has the recovery data of the host; empty: one has, or it is not about that."""
    if check or result.get("kept_on", True):
        return ""
    why = ", ".join(result["not_kept_on"]) or "it has no peer"
    return f"{result['host']} is not protected, no recovery data is on any peer: {why}. Run protect again."


def failure(result: Mapping[str, Any]) -> str:
    """Why the host is not recovered; empty: it is, or nothing was wrong."""
    if result.get("failed") or "phase" not in result:
        return ""
    host, phase, text = result["host"], result["phase"], result["message"]
    if phase == "Alive":
        return "" if result["looks"] == "Alive" else f"{text.rstrip('.')}. Nothing was started."
    if phase == "Unproven":
        if not result["may_be_fenced"]:
            return f"{text.rstrip('.')}. Nothing was started."
        if not result["found_dead"]:
            return f"{text.rstrip('.')}. Nothing proves that it is off, so nothing would be started."
        return (
            f"{text.rstrip('.')}. Nothing proves that it is off, so nothing was started. Give a fence agent"
            f" (maintenance_fence), or see that {host} is off, then:"
            f" -e maintenance_confirm_off={host}@{result['found_dead']}"
        )
    if phase == "Refused":
        return str(text)
    if phase == "Stopped":
        return f"{text}. What was started before that keeps running. Run recover again."
    if phase == "Blocked":
        stay = [vm["name"] for vm in result["vms"] if vm["message"]]
        return f"{host} is recovered except for {', '.join(stay)}. The reason and the remedy are printed with each."
    return ""
