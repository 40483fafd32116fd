"""The lab as a whole: up, down, and the guests on it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from . import hostfiles, image, inventory, names, network, procs, rawlog, release, sshkeys, storage, tls
from .host import Host, Link
from .names import LabError, Paths
from .population import Population

GOES_OVER = re.compile(r"Memory processed: +[\d.]*[1-9]")
DEFAULT_HOSTS = 3
MOST_HOSTS = 200  # their addresses are in one /24
DEFAULT_MEMORY_MIB = 6144


class Lab(Population):
    """A lab that is (or was) up. Make one with `Lab.up()` or `Lab.load()`."""

    def __init__(self, paths: Paths, config: Mapping) -> None:
        self.paths = paths
        self.number: int = config["number"]
        self.hosts: dict[str, Host] = {
            row["name"]: Host(paths, self.number, index, row["name"], row["memory_mib"], row["release"])
            for index, row in enumerate(config["hosts"], start=1)
        }

    @classmethod
    def load(cls, name: str | None = None) -> Lab:
        """The lab of this name, which must be up."""
        paths = Paths.of(name)
        config = _config(paths)
        if config is None:
            raise LabError(f"lab {paths.name} is not up")
        return cls(paths, config)

    @classmethod
    def up(
        cls,
        name: str | None = None,
        hosts: int | None = None,
        memory: Mapping[str, int] | None = None,
        releases: Mapping[str, str] | None = None,
    ) -> Lab:
        """Bring the lab up, or check and repair one that is up. `releases`: of hosts that are made now."""
        paths = Paths.of(name)
        with names.lab_lock(paths):
            config = _config(paths)
            if config is None:
                _clean(paths)  # leftovers of a crash of the machine
                for folder in (paths.raw, paths.logs):
                    shutil.rmtree(folder, ignore_errors=True)
            config = _plan(paths, config, hosts, memory or {}, releases or {})
            lab = cls(paths, config)
            lab._bring_up()
            return lab

    @classmethod
    def down(cls, name: str | None = None) -> None:
        """End and remove everything of the lab but its raw log and its logs."""
        paths = Paths.of(name)
        if not paths.state.exists() and not paths.records.exists():
            return
        with names.lab_lock(paths):
            _clean(paths)

    def _bring_up(self) -> None:
        paths = self.paths
        for folder in (paths.raw, paths.records, paths.logs, paths.guests):
            folder.mkdir(parents=True, exist_ok=True)
        paths.sockets.mkdir(exist_ok=True, mode=0o700)
        addresses = {host.name: host.address for host in self.hosts.values()}
        image.build(paths)
        for wanted in {host.release for host in self.hosts.values()} - {release.OWN}:
            release.build(wanted)
        tls.make_ca(paths.pki)
        sshkeys.make(paths.ssh, addresses)
        for host in self.hosts.values():
            tls.make_host(paths.pki, host.name, host.address)
            hostfiles.build(paths, host.name, addresses, host.release)
        network.bridge_up(self.number)
        storage.up(paths, self.number)
        if procs.alive(paths.records / "collector") is None:
            procs.start(
                paths.records / "collector",
                [sys.executable, "-m", "lab.collector", str(paths.state)],
                paths.logs / "collector.log",
            )
        for host in self.hosts.values():
            host.power_on()
        inventory.write(paths, list(self.hosts.values()))
        for host in self.hosts.values():
            host.wait_ready()

    def host(self, name: str | Host) -> Host:
        if isinstance(name, Host):
            return name
        if name not in self.hosts:
            raise LabError(f"no host {name}; there are {', '.join(self.hosts)}")
        return self.hosts[name]

    def status(self) -> dict[str, str]:
        """A word or two for each part."""
        out = {
            "collector": _word(procs.alive(self.paths.records / "collector") is not None),
            "storage": _word(procs.alive(self.paths.records / "nbd") is not None),
            "bridge": _word(network.link_exists(names.bridge(self.number))),
        }
        for host in self.hosts.values():
            word = "ready" if host.ready() else _word(host.init_pid is not None)
            out[host.name] = word + ("" if host.link().plugged else ", unplugged")
        return out

    # -- links and power

    def shape(self, host: str | Host, mbit: float, out_mbit: float | None = None) -> None:
        """Limit the host's link in both directions (or `out_mbit` for what leaves it)."""
        host = self.host(host)
        host.set_link(Link(host.link().plugged, mbit, mbit if out_mbit is None else out_mbit))

    def unshape(self, host: str | Host) -> None:
        host = self.host(host)
        host.set_link(Link(host.link().plugged))

    def moves(self, host: str | Host, guest: str) -> bool:
        """Does the guest's memory leave the host? A job is there before its connections are."""
        return bool(GOES_OVER.search(self.host(host).virsh("domjobinfo", guest, check=False)))

    def hold(self, host: str | Host) -> None:
        """Keep the migrations that leave the host from getting on, until `let_go`.

        What must be done while one is under way is then no matter of speed. Not before it `moves`:
        a connection that is made meanwhile fails.
        """
        pid = self.host(host).supervisor_pid
        if pid is None:
            raise LabError(f"{host} is down")
        network.hold(pid)

    def let_go(self, host: str | Host) -> None:
        pid = self.host(host).supervisor_pid
        if pid is not None:
            network.let_go(pid)

    def unplug(self, host: str | Host) -> None:
        self._plug(host, False)

    def plug(self, host: str | Host) -> None:
        self._plug(host, True)

    def _plug(self, name: str | Host, plugged: bool) -> None:
        host = self.host(name)
        link = host.link()
        rawlog.host_event(self.paths.raw, host.name, "plug" if plugged else "unplug")
        host.set_link(Link(plugged, link.into_mbit, link.out_mbit))

    def kill(self, host: str | Host) -> None:
        """Power loss: everything on the host ends; it stays down."""
        self.host(host).power_off()

    def power_on(self, host: str | Host, wait: bool = True) -> None:
        host = self.host(host)
        host.power_on()
        if wait:
            host.wait_ready()

    def reboot(self, host: str | Host, timeout: float = procs.PATIENCE) -> None:
        """Reboot the host and wait until it is back."""
        host = self.host(host)
        before = host.boot_id
        host.reboot()
        if not procs.wait_for(lambda: host.boot_id not in (None, before), timeout):
            raise LabError(f"{host.name} did not come back in {timeout:.0f} s")
        host.wait_ready()


def _word(up: bool) -> str:
    return "up" if up else "DOWN"


def _config(paths: Paths) -> dict | None:
    """The lab's plan; None if there is none, or one from before the machine's last boot."""
    try:
        config = json.loads(paths.config.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return config if config.get("boot") == names.machine_boot() else None


def _plan(
    paths: Paths, config: dict | None, hosts: int | None, memory: Mapping[str, int], releases: Mapping[str, str]
) -> dict:
    """Decide which hosts there are, and write it down before anything is made."""
    rows = list(config["hosts"]) if config else []
    count = hosts or len(rows) or DEFAULT_HOSTS
    if not max(1, len(rows)) <= count <= MOST_HOSTS:
        raise LabError(f"a lab has 1 to {MOST_HOSTS} hosts and never shrinks while up, not {count}")
    for place in range(len(rows), count):
        name = names.host_name(place)
        of = release.known(releases.get(name) or release.default())
        rows.append({"name": name, "memory_mib": DEFAULT_MEMORY_MIB, "release": of})
    for row in rows:
        row["memory_mib"] = int(memory.get(row["name"], row["memory_mib"]))
    plan = {"number": names.take_number(paths), "boot": names.machine_boot(), "hosts": rows}
    paths.config.write_text(json.dumps(plan, indent=1))
    return plan


def _clean(paths: Paths) -> None:
    """Take away whatever is there. Each step is harmless when there is nothing."""
    records = sorted(paths.records.glob("*")) if paths.records.exists() else []
    # Supervisors first: with them everything on their hosts ends.
    for record in sorted(records, key=lambda path: path.suffix != ".supervisor"):
        if record.is_file() and record.suffix in ("", ".supervisor", ".init"):
            procs.stop(record)
    _end_ssh_masters(paths.sockets)
    number = names.number_of(paths)
    if number is not None:
        network.bridge_down(number)
    for folder in (paths.records, paths.state / "hosts", paths.nbd, paths.pki, paths.ssh, paths.guests):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (paths.config, paths.inventory):
        file.unlink(missing_ok=True)
    names.give_back_number(paths)


def _end_ssh_masters(sockets: Path) -> None:
    """Ansible keeps connections open behind its back; end those to our hosts."""
    for path in sockets.glob("*") if sockets.exists() else []:
        if path.is_socket():
            with contextlib.suppress(LabError):
                procs.run(["ssh", "-o", f"ControlPath={path}", "-O", "exit", "lab"], check=False, timeout=5)
