"""Look up on a host what a domain names: networks, network filters, secrets with a value.

Asked when a VM uses the name, once for each name while the connection lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..domain.network_xml import NetworkSpec, parse_network
from .connection import ERR_NO_SUPPORT, is_lost, libvirt

# virErrorNumber
_NO_NETWORK, _NO_NWFILTER, _NO_SECRET = 43, 62, 66
# virSecretUsageType by its word in the domain's XML
_USAGES = {"volume": 1, "ceph": 2, "iscsi": 3, "tls": 4, "vtpm": 5}


class Names:
    """Names on one host. None: its libvirt did not say. Raises libvirtError if the connection is lost."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn
        self._answers: dict[tuple[str, ...], Any] = {}

    def network(self, name: str) -> NetworkSpec | None:
        """The network as it runs; None: it is not there, or libvirt did not say."""

        def read() -> NetworkSpec:
            return parse_network(self._conn.networkLookupByName(name).XMLDesc(0))

        return self._once(("network", name), read, _NO_NETWORK) or None

    def has_filter(self, name: str) -> bool | None:
        return self._once(("filter", name), lambda: bool(self._conn.nwfilterLookupByName(name)), _NO_NWFILTER)

    def has_value(self, uuid: str, usage_type: str, usage: str) -> bool | None:
        """Has the secret a value? Of a private one libvirt does not say. The value itself is not kept."""

        def read() -> bool:
            conn = self._conn
            secret = (
                conn.secretLookupByUUIDString(uuid) if uuid else conn.secretLookupByUsage(_USAGES[usage_type], usage)
            )
            secret.value(0)
            return True

        if not uuid and usage_type not in _USAGES:
            return None
        return self._once(("secret", uuid, usage_type, usage), read, _NO_SECRET)

    def _once(self, key: tuple[str, ...], read: Callable[[], Any], absent: int) -> Any:
        """The answer; False: the error `absent`, or libvirt has no driver for it; None: another one."""
        if key not in self._answers:
            try:
                self._answers[key] = read()
            except libvirt.libvirtError as exc:
                if is_lost(exc):
                    raise
                self._answers[key] = False if exc.get_error_code() in (absent, ERR_NO_SUPPORT) else None
        return self._answers[key]
