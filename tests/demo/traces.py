"""What a run left behind, read with virsh on the hosts: never the product's own word."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lab import Host, Lab

POOL = "virtops"
MARKS = ("evictionRequested", "evacuationNodeName")
# Changed by libvirt itself between two looks.
_VOLATILE = re.compile(r"<domain [^>]*>|<source path='/dev/pts/\d+'/>|tty='/dev/pts/\d+'")


def up(lab: Lab) -> list[Host]:
    """The hosts that are running."""
    return [host for host in lab.hosts.values() if host.init_pid is not None]


def volumes(host: Host) -> list[str]:
    """Names in the store of the host; empty when there is no store yet.

    Without the record of the last roll, which stays as its history.
    """
    lines = host.virsh("vol-list", POOL, check=False).splitlines()
    names = sorted(line.split()[0] for line in lines if line.strip())
    return [name for name in names if not name.startswith("roll.")]


def claims(lab: Lab) -> list[str]:
    """Reservations and slots that stand, as host:name."""
    return [f"{host.name}:{name}" for host in up(lab) for name in volumes(host) if name.startswith(("resv.", "slot."))]


def running(host: Host) -> list[str]:
    """Names of the active domains."""
    return sorted(host.virsh("list", "--name").split())


def defined(host: Host) -> list[str]:
    """Names of all domains, active or not."""
    return sorted(host.virsh("list", "--all", "--name").split())


def autostarted(host: Host) -> list[str]:
    return sorted(host.virsh("list", "--all", "--autostart", "--name").split())


def transient(host: Host) -> list[str]:
    return sorted(host.virsh("list", "--all", "--transient", "--name").split())


def marked(lab: Lab) -> list[str]:
    """Domains that still carry a mark of an eviction, live or in their definition."""
    found = []
    for host in up(lab):
        for name in defined(host):
            texts = [host.virsh("dumpxml", name, check=False)]
            texts.append(host.virsh("dumpxml", "--inactive", name, check=False))
            if any(mark in text for mark in MARKS for text in texts):
                found.append(f"{host.name}:{name}")
    return found


def snapshot(lab: Lab, hosts: Iterable[str] = ()) -> dict[str, object]:
    """Everything a run could have changed: domains with definition and state, pools, volumes."""
    out: dict[str, object] = {}
    for host in [lab.host(name) for name in hosts] or up(lab):
        out[host.name, "pools"] = sorted(host.virsh("pool-list", "--all", "--name").split())
        out[host.name, "volumes"] = volumes(host)
        out[host.name, "images"] = host.exec("ls /var/lib/libvirt/images").stdout.split()
        for name in defined(host):
            xml = host.virsh("dumpxml", name) + host.virsh("dumpxml", "--inactive", name)
            out[host.name, name] = (host.virsh("domstate", name), _VOLATILE.sub("", xml))
        out[host.name, "autostart"] = autostarted(host)
    return out
