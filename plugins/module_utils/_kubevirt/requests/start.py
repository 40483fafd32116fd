"""Start a VM that KubeVirt does not start by itself, the way its run strategy wants it."""

from __future__ import annotations

from typing import Any

from ..api.client import Client, only
from ..api.errors import AccessDenied, KubeError
from ..objects import facts, names


def start(client: Client, vm: dict[str, Any]) -> str:
    """Why it cannot be; empty: it was asked for, or it runs. Raises AccessDenied."""
    namespace, name = facts.key(vm)
    strategy = (vm.get("spec") or {}).get("runStrategy", "")
    path = names.kubevirt(namespace, "virtualmachineinstances", name)
    if strategy == "Once":
        vmi = client.find(path)
        if vmi is not None and facts.final(vmi):
            client.gone("DELETE", path, only(vmi))  # the controller then starts a new one
        return ""
    if strategy in ("Manual", "RerunOnFailure"):
        asked = names.subresource(namespace, "virtualmachines", name, "start")
        try:
            client.request("PUT", asked, {}, accept="*/*", retry=False)
        except AccessDenied:
            raise
        except KubeError as exc:
            return "" if exc.code == 409 and "already running" in exc.message else exc.message
        return ""
    return "" if strategy == "Always" else f"its runStrategy is {strategy or 'not set'}"
