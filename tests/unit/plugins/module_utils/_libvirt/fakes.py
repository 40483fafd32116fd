"""Stand-ins for libvirt's binding: they record calls, in one list for the order among them."""

from __future__ import annotations

from typing import Any


class LibvirtError(Exception):
    """As libvirt.libvirtError."""

    def __init__(self, text: str = "", code: int = 0) -> None:
        super().__init__(text)
        self.code = code

    def get_error_code(self) -> int:
        return self.code


class Binding:
    """Any VIR_ constant: flags get a bit of their own, the others a number."""

    libvirtError = LibvirtError  # noqa: N815 - libvirt's name

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not name.startswith("VIR_"):
            raise AttributeError(name)
        if "_PARAM_" in name:
            return name
        return self._bits.setdefault(name, 1 << len(self._bits))


class Domain:
    """A domain on a host. `metadata`: its own, live and persistent; `config`: another one there."""

    def __init__(
        self,
        binding: Binding,
        calls: list[str],
        where: str,
        active: bool = True,
        autostart: bool = False,
        metadata: str | None = None,
        config: str | None = None,
        persistent: bool = True,
    ) -> None:
        self._binding = binding
        self.persistent = persistent
        self._calls = calls
        self._where = where
        self.active = active
        self._autostart = autostart
        self.live, self.config = metadata, config or metadata
        self.undefined_with = 0

    def isActive(self) -> bool:  # noqa: N802 - libvirt's name
        return self.active

    def isPersistent(self) -> bool:  # noqa: N802 - libvirt's name
        return self.persistent

    def name(self) -> str:
        return "web"

    def autostart(self) -> int:
        return int(self._autostart)

    def setAutostart(self, value: int) -> None:  # noqa: N802 - libvirt's name
        self._calls.append(f"autostart {value} on {self._where}")
        self._autostart = bool(value)

    def metadata(self, _kind: int, _namespace: str, flags: int = 0) -> str:
        text = self.config if flags & self._binding.VIR_DOMAIN_AFFECT_CONFIG else self.live
        if text is None:
            code = self._binding.VIR_ERR_NO_DOMAIN_METADATA
            raise LibvirtError("no metadata", code)
        return text

    def setMetadata(  # noqa: N802 - libvirt's name
        self, _kind: int, text: str, _prefix: str, _namespace: str, flags: int
    ) -> None:
        live = bool(flags & self._binding.VIR_DOMAIN_AFFECT_LIVE)
        config = bool(flags & self._binding.VIR_DOMAIN_AFFECT_CONFIG)
        self._calls.append(f"metadata on {self._where} live={live} config={config}")
        if live:
            self.live = text
        if config:
            self.config = text

    def undefineFlags(self, flags: int) -> None:  # noqa: N802 - libvirt's name
        self.undefined_with = flags
        self._calls.append(f"undefine on {self._where}")

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        return "<domain/>"

    def create(self) -> None:
        self._calls.append(f"start on {self._where}")
        self.active = True

    def destroy(self) -> None:
        self._calls.append(f"destroy on {self._where}")
        self.active = False

    def shutdownFlags(self, _flags: int) -> None:  # noqa: N802 - libvirt's name
        self._calls.append(f"shutdown on {self._where}")
