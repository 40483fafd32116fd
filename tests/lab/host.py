"""One host of the lab, seen from the machine."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from . import names, network, procs, rawlog, sshkeys
from .names import LabError, Paths

ENVIRONMENT = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
    "USER=root",
]


@dataclass
class Link:
    """What was asked for the host's cable; it holds over a power cycle."""

    plugged: bool = True
    into_mbit: float | None = None
    out_mbit: float | None = None


class Host:
    """A handle; everything it knows is read from the state folder each time."""

    def __init__(self, paths: Paths, number: int, index: int, name: str, memory_mib: int, release: str) -> None:
        self.paths = paths
        self.number = number
        self.index = index
        self.name = name
        self.memory_mib = memory_mib
        self.release = release
        self.address = names.address(number, index)

    def __repr__(self) -> str:
        return f"Host({self.name!r}, {self.address})"

    @property
    def peer_uri(self) -> str:
        return f"qemu+tls://{self.name}/system"

    @property
    def _supervisor(self) -> Path:
        return self.paths.records / f"{self.name}.supervisor"

    @property
    def supervisor_pid(self) -> int | None:
        return procs.alive(self._supervisor)

    @property
    def init_pid(self) -> int | None:
        """PID 1 of the host as the machine counts; None when the host is down."""
        return procs.alive(self.paths.records / f"{self.name}.init")

    @property
    def boot_id(self) -> str | None:
        pid = self.init_pid
        try:
            return Path(f"/proc/{pid}/root/run/virtops-lab-host").read_text().strip()
        except OSError:
            return None

    # -- commands on the host

    def argv(self, command: str | Sequence[str]) -> list[str]:
        """The command, entered into the host's namespaces."""
        pid = self.init_pid
        if pid is None:
            raise LabError(f"{self.name} is down")
        words = ["sh", "-c", command] if isinstance(command, str) else list(command)
        return ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "env", "-i", *ENVIRONMENT, *words]

    def exec(
        self,
        command: str | Sequence[str],
        check: bool = True,
        stdin: str | None = None,
        timeout: float = procs.PATIENCE,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command (a string goes through sh) as root on the host."""
        return procs.run(self.argv(command), check=check, stdin=stdin, timeout=timeout)

    def virsh(self, *words: str, check: bool = True, stdin: str | None = None, timeout: float = procs.PATIENCE) -> str:
        """Run virsh on the host against its own libvirtd; its output, stripped."""
        done = self.exec(["virsh", "-q", "-c", "qemu:///system", *words], check=check, stdin=stdin, timeout=timeout)
        return done.stdout.strip()

    def add_network(self, name: str, autostart: bool = False) -> None:
        """A network that only this host has, on the bridge of `lan`: without firewall rules."""
        bridge = self.virsh("net-dumpxml", "lan").partition("<bridge name='")[2].partition("'")[0]
        mode = f"<forward mode='bridge'/><bridge name='{bridge}'/>"
        xml = f"<network><name>{name}</name>{mode}</network>"
        self.virsh("net-define", "/dev/stdin", stdin=xml)
        self.virsh("net-start", name)
        if autostart:
            self.virsh("net-autostart", name)

    def ssh_argv(self, command: str | Sequence[str]) -> list[str]:
        words = command if isinstance(command, str) else shlex.join(command)
        return ["ssh", *sshkeys.client(self.paths.ssh), f"root@{self.address}", words]

    def ssh(
        self, command: str | Sequence[str], check: bool = True, timeout: float = procs.PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Run a command the way a real fleet is reached."""
        return procs.run(self.ssh_argv(command), check=check, timeout=timeout)

    # -- power

    def power_on(self) -> None:
        """Start the host unless it runs. Does not wait; see wait_ready."""
        if self.supervisor_pid is None:
            network.detach(self.number, self.index)
            procs.start(
                self._supervisor,
                ["unshare", "--net", sys.executable, "-m", "lab.supervisor", str(self.paths.state), self.name],
                self.paths.logs / f"{self.name}-supervisor.log",
            )
        pid = self.supervisor_pid
        if pid is None or not procs.wait_for(lambda: self._own_network(pid)):
            raise LabError(f"{self.name} has no network namespace of its own")
        network.attach(self.number, self.index, pid)
        self.apply_link()

    @staticmethod
    def _own_network(pid: int) -> bool:
        try:
            return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        except OSError:
            return False

    def power_off(self, event: str = "kill") -> None:
        """Cut the power: everything on the host ends at once; its disks stay."""
        init = self.paths.records / f"{self.name}.init"
        if self.supervisor_pid is not None:
            rawlog.host_event(self.paths.raw, self.name, event)
        procs.stop(self._supervisor)
        # PID 1 dies with the supervisor; here only the rest of that is awaited.
        if not procs.wait_for(lambda: procs.alive(init) is None):
            raise LabError(f"{self.name}: its first process does not end")
        procs.stop(init)
        network.detach(self.number, self.index)

    def reboot(self) -> None:
        """What `reboot` on the host does."""
        pid = self.init_pid
        if pid is None:
            raise LabError(f"{self.name} is down")
        os.kill(pid, signal.SIGHUP)

    def ready(self) -> bool:
        """libvirtd answers, and sshd and libvirtd's TLS port accept."""
        if self.init_pid is None:
            return False
        link = self.link()
        if link.plugged and not all(_accepts(self.address, port) for port in (22, 16514)):
            return False
        try:
            return self.virsh("net-list", "--name") == "lan"
        except (LabError, subprocess.TimeoutExpired):
            return False

    def wait_ready(self, timeout: float = procs.PATIENCE) -> None:
        if not procs.wait_for(self.ready, timeout, pause=0.1):
            raise LabError(f"{self.name} is not ready after {timeout:.0f} s; see {self.paths.logs / self.name}")

    # -- the cable

    @property
    def _link_file(self) -> Path:
        return self.paths.records / f"{self.name}.link"

    def link(self) -> Link:
        try:
            return Link(**json.loads(self._link_file.read_text()))
        except FileNotFoundError:
            return Link()

    def set_link(self, link: Link) -> None:
        self._link_file.write_text(json.dumps(asdict(link)))
        if self.supervisor_pid is not None:
            self.apply_link()

    def apply_link(self) -> None:
        pid, link = self.supervisor_pid, self.link()
        if pid is None:
            raise LabError(f"{self.name} is down")
        network.shape(self.number, self.index, pid, link.into_mbit, link.out_mbit)
        network.set_plugged(self.number, self.index, link.plugged)


def _accepts(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False
