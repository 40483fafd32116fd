"""What is written into the raw log beside what the lab writes: when drains began and were over,
and what stands on the hosts at the end. Read from the hosts' files, not asked of libvirt.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

from lab import Host, Lab, rawlog

FILE = "left.jsonl"
BEGINS, OVER, RESTORED = "drain begins", "drain over", "restore begins"
MARKS = ("evictionRequested", "evacuationNodeName")


def note(lab: Lab, hosts: Iterable[str], what: str) -> None:
    for host in hosts:
        rawlog.host_event(lab.paths.raw, host, what)


def survey(lab: Lab, when: str) -> None:
    """What is left on each host that is up, for the count. `when`: a word for the reader."""
    with open(lab.paths.raw / FILE, "a", encoding="utf-8") as stream:
        for host in lab.hosts.values():
            if host.init_pid is not None:
                row = {
                    "stamp": time.monotonic_ns(),
                    "when": when,
                    "host": host.name,
                    "store": _store(host),
                    "marked": _marked(host),
                }
                stream.write(json.dumps(row) + "\n")


def claims(lab: Lab, owner: str) -> list[str]:
    """Reservations and slots of that host which stand on hosts that are up, as host:name."""
    return [
        f"{host.name}:{name}"
        for host in lab.hosts.values()
        if host.init_pid is not None
        for name in _store(host)
        if name.startswith(("resv.", "slot.")) and name.endswith(f".{owner}")
    ]


def processes(lab: Lab, guest: str) -> set[str]:
    """Hosts that have a QEMU process of this guest: libvirt notes its pid in a file."""
    return {
        host.name
        for host in lab.hosts.values()
        if host.init_pid is not None and (_root(host) / f"run/libvirt/qemu/{guest}.pid").exists()
    }


def _root(host: Host) -> Path:
    return Path(f"/proc/{host.init_pid}/root")


def _store(host: Host) -> list[str]:
    """Names in the folder of the host's store; none if it has no store yet."""
    return sorted(path.name for path in (_root(host) / "var/lib/libvirt/virtops").glob("*"))


def _marked(host: Host) -> list[str]:
    """Files of domains, on disk or of what runs, that carry a mark of an eviction."""
    found = []
    for folder in ("etc/libvirt/qemu", "run/libvirt/qemu"):
        for path in sorted((_root(host) / folder).glob("*.xml")):
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{folder}/{path.name}"] if any(mark in text for mark in MARKS) else []
    return found
