"""The guard: a hook of libvirt on a protected host, which asks its peers before each start of a VM.

libvirtd starts autostart VMs before anybody can reach it. So a host that comes back has to ask by itself whether one of
its VMs was taken over. The hook is a script of Python's standard library and calls virsh; it never calls the libvirtd
that runs it, which would wait for the hook. libvirt reads the folder of hooks when its daemon starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress

from ..._core.recovery.record import markers

HOOK = "/etc/libvirt/hooks/qemu.d/50-virtops-guard"
SETTINGS = "/etc/libvirt/virtops-guard.json"

# What it needs of the records it has from the store's form (`store/volumes`): a header line, then JSON.
_SCRIPT = '''#!/usr/bin/python3
# Made by virtops.maintenance (playbook protect, maintenance_guard). It refuses to start a VM that was taken over by
# another host while this one was down. To be rid of it: protect with maintenance_guard=false.
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

SETTINGS = "/etc/libvirt/virtops-guard.json"
SECONDS = 15


def virsh(uri, *words):
    done = subprocess.run(
        ["virsh", "-q", "-c", uri, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, timeout=SECONDS,
    )
    if done.returncode:
        raise OSError("virsh failed")
    return done.stdout.decode()


def taken(uri, host):
    """(generation of the record, UUID -> target), as one peer has it. Raises where that does not answer."""
    pools = virsh(uri, "pool-list", "--all", "--name").split()
    if "virtops" not in pools:
        return 0, {}
    found = [line.split()[0] for line in virsh(uri, "vol-list", "virtops").splitlines() if line.split()]
    head = "recovery." + host + "."
    numbers = sorted((int(v[len(head):]), v) for v in found if v.startswith(head) and v[len(head):].isdigit())
    if not numbers:
        return 0, {}
    with tempfile.NamedTemporaryFile() as file:
        virsh(uri, "vol-download", "--pool", "virtops", numbers[-1][1], file.name)
        with open(file.name, "rb") as stream:
            record = json.loads(stream.read().split(b"\\n", 1)[1].decode())
    return numbers[-1][0], {vm["uuid"]: vm["target"] for vm in record["vms"] if vm["step"] != "failed"}


def ask(settings, uuid):
    """(how many peers answered, where the VM was started, by the newest record that they have). Those that are needed
    share one with all who wrote it; the others are not waited for."""
    pool = concurrent.futures.ThreadPoolExecutor(len(settings["peers"]) or 1)
    asked = [pool.submit(taken, uri, settings["host"]) for uri in settings["peers"].values()]
    answers = []
    for one in concurrent.futures.as_completed(asked):
        try:
            answers.append(one.result())
        except Exception:
            continue
        if len(answers) >= settings["needed"]:
            break
    newest = max(answers, key=lambda answer: answer[0], default=(0, {}))
    return len(answers), newest[1].get(uuid)


def main():
    if sys.argv[2:3] != ["prepare"]:
        return 0
    uuid = ET.fromstring(sys.stdin.read()).findtext("uuid")
    with open(SETTINGS) as stream:
        settings = json.load(stream)
    name, host, until = sys.argv[1], settings["host"], time.monotonic() + SECONDS
    answered, where = ask(settings, uuid)
    # After a boot the network may need a moment.
    while answered < settings["needed"] and not where and time.monotonic() < until:
        time.sleep(1)
        answered, where = ask(settings, uuid)
    if where:
        print("%s was started on %s while %s was down. It is not started twice. Run the playbook recover for %s: it"
              " removes what is left of it here." % (name, where, host, host), file=sys.stderr)
        return 1
    if answered < settings["needed"]:
        print("Whether %s was started elsewhere while %s was down is not known: %d of its peers (%s) answered, %d have"
              " to. Start it when they answer (virsh start %s)." % (
                  name, host, answered, ", ".join(sorted(settings["peers"])), settings["needed"], name),
              file=sys.stderr)
        return 1
    return 0


code = main()
sys.stderr.flush()
os._exit(code)  # not after those that do not answer
'''


def install(host: str, peers: Sequence[tuple[str, str]], wanted: bool | None, acts: bool) -> bool:
    """Install the guard, or remove it (`wanted` None: if it is installed, write it with the peers of now).

    `peers`: (name, URI) of those that are asked. Gives whether anything was changed or, with `acts` False, would be.
    Raises OSError.
    """
    if wanted is None:
        wanted = os.path.exists(HOOK)
    _write, needed = markers(len(peers))
    settings = json.dumps({"host": host, "peers": dict(peers), "needed": needed}, indent=1) + "\n"
    texts = {SETTINGS: (settings, 0o600), HOOK: (_SCRIPT, 0o755)}
    changed = False
    for path, (text, mode) in texts.items():
        if (_read(path) == text) if wanted else not os.path.exists(path):
            continue
        changed = True
        if acts and wanted:
            _put(path, text, mode)
        elif acts:
            os.unlink(path)
    return changed


def installed(host: str) -> bool:
    """Is the guard installed as this version writes it, for this host? It works once libvirtd was started after that,
    which a host that died does."""
    try:
        settings = json.loads(_read(SETTINGS) or "{}")
    except ValueError:
        return False
    return settings.get("host") == host and _read(HOOK) == _SCRIPT and os.access(HOOK, os.X_OK)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return None


def _put(path: str, text: str, mode: int) -> None:
    """Whole or not at all: libvirt may start a VM at any time."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{os.path.dirname(SETTINGS)}/.virtops-guard.{os.getpid()}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
