"""Is a VM of the cluster the machine that runs us: Ansible's own, or that of this process?"""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlsplit

from ..api.client import Client
from ..api.failures import RunsTheMaintenance
from ..objects import facts, names

Obj = dict[str, Any]
NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
PRODUCT_UUID = "/sys/class/dmi/id/product_uuid"


class ControlNode:
    """Who runs us. `server`: of the API. `controller_uuid`: of the machine that Ansible runs on,
    where this process runs on another one; empty: not known."""

    def __init__(self, server: str, controller_uuid: str = "") -> None:
        self._uuids = {own_uuid(), controller_uuid.lower()} - {""}
        self._address = own_address(server)

    def why(self, vmi: Obj) -> str:
        """Why this VM is taken for the machine that runs us; empty: it is not."""
        namespace, name = facts.key(vmi)
        firmware = (vmi["spec"].get("domain") or {}).get("firmware") or {}
        if str(firmware.get("uuid", "")).lower() in self._uuids:
            return f"VM {namespace}/{name} is the machine that this runs on (the same UUID)."
        for interface in facts.status(vmi).get("interfaces") or []:
            reported = interface.get("ipAddresses") or [interface.get("ipAddress")]
            if self._address and self._address in reported:
                return f"VM {namespace}/{name} has the address {self._address}, from which this runs."
        return ""


def own_uuid(path: str = PRODUCT_UUID) -> str:
    """The UUID of this machine, as its firmware reports it; only root may read it."""
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read().strip().lower()
    except OSError:
        return ""


def own_address(server: str) -> str:
    """The address from which the API is reached. No packet is sent for it."""
    parts = urlsplit(server)
    if not parts.hostname:
        return ""
    try:
        family, kind, _proto, _name, where = socket.getaddrinfo(
            parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def refuse_own_node(client: Client, node: str) -> None:
    """Inside a pod, its host name is the pod's name; with the network of the node, the node's."""
    try:
        with open(NAMESPACE_FILE, encoding="ascii") as stream:
            namespace = stream.read().strip()
    except OSError:
        return
    host = os.environ.get("HOSTNAME", "")
    pod = client.find(names.pod(namespace, host)) if host != node else None
    if host == node or (pod is not None and (pod.get("spec") or {}).get("nodeName") == node):
        what = f"pod {namespace}/{host}" if host != node else f"a pod of namespace {namespace}"
        raise RunsTheMaintenance(
            f"This runs in {what} on {node} itself. "
            "Cordon the node, restart the job so that it runs elsewhere, then drain."
        )
