"""The cases on real libvirt hosts: host-a is drained. One lab for all of them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo import plays
from demo.plays import Ended

from lab import GuestSpec, Lab, own_lab
from lab.guest import SELDOM
from lab.names import gateway
from lab.procs import run
from lab.storage import PORT, luks

IMAGES, STORE = "/var/lib/libvirt/images", "/var/lib/libvirt/virtops"
HERE = {"maintenance_hosts": "host-a", **plays.UNMEASURED}
ALL = ("host-a", "host-b", "host-c")
FILTER = "<filter name='lab-f'/>"  # without rules: the lab has no ebtables
SECRET = (
    "<secret ephemeral='yes' private='no'><uuid>00000000-0000-4000-8000-0000000000a4</uuid>"
    "<usage type='volume'><volume>l4</volume></usage></secret>"
)
OPEN = "<dns enable='no'/><ip address='192.168.150.1' netmask='255.255.255.0'/>"
NOWHERE = "tcp://198.51.100.1"  # RFC 5737: an address for documentation


@contextmanager
def bed() -> Iterator[Lab]:
    with own_lab("cases", 3) as lab:
        yield lab


def _input(name: str) -> str:
    return (Path(__file__).parent / "inputs" / f"{name}.xml").read_text(encoding="utf-8")


@contextmanager
def _guest(lab: Lab, name: str, devices: str = "", **more: Any) -> Iterator[GuestSpec]:
    """On host-a; afterwards host-a is restored, and the guest is nowhere."""
    spec = GuestSpec(name, devices_xml=devices, tick_ms=SELDOM, **more)
    try:
        lab.run("host-a", spec)
        lab.wait_ticking([name])
        yield spec
    finally:
        plays.run(lab, "restore", HERE)
        lab.remove_guest(name)


def _network(lab: Lab, host: str, name: str, more: str, forward: str = "bridge") -> None:
    bridge = lab.host(host).virsh("net-dumpxml", "lan").partition("<bridge name='")[2].partition("'")[0]
    own = f"<forward mode='{forward}'/>" + (f"<bridge name='{bridge}'/>" if forward == "bridge" else "")
    lab.host(host).virsh("net-define", "/dev/stdin", stdin=f"<network><name>{name}</name>{own}{more}</network>")
    lab.host(host).virsh("net-start", name)


def _blocked(ended: Ended, name: str, reason: str, *words: str) -> str | None:
    """Known beforehand: blocked at once, no attempt, and the words are in its message."""
    row = ended.vm(name)
    said = f"{row['verdict']} {row['reason']} after {row['attempts']} attempts: {row['message']}"
    if (row["verdict"], row["reason"], row["attempts"]) != ("blocked", reason, 0):
        return said
    lacks = [word for word in words if word not in row["message"]]
    return f"{said} (does not say {', '.join(lacks)})" if lacks else None


def _check(lab: Lab, **more: Any) -> Ended:
    return plays.run(lab, "drain", {**HERE, **more}, "--check")


def _drain(lab: Lab, **more: Any) -> Ended:
    return plays.run(lab, "drain", {**HERE, "drain_timeout": 240, **more})


def _moved_to(ended: Ended, name: str, host: str) -> str | None:
    row = ended.vm(name)
    there = (row["verdict"], row["at"]) == ("moved", host)
    return None if there else f"{name} is {row['verdict']} on {row['at']}: {row['reason']} {row['message']}"


def l1_nwfilter(lab: Lab) -> str | None:
    lab.host("host-a").virsh("nwfilter-define", "/dev/stdin", stdin=FILTER)
    with _guest(lab, "l1", _input("nwfilter")):
        wrong = _blocked(_check(lab), "l1", "InterfaceNotLiveMigratable", "'lab-f'")
        if wrong:
            return wrong
        boot = lab.host("host-a").virsh("domid", "l1")
        _drain(lab, drain_on_not_migratable="cold_migrate", drain_allow_stop=True)
        if lab.host("host-a").virsh("domid", "l1") != boot:
            return "with cold_migrate the guest was asked to go off"
        lab.host("host-c").virsh("nwfilter-define", "/dev/stdin", stdin=FILTER)
        return _moved_to(_drain(lab), "l1", "host-c")


def l2_port_group(lab: Lab) -> str | None:
    for host in ALL:
        _network(lab, host, "pg", "<portgroup name='slow'/>" if host == "host-a" else "")
    with _guest(lab, "l2", _input("portgroup")):
        return _blocked(_check(lab), "l2", "InterfaceNotLiveMigratable", "port group 'slow'")


def l3_network_of_another_kind(lab: Lab) -> str | None:
    _network(lab, "host-a", "iso", "")
    for host in ALL[1:]:
        _network(lab, host, "iso", OPEN, forward="open")
    with _guest(lab, "l3", _input("iso")):
        return _blocked(_check(lab), "l3", "InterfaceNotLiveMigratable", "forward mode open", "forward mode bridge")


def l4_secret_without_a_value(lab: Lab) -> str | None:
    """Its disk is served by the lab, not at the input's address, so that the guest runs."""
    uuid = "00000000-0000-4000-8000-0000000000a4"
    run(["sh", "-c", luks(lab.paths.nbd / "l4", "sesame", 1)])
    for host in ALL:
        lab.host(host).virsh("secret-define", "/dev/stdin", stdin=SECRET)
    lab.host("host-a").virsh("secret-set-value", uuid, b64encode(b"sesame").decode())
    disk = _input("luks").replace("192.0.2.1", gateway(lab.number)).replace("10809", str(PORT))
    with _guest(lab, "l4", disk):
        return _blocked(_check(lab), "l4", "SecretMissing", "has no value")


def l5_writable_floppy(lab: Lab) -> str | None:
    for host in ALL:
        lab.host(host).exec(f"truncate -s 1440K {IMAGES}/f5.vfd")
    with _guest(lab, "l5", _input("floppy")):
        return _blocked(_check(lab), "l5", "DisksNotLiveMigratable", "floppy")


def l6_option_rom(lab: Lab) -> str | None:
    lab.host("host-a").exec(f"head -c 512 /dev/zero > {IMAGES}/r6.rom")
    with _guest(lab, "l6", _input("rom")):
        return _blocked(_check(lab), "l6", "FileMissing", "r6.rom")


def l7_directory_of_a_channel(lab: Lab) -> str | None:
    for host in ("host-a", "host-c"):
        lab.host(host).exec("mkdir -p /etc/only-a-and-c")
    with _guest(lab, "l7", _input("channel")):
        ended = _drain(lab)
        wrong = _moved_to(ended, "l7", "host-c")
        tries = ended.vm("l7")["attempts"]
        return wrong or (f"{tries} attempts" if tries > 2 else None)


def l8_migration_address_that_leads_nowhere(lab: Lab) -> str | None:
    inventory = lab.paths.inventory
    before = inventory.read_text(encoding="utf-8")
    comment, _line, text = before.partition("\n")
    tree = json.loads(text)
    tree["lab"]["hosts"]["host-b"]["maintenance_migrate_uri"] = NOWHERE
    lab.run("host-c", GuestSpec("l8-there", tick_ms=SELDOM))
    with _guest(lab, "l8-1"), _guest(lab, "l8-2"):
        try:
            inventory.write_text(f"{comment}\n{json.dumps(tree)}\n", encoding="utf-8")
            ended = _drain(lab, drain_limits={"outbound": 1})
        finally:
            inventory.write_text(before, encoding="utf-8")
            lab.remove_guest("l8-there")
        wrong = [_moved_to(ended, name, "host-c") for name in ("l8-1", "l8-2")]
        tries = sum(ended.vm(name)["attempts"] for name in ("l8-1", "l8-2"))
        if tries != 3:
            wrong.append(f"{tries} attempts in all, and host-b was to be tried once")
        if "host-b failed as a target" not in str(ended.last.get("warnings")) + " ".join(ended.text.split()):
            wrong.append("no warning names host-b")
        return "; ".join(text for text in wrong if text) or None


def l9_record_store_read_only(lab: Lab) -> str | None:
    peers = [lab.host(name) for name in ALL[1:]]
    with _guest(lab, "l9"):
        _drain(lab)
        for host in peers:
            host.exec(f"mount --bind {STORE} {STORE} && mount -o remount,ro,bind {STORE}")
        restored = plays.run(lab, "restore", HERE)
        for host in peers:
            host.exec(f"umount {STORE}")
            host.virsh("pool-refresh", "virtops")
        stays = [host.name for host in peers if "copy.host-a" in host.virsh("vol-list", "virtops")]
        text = " ".join(restored.text.split())
        again = plays.run(lab, "restore", HERE)
        left = [host.name for host in peers if "copy.host-a" in host.virsh("vol-list", "virtops")]
        if restored.code:
            return f"not restored: {restored.text[-500:]}"
        if not stays or not all(f"{name} (" in text for name in stays) or "could not be removed" not in text:
            return f"on {stays} a copy stays, and no warning names it"
        return f"the next run left it on {left} ({again.code})" if left or again.code else None
