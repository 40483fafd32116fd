"""The lab's network: a bridge on the machine, a veth to each host.

A host's network namespace belongs to its supervisor process and is pinned by
nothing else: when the supervisor ends, namespace and veth are gone, and a
crash leaves neither behind.
"""

from __future__ import annotations

from pathlib import Path

from . import names
from .procs import run

# The guests' network inside every host; libvirt knows it as network "lan".
GUEST_BRIDGE = "br-lan"
# What libvirt moves memory and disks through, as seen by the source.
HELD = ("pref", "5", "ipproto", "tcp", "dport", "49152-49215", "blackhole")


def link_exists(name: str) -> bool:
    return Path(f"/sys/class/net/{name}").exists()


def bridge_up(number: int) -> None:
    """Make the bridge, or leave it as it is."""
    name = names.bridge(number)
    if not link_exists(name):
        run(["ip", "link", "add", name, "type", "bridge"])
    run(["ip", "address", "replace", f"{names.gateway(number)}/24", "dev", name])
    run(["ip", "link", "set", name, "up"])


def bridge_down(number: int) -> None:
    """Remove the bridge and every veth of this number that is still there."""
    prefix = names.bridge(number) + "h"
    for path in Path("/sys/class/net").iterdir():
        if path.name.startswith(prefix):
            run(["ip", "link", "delete", path.name], check=False)
    if link_exists(names.bridge(number)):
        run(["ip", "link", "delete", names.bridge(number)], check=False)


def inside(pid: int, *argv: str) -> list[str]:
    """The command in the network namespace of a process."""
    return ["nsenter", "-t", str(pid), "-n", *argv]


def attach(number: int, index: int, pid: int) -> None:
    """Connect the namespace of `pid` to the bridge and give it its address."""
    veth = names.veth(number, index)
    if not link_exists(veth):
        # The same address at every power on: peers remember it for half a minute.
        mac = f"52:54:00:86:{number:02x}:{index:02x}"
        run(["ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", str(pid)])
    run(["ip", "link", "set", veth, "master", names.bridge(number), "up"])
    have = run(inside(pid, "ip", "-o", "link")).stdout
    todo = ["link set lo up", f"address replace {names.address(number, index)}/24 dev eth0", "link set eth0 up"]
    if f" {GUEST_BRIDGE}:" not in have:
        todo.append(f"link add {GUEST_BRIDGE} type bridge")
    todo.append(f"link set {GUEST_BRIDGE} up")
    run(inside(pid, "ip", "-batch", "-"), stdin="\n".join(todo) + "\n")


def detach(number: int, index: int) -> None:
    """Take the cable away, if it is still there. A namespace whose processes have ended lives on while one of its
    connections has something to send, which it never gets rid of where the cable is pulled: two minutes."""
    veth = names.veth(number, index)
    if link_exists(veth):
        run(["ip", "link", "delete", veth], check=False)


def set_plugged(number: int, index: int, plugged: bool) -> None:
    """Put the cable in, or pull it."""
    run(["ip", "link", "set", names.veth(number, index), "up" if plugged else "down"])


def shape(number: int, index: int, pid: int, into: float | None, out: float | None) -> None:
    """Limit a host's link, in Mbit/s for each direction; None means no limit."""
    _tbf(["tc"], names.veth(number, index), into)
    _tbf(inside(pid, "tc"), "eth0", out)


def hold(pid: int) -> None:
    """Nothing more leaves on connections that carry migrations, until `let_go`.

    They stay open, and so do all others: nobody sees a broken network.
    """
    if "blackhole" not in run(inside(pid, "ip", "rule")).stdout:
        run(inside(pid, "ip", "rule", "add", *HELD))


def let_go(pid: int) -> None:
    run(inside(pid, "ip", "rule", "delete", *HELD), check=False)


def _tbf(tc: list[str], device: str, mbit: float | None) -> None:
    if mbit is None:
        run([*tc, "qdisc", "delete", "dev", device, "root"], check=False)
        return
    # A bucket of 10 ms, and never less than one large segment.
    burst = max(262144, int(mbit * 1_000_000 / 8 / 100))
    run(
        [
            *tc,
            "qdisc",
            "replace",
            "dev",
            device,
            "root",
            "tbf",
            "rate",
            f"{int(mbit * 1000)}kbit",
            "burst",
            str(burst),
            "latency",
            "50ms",
        ]
    )
