"""What happens to a fleet of libvirt hosts in the middle of a command.

Each act takes the fleet and a dice, and says what it did. What it may have cost it notes in the fleet.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

from cancel import ways

from lab import GuestSpec, Host, network
from lab.hostfiles import GUEST_IMAGE
from lab.procs import run

if TYPE_CHECKING:
    from chaos.hosts import Fleet

ACTS: dict[str, Callable[[Fleet, random.Random], str]] = {}
FOR_GOOD = 10.0**6  # s: until all is healed
IMAGES = "/var/lib/libvirt/images"
SSH = ("pref", "6", "ipproto", "tcp", "sport", "22", "blackhole")
CLOCK = f"{GUEST_IMAGE}/clock.so"  # see clock.c
MOST_OF_IT = 5900  # MiB, of 6144 that a host may give away


def _act(function: Callable[[Fleet, random.Random], str]) -> Callable[[Fleet, random.Random], str]:
    ACTS[function.__name__.strip("_")] = function
    return function


def _host(on: Fleet, dice: random.Random) -> Host:
    return on.lab.host(dice.choice(on.nodes))


def _worked(on: Fleet, dice: random.Random) -> Host:
    """One on which the command has its module, or may have."""
    return on.lab.host(dice.choice(on.nodes) if on.current and "rolling" in on.current.argv[-1] else on.nodes[0])


def _vm(on: Fleet, dice: random.Random) -> tuple[str, Host]:
    """One that is to run, and the host where it ticked last."""
    vm = dice.choice(sorted(set(on.specs) - on.gone))
    found = on.lab.last_tick(vm)
    assert found
    return vm, on.lab.host(found[0])


def _dies(on: Fleet, vm: str, host: Host) -> None:
    on.gone.add(vm)
    if host.name == on.nodes[0]:
        on.unnamed.add(vm)


def _how_long(seconds: float) -> str:
    return "for good" if seconds == FOR_GOOD else f"for {seconds:.0f} s"


# Machines


@_act
def _link_down(on: Fleet, dice: random.Random) -> str:
    host, seconds = _host(on, dice), dice.choice((3.0, 30.0, FOR_GOOD))
    if seconds > 3:
        on.cut |= {vm for where, vm, _pid in on.processes() if where == host.name}
    on.lab.unplug(host)
    on.later(seconds, lambda: on.lab.plug(host))
    return f"the link of {host.name} is down {_how_long(seconds)}"


@_act
def _ssh_cut(on: Fleet, dice: random.Random) -> str:
    host, seconds = _worked(on, dice), dice.choice((0.0, 5.0, 40.0))
    pid = host.supervisor_pid
    if seconds and pid:
        run(network.inside(pid, "ip", "rule", "add", *SSH))
        on.later(seconds, lambda: run(network.inside(pid, "ip", "rule", "delete", *SSH), check=False))
    host.exec("pkill -KILL -f '^sshd: root'", check=False)
    return f"the ssh connections to {host.name} end; nobody gets in for {seconds:.0f} s"


@_act
def _libvirtd_killed(on: Fleet, dice: random.Random) -> str:
    host = _host(on, dice)
    host.exec("pkill -KILL -x libvirtd")
    return f"kill -9 of libvirtd on {host.name}; it begins again a second later"


@_act
def _host_reboots(on: Fleet, dice: random.Random) -> str:
    host = _host(on, dice)
    found = on.processes()
    for where, vm, _pid in found:
        tick = on.lab.last_tick(vm)
        if where == host.name and (sum(row[1] == vm for row in found) == 1 or (tick and tick[0] == host.name)):
            _dies(on, vm, host)
    host.reboot()
    return f"{host.name} reboots by itself"


@_act
def _qemu_killed(on: Fleet, dice: random.Random) -> str:
    found = [row for row in on.processes() if row[1] not in on.gone]
    both = [row for row in found if sum(other[1] == row[1] for other in found) > 1]  # those that migrate
    host, vm, pid = dice.choice(both or found)
    os.kill(pid, signal.SIGSTOP)
    tick = on.lab.last_tick(vm)
    running = tick is None or tick[0] == host
    if running:
        _dies(on, vm, on.lab.host(host))
    os.kill(pid, signal.SIGKILL)
    return f"kill -9 of the QEMU of {vm} on {host}{'' if running else ', to which it migrates'}"


@_act
def _memory_full(on: Fleet, dice: random.Random) -> str:
    host, seconds = on.lab.host(dice.choice(on.nodes[1:])), dice.choice((10.0, 40.0))

    def end() -> None:
        for one in on.lab.hosts.values():
            one.virsh("destroy", "hog", check=False)

    on.moved.add("hog")
    on.gone.add("hog")
    host.virsh("create", "--paused", "/dev/stdin", stdin=on.lab.xml(GuestSpec("hog", memory_mib=MOST_OF_IT)))
    on.later(seconds, end)
    return f"somebody starts a VM on {host.name} that takes all of its memory, for {seconds:.0f} s"


@_act
def _disk_full(on: Fleet, dice: random.Random) -> str:
    """A file system without room over the images: the machine's own has too much of it. QEMU keeps what it has open."""
    host, seconds = on.lab.host(dice.choice(on.nodes[1:])), dice.choice((10.0, 40.0))
    fill = f"head -c 65536 /dev/zero >{IMAGES}/fill"
    host.exec(f"mount -t tmpfs -o mode=0700,size=64k none {IMAGES} && {fill}; virsh pool-refresh default", check=False)
    on.later(seconds, lambda: host.exec(f"umount {IMAGES}; virsh pool-refresh default", check=False))
    return f"{IMAGES} of {host.name} is full, for {seconds:.0f} s"


@_act
def _clock_wrong(on: Fleet, dice: random.Random) -> str:
    host, minutes = _host(on, dice), dice.choice((-7, -2, 3, 45))
    host.exec(f"echo {60 * minutes} >/etc/lab-clock && echo {CLOCK} >/etc/ld.so.preload")
    on.later(FOR_GOOD, lambda: host.exec("rm -f /etc/ld.so.preload", check=False))
    return f"the clock of {host.name} is wrong by {minutes} minutes for what begins there from now on, for good"


# Our own processes


@_act
def _playbook_killed(on: Fleet, dice: random.Random) -> str:
    return on.kill(True, dice)


def _killed(on: Fleet, dice: random.Random, victim: str) -> str:
    host, run = _worked(on, dice), on.current
    done = run is not None and ways.kill(victim, run, host, seconds=20.0)
    return f"kill -9 of the {victim} on {host.name}" if done else f"there is no {victim} on {host.name} to kill"


@_act
def _module_killed(on: Fleet, dice: random.Random) -> str:
    return _killed(on, dice, "module")


@_act
def _holder_killed(on: Fleet, dice: random.Random) -> str:
    return _killed(on, dice, "holder")


@_act
def _second_drain(on: Fleet, _dice: random.Random) -> str:
    on.beside()
    return f"a drain of {on.nodes[1]} begins beside it"


# Owners


@_act
def _guest_off(on: Fleet, dice: random.Random) -> str:
    vm, host = _vm(on, dice)
    _dies(on, vm, host)
    on.lab.shutdown_guest(host, vm)
    return f"{vm} shuts itself down on {host.name}"


@_act
def _destroyed(on: Fleet, dice: random.Random) -> str:
    vm, host = _vm(on, dice)
    _dies(on, vm, host)
    host.virsh("destroy", vm)
    return f"somebody destroys {vm} on {host.name}"


@_act
def _redefined(on: Fleet, dice: random.Random) -> str:
    vm, host = _vm(on, dice)
    xml = host.virsh("dumpxml", "--inactive", vm)
    edited = xml.replace("</name>", "</name>\n  <description>edited by its owner</description>", 1)
    host.virsh("define", "/dev/stdin", stdin=edited)
    return f"somebody defines {vm} anew on {host.name}"


@_act
def _migrated(on: Fleet, dice: random.Random) -> str:
    """In the background: virsh may wait for ever for a migration that is refused (tests/lab/README.md)."""
    vm, host = _vm(on, dice)
    to = dice.choice([name for name in on.nodes if name != host.name])
    on.moved.add(vm)
    words = ["--live", "--p2p", "--persistent", "--undefinesource"]
    words += ["--copy-storage-all"] if any(kind == "local" for kind, _size in on.specs[vm].disks) else []
    if not on.specs[vm].persistent:
        words = ["--live", "--p2p"]
    argv = host.argv(["timeout", "60", "virsh", "migrate", *words, vm, on.lab.host(to).peer_uri])
    with open(on.directory / "virsh", "ab") as stream:
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True)
    return f"somebody migrates {vm} from {host.name} to {to}"


@_act
def _made(on: Fleet, dice: random.Random) -> str:
    spec = GuestSpec(f"new-{dice.randrange(10**6)}", fill_mib=16)
    on.moved.add(spec.name)
    on.lab.run(on.nodes[0], spec)
    on.specs[spec.name] = spec
    return f"somebody makes a VM on {on.nodes[0]}, {spec.name}"
