"""The guests of a lab: define, start, watch, remove."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import guest, procs, rawlog, storage
from .guest import GuestSpec
from .host import Host
from .names import LabError, Paths


class Population:
    """The part of a Lab that is about guests."""

    paths: Paths
    number: int
    hosts: dict[str, Host]

    def host(self, name: str | Host) -> Host:
        raise NotImplementedError

    # -- definitions

    def xml(self, spec: GuestSpec) -> str:
        return guest.domain_xml(spec, self.number)

    def _file(self, name: str) -> Path:
        return self.paths.guests / f"{name}.json"

    def spec(self, name: str) -> GuestSpec:
        """The spec with which the guest was defined."""
        try:
            data: dict[str, Any] = json.loads(self._file(name).read_text())
        except FileNotFoundError:
            raise LabError(f"no guest {name} was ever defined in this lab") from None
        data["disks"] = [tuple(disk) for disk in data["disks"]]
        return GuestSpec(**data)

    def define(self, host: str | Host, spec: GuestSpec) -> None:
        """Make the guest's disks and define it on the host (a transient one: make it ready)."""
        host = self.host(host)
        self._file(spec.name).write_text(json.dumps(spec.as_dict()))
        rawlog.manifest(self.paths.raw, event="define", vm=spec.name, host=host.name, spec=spec.as_dict())
        self.make_disks(host, spec)
        if spec.persistent:
            host.virsh("define", "/dev/stdin", stdin=self.xml(spec))
            if spec.autostart:
                host.virsh("autostart", spec.name)

    def make_disks(self, host: str | Host, spec: GuestSpec) -> None:
        """Make the disks that are not there yet, empty."""
        host = self.host(host)
        for place, (kind, size) in enumerate(spec.disks):
            if kind == "shared":
                storage.create(self.paths, spec.disk_name(place), size)
            elif kind == "local":
                path = spec.local_path(place)
                host.exec(f"test -e {path} || qemu-img create -q -f qcow2 {path} {size}M")
                host.virsh("pool-refresh", "default")

    def start(self, host: str | Host, name: str) -> None:
        """Start a defined guest; a transient one is created."""
        host = self.host(host)
        spec = self.spec(name)
        rawlog.manifest(self.paths.raw, event="start", vm=name, host=host.name)
        if spec.persistent:
            host.virsh("start", name)
        else:
            host.virsh("create", "/dev/stdin", stdin=self.xml(spec))

    def run(self, host: str | Host, spec: GuestSpec) -> None:
        """Define and start."""
        self.define(host, spec)
        self.start(host, spec.name)

    # -- where they are

    def where(self, name: str | None = None) -> dict[str, list[tuple[str, str]]]:
        """For each domain, the hosts that know it and the state it has there."""
        out: dict[str, list[tuple[str, str]]] = {}
        for host in self.hosts.values():
            if host.init_pid is None:
                continue
            for line in host.virsh("list", "--all").splitlines():
                _number, domain, state = line.split(None, 2)
                if name in (None, domain):
                    out.setdefault(domain, []).append((host.name, state.strip()))
        return out

    def announce_stop(self, name: str, text: str = "") -> None:
        """Tell the checker that this guest is meant to stop (or to be saved) about now."""
        rawlog.announce(self.paths.raw, name, f"stop {text}".strip())

    def shutdown_guest(self, host: str | Host, name: str) -> None:
        """Press the power button."""
        self.host(host).virsh("shutdown", name, "--mode", "acpi")

    def destroy_guest(self, host: str | Host, name: str) -> None:
        """Pull the plug of a guest. Announced, so that it counts as stopped."""
        self.announce_stop(name, "destroyed by the lab")
        self.host(host).virsh("destroy", name)

    def remove_guest(self, name: str) -> None:
        """Take a guest and its disks away from every host."""
        spec = self.spec(name)
        self.announce_stop(name, "removed by the lab")
        for host in self.hosts.values():
            if host.init_pid is None:
                continue
            host.virsh("destroy", name, check=False)
            host.virsh("undefine", name, "--managed-save", "--snapshots-metadata", "--nvram", check=False)
            for place, (kind, _size) in enumerate(spec.disks):
                if kind == "local":
                    host.exec(["rm", "-f", spec.local_path(place)])
        for place, (kind, _size) in enumerate(spec.disks):
            if kind == "shared":
                storage.remove(self.paths, spec.disk_name(place))
        self._file(name).unlink(missing_ok=True)
        rawlog.manifest(self.paths.raw, event="remove", vm=name)

    # -- their ticks

    def _sizes(self, name: str) -> dict[Path, int]:
        return {path: path.stat().st_size for path in self.paths.raw.glob(f"serial/*/{name}.log")}

    def last_tick(self, name: str) -> tuple[str, str, int] | None:
        """(host, boot id, sequence) of the newest tick, by the guest's own log files."""
        best = None
        for path in self.paths.raw.glob(f"serial/*/{name}.log"):
            found = _last_tick_in(path)
            if found is not None and (best is None or path.stat().st_mtime_ns > best[0]):
                best = (path.stat().st_mtime_ns, path.parent.name, *found)
        return best[1:] if best else None

    def wait_ticking(self, names: Iterable[str], timeout: float = procs.PATIENCE) -> None:
        """Wait until each of the guests ticks anew from now on."""
        waiting = {name: self._sizes(name) for name in names}

        def ticking() -> bool:
            for name in list(waiting):
                for path, size in self._sizes(name).items():
                    with open(path, "rb") as handle:
                        handle.seek(min(size, waiting[name].get(path, 0)))
                        if b"\nT " in handle.read():
                            del waiting[name]
                            break
            return not waiting

        if not procs.wait_for(ticking, timeout, pause=0.05):
            raise LabError(f"not ticking after {timeout:.0f} s: {', '.join(sorted(waiting))}")


def _last_tick_in(path: Path) -> tuple[str, int] | None:
    with open(path, "rb") as handle:
        handle.seek(max(0, path.stat().st_size - 4096))
        for line in reversed(handle.read().split(b"\n")[:-1]):
            words = line.split()
            if len(words) == 4 and words[0] == b"T" and words[3] == b";":
                return words[1].decode(), int(words[2])
    return None
