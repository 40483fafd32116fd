"""make postcopy-demo: what happens to a guest in post-copy when its link breaks.

The cable of the target is pulled for 3, 30 and 120 s: QEMU's stream lives, and goes on by itself. Or the stream itself
is reset: then both domains stand still in "post-copy failed", and the migration agent resumes it. So does a new one
where the first was killed before that, and where everybody was killed, the same command does, a minute later. Or
libvirtd is killed, on either side.

The guest compares its memory all along; the checker of the lab judges from its raw log. The drain that moves it goes
on, or the same command does. Nothing may be cleaned away meanwhile: each host has its domain until the link is back.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import plays, report, traces
from integration.on_host import on

from lab import GuestSpec, Lab
from lab.once import in_a_lab
from lab.procs import wait_for

CUTS = (3, 30, 120)  # seconds
SLOW = 60  # Mbit/s: what remains takes some 20 s
DRAIN = {
    **plays.UNMEASURED,
    "maintenance_hosts": "host-a",
    "drain_migration": {"post_copy": True, "on_timeout": "post_copy", "completion_timeout_per_gib": 3},
}
AGAIN = 3  # times that the same command may be given
SETTLES = 5  # s of post-copy, of some 20
# QEMU listens for a migration from here on (libvirt's migration_port_min).
RESET = ["ss", "-K", "dst", "{target}", "dport", ">=", ":49152"]
LATER = 60  # s after which the same command comes, where everybody was killed
KILL = """
import os, signal
for name in os.listdir("/proc"):
    try:
        words = open(f"/proc/{name}/cmdline").read() if name.isdigit() and int(name) != os.getpid() else ""
    except OSError:
        continue
    if any(word in words for word in killed):
        os.kill(int(name), signal.SIGKILL)
result = True
"""
AGENT, MODULE = "daemon.main", "AnsiballZ"  # in the words of their command lines


def pull(lab: Lab, name: str, seconds: int) -> list[str]:
    """What was wrong while the cable was out."""
    lab.unplug("host-b")
    until, wrong = time.monotonic() + seconds, []
    while time.monotonic() < until:
        if name not in traces.defined(lab.host("host-a")):
            wrong.append(f"{name} is gone from host-a while its memory is there")
        time.sleep(1)
    lab.plug("host-b")
    return wrong


def reset(lab: Lab, name: str, killed: tuple[str, ...]) -> list[str]:
    """The stream is reset, after these were killed on the source."""
    source = lab.host("host-a")
    # An emulated CPU that waits for a page while it takes an interrupt holds QEMU's lock: then its monitor is dead, and
    # libvirt can do nothing. The pages of the kernel come first, since they are needed first.
    time.sleep(SETTLES)
    if killed:
        on(lab, "host-a", KILL, killed=killed)
    source.exec([word.format(target=lab.host("host-b").address) for word in RESET])
    # Its state is that for some milliseconds only: QEMU's own log has it.
    log = f"/var/log/libvirt/qemu/{name}.log"
    broke = wait_for(lambda: "Migration paused" in source.exec(["cat", log]).stdout, pause=0.2)
    return [] if broke else [f"the stream of {name} did not break"]


def nobody_left(lab: Lab, name: str, drain: plays.Play) -> list[str]:
    """The playbook, its module and the agent are killed, then the stream is reset. Nobody is there for a while."""
    drain.kill()
    wrong = reset(lab, name, (MODULE, AGENT))
    time.sleep(LATER)
    wrong += [f"{name} is not on {host}" for host in lab.hosts if name not in traces.defined(lab.host(host))]
    return wrong


def kill_libvirtd(lab: Lab, host: str) -> list[str]:
    time.sleep(SETTLES)
    lab.host(host).exec("kill -9 $(cat /run/libvirtd.pid)")
    return []


Breaks = Callable[[Lab, str, plays.Play], "list[str]"]
STREAMS: dict[str, Breaks] = {
    "reset": lambda lab, name, _drain: reset(lab, name, ()),
    "reset-agent-killed": lambda lab, name, _drain: reset(lab, name, (AGENT,)),
    "reset-all-killed": nobody_left,
}


def broken(lab: Lab, name: str, breaks: Breaks, step: str) -> list[str]:
    """What was wrong with one guest in post-copy to which this happens. `step`: what its drain did about it."""
    source, target = lab.host("host-a"), lab.host("host-b")
    lab.run("host-a", GuestSpec(name, memory_mib=256, fill_mib=160, dirty_mib_s=4))
    lab.wait_ticking([name])
    lab.shape("host-a", SLOW)
    drain = plays.Play(lab, "drain", DRAIN)
    if not wait_for(lambda: "post-copy" in source.virsh("domstate", "--reason", name, check=False), pause=0.2):
        return [f"{name} did not come to post-copy: {drain.text}"]
    print(f"{name} is in post-copy", flush=True)
    wrong = breaks(lab, name, drain)
    lab.unshape("host-a")
    ended = drain.wait()
    for _again in range(AGAIN):
        if ended.code == 0:
            break
        print(f"the drain ended with {ended.code}; the same command again:\n{ended.text}", flush=True)
        ended = plays.run(lab, "drain", DRAIN)
    print(ended.text, flush=True)
    if ended.code or traces.running(target) != [name] or traces.defined(source):
        wrong.append(f"{name}: the drain ended with {ended.code}, on host-b run {traces.running(target)}")
    did = [one for drained in ended.drains[-1:] for vm in drained["vms"] for one in vm.get("steps", ())]
    if not any(step in one for one in did):
        wrong.append(f"{name}: its steps are {did}, expected {step!r}")
    lab.wait_ticking([name])
    restored = plays.run(lab, "restore", {"maintenance_hosts": "host-a"})
    wrong += [f"{name}: the restore ended with {restored.code}: {restored.text}"] if restored.code else []
    lab.remove_guest(name)
    return wrong


def demo(lab: Lab) -> int:
    cuts = {
        f"cut-{seconds}": broken(
            lab, f"cut-{seconds}", lambda lab, name, _drain, s=seconds: pull(lab, name, s), "post-copy after"
        )
        for seconds in CUTS
    }
    streams = {name: broken(lab, name, breaks, "post-copy resumed") for name, breaks in STREAMS.items()}
    daemons = {
        f"libvirtd-{host}": broken(
            lab, f"libvirtd-{host}", lambda lab, _name, _drain, host=host: kill_libvirtd(lab, host), "post-copy after"
        )
        for host in ("host-a", "host-b")
    }
    for text in (text for texts in (*cuts.values(), *streams.values(), *daemons.values()) for text in texts):
        print(f"WRONG: {text}")
    totals = report.check(lab.paths.raw, set())["totals"]
    print(
        f"streams reset={len(streams)} resumed={_well(streams)}; libvirtd killed={len(daemons)} moved={_well(daemons)}"
    )
    print(
        f"postcopy-demo: cuts={len(CUTS)} resumed={_well(cuts)} memory_errors={totals['memory_errors']}"
        f" lost={totals['lost']}",
        flush=True,
    )
    well = all(_well(ones) == len(ones) for ones in (cuts, streams, daemons))
    return 0 if well and not totals["memory_errors"] and not totals["lost"] else 1


def _well(ones: dict[str, list[str]]) -> int:
    return sum(not texts for texts in ones.values())


if __name__ == "__main__":
    sys.exit(in_a_lab("postcopy-demo", 2, demo))
