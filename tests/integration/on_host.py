"""Runs a piece of Python on a host of the lab, with the holder and the store at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab import Lab
from lab.procs import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "ansible_collections.virtops.maintenance.plugins.module_utils._libvirt"
PRELUDE = f"""
import json, sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, {str(ROOT / "build" / "collections")!r})
from {PACKAGE}.store import copied_disks
from {PACKAGE}.host.connection import open_connection
from {PACKAGE}.holder.client import HolderClient, HolderError, ensure_holder
from {PACKAGE}.store.volumes import Store
def until(client, uuids):
    left, told, end = set(uuids), {{}}, time.monotonic() + {PATIENCE}
    while left:
        if time.monotonic() > end:
            raise TimeoutError(f"the holder says nothing of {{left}}; it said {{told}}")
        for event in client.wait(1.0):
            if event["event"] == "over":
                told[event["job"]["uuid"]] = event["outcome"]
                left.discard(event["job"]["uuid"])
    return told
"""


def on(lab: Lab, host: str, code: str, **values: Any) -> Any:
    """Run Python on a host; what it leaves in `result`."""
    text = PRELUDE + "".join(f"{k} = json.loads({json.dumps(json.dumps(v))})\n" for k, v in values.items())
    text += code + "\nprint(json.dumps(result))\n"
    done = lab.host(host).exec(["/usr/bin/python3", "-"], stdin=text)
    return json.loads(done.stdout.splitlines()[-1])


MOVE = """
import libvirt
vm = libvirt.open("qemu:///system").lookupByName(name)
words = ["LIVE", "PEER2PEER", "PERSIST_DEST", "UNDEFINE_SOURCE", *flags]
result = ""
try:
    if to:
        vm.migrateToURI3(to, {}, sum(getattr(libvirt, f"VIR_MIGRATE_{word}") for word in words))
    else:
        vm.managedSave()
except libvirt.libvirtError as error:
    result = str(error)
"""


def ask_libvirt(lab: Lab, name: str, *flags: str, saved: bool = False) -> str:
    """Migrate it from host-a to host-b, or save it, as anyone would: libvirt's error, or nothing.

    Not by virsh: a refusal that comes before it listens for the end leaves it waiting for ever
    (virshWatchJob of 9.0: g_main_loop_quit, then g_main_loop_run).
    """
    to = "" if saved else lab.host("host-b").peer_uri
    return str(on(lab, "host-a", MOVE, name=name, to=to, flags=flags))
