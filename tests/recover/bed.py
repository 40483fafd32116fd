"""A fleet in memory below the real code of a recovery: hosts with power, network, volumes and domains.

Real are the core, `_libvirt/recovery` (the guard's script, too) and the records; stand-ins are libvirt, the network and
the clock of files. Each effect is a moment with a number, before which a test may do something: kill the run, give the
host its power back, let another run go first. What happens stands in `World.log`, from which `judge` counts.
"""

from __future__ import annotations

import io
import itertools
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Observation, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import CONTROLLER, View
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import Proof
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.record import markers
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.same_files import Shown
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import connection
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import observe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import (
    drained,
    protected,
    recovery,
    roll,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.protected import Kept
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import fleet, guard, service
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery.look import Guests
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery.service import Request
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import CORDON
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import Generation, pack
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

DEAD = "a"
BINDING = fakes.Binding()


class Killed(BaseException):
    """The run was killed in that moment."""


class World:
    """`power`, `net`: hosts that have it. `moments`: number -> what happens before it. `faults`: (host, effect) that
    fail, with libvirt's words."""

    def __init__(self, peers: str = "bcd", guarded: bool = True) -> None:
        self.names = [DEAD, *peers]
        self.power, self.net = set(self.names), set(self.names)
        self.volumes: dict[str, dict[str, str]] = {name: {} for name in self.names}
        self.domains: dict[str, dict[str, Domain]] = {name: {} for name in self.names}
        self.log: list[tuple[str, str, str]] = []  # what, host, VM or detail
        self.guarded, self.hand, self.boots = guarded, 0, 1
        self.moment = 0
        self.moments: dict[int, Callable[[], object]] = {}
        self.faults: dict[tuple[str, str], str] = {}
        self.now = 0
        self.unmounted: set[str] = set()
        self.other_storage: set[str] = set()  # hosts with other data at the same paths
        self.at = ""  # where the run is
        self.serves_at = 0  # by `now`, when the agents answer
        self.no_libvirtd = False  # of the host, whose kernel answers
        self.guard_said: list[str] = []
        self.written: list[str] = []  # each record

    def effect(self, what: str, host: str, about: str = "", reached: bool = True) -> None:
        """One more moment. Who asks a host that is away learns it here."""
        self.moment += 1
        self.moments.pop(self.moment, lambda: None)()
        if reached:
            self.reach(host)
        self.log.append((what, host, about))
        fault = self.faults.get((host, what))
        if fault == "lost":
            raise fakes.LibvirtError("Cannot recv data: Connection reset by peer", connection.ERR_RPC)
        if fault:
            raise fakes.LibvirtError(fault)

    def reach(self, host: str) -> None:
        if host not in self.power or host not in self.net:
            raise HostUnreachable(host, "No route to host")

    def wall(self) -> str:
        self.now += 1
        return f"2026-11-27T{14 + self.now // 3600:02}:{self.now // 60 % 60:02}:{self.now % 60:02}Z"

    def answers(self, name: str) -> dict[str, Any]:
        """Of a VM whose agent answered when it was protected."""
        return {"document": {"name": name, "agent_connected": True}}

    def vm(self, name: str, autostart: bool = True, host: str = DEAD, active: bool = True) -> str:
        """It runs on that host."""
        dom = self.domains[host][name] = Domain(self, host, name, autostart)
        if active:
            dom.run()
        return name

    def protect(self, vms: Mapping[str, Mapping[str, Any]] | None = None, host: str = DEAD, **other: Any) -> Kept:
        """What `protect` leaves with the quorum hosts, which are all peers up to three."""
        peers = [name for name in self.names if name != host]
        about = {"guard": self.guarded, "hosts": peers, "keepers": peers[:3], **other}
        found = [
            VM(n, n, host, d.state(), 512, autostart=d.auto, **{"document": {"name": n}, **(vms or {}).get(n, {})})
            for n, d in self.domains[host].items()
        ]
        xml = "<domain type='kvm'><name>{0}</name><uuid>{0}</uuid><memory>1</memory></domain>".format
        kept = Kept(
            host, self.wall(), "boot-1", **about, vms=found, definitions={vm.uuid: xml(vm.uuid) for vm in found}
        )
        protected.write(kept, [Host(self, HostConfig(name, name)) for name in peers[:3]])
        return kept

    # What happens to the host

    def cut_power(self, host: str = DEAD) -> None:
        if host not in self.power:
            return
        self.power.discard(host)
        self.log.append(("power off", host, ""))
        for dom in self.domains[host].values():
            dom.end()

    def power_on(self, host: str = DEAD) -> None:
        """Its libvirtd starts the autostart VMs, if its guard lets it."""
        if host in self.power:
            return
        self.power.add(host)
        self.net.add(host)
        self.boots += host == DEAD
        self.log.append(("power on", host, ""))
        for name, dom in list(self.domains[host].items()):
            if dom.auto and (host != DEAD or not self.guarded or self.ask_guard(name)):
                dom.run()

    def ask_guard(self, name: str) -> bool:
        """The script as libvirt runs it, with a virsh that reads the volumes here. Does it let the VM start?"""
        peers = [peer for peer in self.names if peer != DEAD][:3]
        clock, said = itertools.count(), io.StringIO()
        xml = io.StringIO(f"<domain><uuid>{name}</uuid></domain>")
        space: dict[str, Any] = {}
        exec(guard._SCRIPT.partition("\ncode = main()")[0], space)
        space |= {
            "virsh": self._virsh,
            "time": SimpleNamespace(monotonic=lambda: next(clock) * 4.0, sleep=lambda _s: None),
            "sys": SimpleNamespace(argv=["", name, "prepare", "begin"], stdin=xml, stderr=said),
        }
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump({"host": DEAD, "peers": {p: p for p in peers}, "needed": markers(len(peers))[1]}, file)
            file.flush()
            space["SETTINGS"] = file.name
            refused = space["main"]()
        self.guard_said.append(said.getvalue())
        return not refused

    def _virsh(self, peer: str, *words: str) -> str:
        try:
            self.reach(peer)
        except HostUnreachable as exc:
            raise OSError(str(exc)) from exc
        if words[0] == "pool-list":
            return "virtops\n"
        if words[0] == "vol-list":
            return "".join(f"{name} path\n" for name in self.volumes[peer])
        with open(words[4], "wb") as stream:
            stream.write(pack(self.volumes[peer][words[3]].encode()))
        return ""


class Domain:
    def __init__(self, world: World, host: str, name: str, auto: bool = False) -> None:
        self.world, self.host, self._name, self.auto, self.active = world, host, name, auto, False
        self.persistent = True

    def state(self) -> State:
        return State.RUNNING if self.active else State.SHUTOFF

    def run(self) -> None:
        if not self.active:
            self.active = True
            self.world.log.append(("runs", self.host, self._name))

    saved = False  # it has a managed save

    def end(self) -> None:
        if self.active:
            self.active = False
            self.world.log.append(("ends", self.host, self._name))

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        return self._name

    def isActive(self) -> bool:  # noqa: N802 - libvirt's name
        self.world.reach(self.host)
        return self.active

    def _is_there(self) -> None:
        if self.world.domains[self.host].get(self._name) is not self:
            raise fakes.LibvirtError("Domain not found", BINDING.VIR_ERR_NO_DOMAIN)

    def create(self) -> None:
        self.world.effect("start", self.host, self._name)
        self._is_there()
        if self.active:
            raise fakes.LibvirtError("Requested operation is not valid: domain is already running")
        self.run()

    def setAutostart(self, value: int) -> None:  # noqa: N802 - libvirt's name
        self.world.effect("autostart", self.host, self._name)
        self._is_there()
        if not self.persistent:
            raise fakes.LibvirtError("cannot set autostart for transient domain")
        self.auto = bool(value)

    def autostart(self) -> int:
        return int(self.auto)

    def undefineFlags(self, flags: int) -> None:  # noqa: N802 - libvirt's name
        self.world.effect("undefine", self.host, self._name)
        if self.saved and not flags & BINDING.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE:
            raise fakes.LibvirtError("Refusing to undefine while domain managed save image exists")
        self.persistent = False
        if not self.active:
            self.world.domains[self.host].pop(self._name, None)


class Host:
    """What the code asks of observe.host.Host."""

    capacity_mib = 8192
    acts = True
    version = ()
    facts = HostFacts()
    is_connected = True

    def __init__(self, world: World, config: HostConfig) -> None:
        self.world, self.config, self.name = world, config, config.name
        self.away, self.gives_up, self.known_silent = "", False, False
        self.same_folders: dict[str, Shown] = {}
        self.identity = self.name

    @property
    def conn(self) -> Host:
        self.world.reach(self.name)
        return self

    @property
    def store(self) -> Host:
        return self.conn

    def close(self) -> None:
        return

    def connect(self) -> Host:
        return self.conn

    def take(self, _conn: object) -> None:
        self.away = ""

    def group_of(self, _uuid: str) -> str | None:
        return None

    def read(self, _with_jobs: bool) -> HostNow:
        try:
            self.world.reach(self.name)
        except HostUnreachable as exc:
            return HostNow(self.name, error=str(exc))
        found = {n: DomainNow(n, n, d.state(), 512) for n, d in self.world.domains[self.name].items()}
        return HostNow(self.name, found, CORDON in self._volumes, names=self.names(), identity=self.name)

    def domain(self, uuid: str) -> Domain:
        return self.conn.lookupByUUIDString(uuid)

    def lookupByUUIDString(self, uuid: str) -> Domain:  # noqa: N802 - libvirt's name
        self.world.reach(self.name)
        if uuid not in self.world.domains[self.name]:
            raise fakes.LibvirtError("no domain", BINDING.VIR_ERR_NO_DOMAIN)
        return self.world.domains[self.name][uuid]

    def defineXML(self, xml: str) -> Domain:  # noqa: N802 - libvirt's name
        name = xml.partition("<uuid>")[2].partition("</uuid>")[0]
        self.world.effect("define", self.name, name)
        return self.world.domains[self.name].setdefault(name, Domain(self.world, self.name, name))

    # Its store

    @property
    def _volumes(self) -> dict[str, str]:
        return self.world.volumes[self.name]

    def names(self) -> list[str]:
        return sorted(self._volumes)

    def create(self, name: str, data: bytes) -> bool:
        self.world.effect("record", self.name, name)
        self.world.written.append(data.decode())
        return self._volumes.setdefault(name, data.decode()) == data.decode()

    def delete(self, name: str) -> bool:
        return self._volumes.pop(name, None) is not None

    def generations(self, prefix: str) -> list[int]:
        heads = (name.rpartition(".") for name in self._volumes)
        return sorted(int(number) for head, _dot, number in heads if head == prefix)

    def read_generation(self, prefix: str) -> Generation | None:
        have = self.generations(prefix)
        return Generation(have[-1], self._volumes[f"{prefix}.{have[-1]}"]) if have else None

    def read_record(self, prefix: str) -> str | None:
        found = self.read_generation(prefix)
        return None if found is None else found.text

    def write_record(self, prefix: str, text: str) -> None:
        self._volumes[f"{prefix}.{max(self.generations(prefix), default=0) + 1}"] = text


@contextmanager
def below(world: World) -> Iterator[None]:
    """The product's code works on this world."""

    def answers(uri: str, _patience: float = 0.0) -> tuple[bool, str]:
        world.effect("last look", uri, reached=False)
        seen = uri in world.power and uri in world.net
        return seen, "port 16514 answers" if seen else "no answer"

    def serves(uri: str, _patience: float) -> tuple[bool, str]:
        world.effect("last look", uri, reached=False)
        return uri in world.power and uri in world.net and not world.no_libvirtd, "libvirt answers"

    def looks(by: str, uri: str, guests: Guests) -> View:
        alive = uri in world.power and uri in world.net and by in world.net
        connected = alive and not world.no_libvirtd
        runs = {name for name, dom in world.domains[uri].items() if dom.active}
        ticks = () if alive else tuple(sorted(runs.intersection(guests.files)))
        return View(by, world.wall(), alive, connected, ticks, "looked")

    def host(config: Any, _opener: object = None, acts: bool = True) -> Host:
        return Host(world, config)

    def has(conn: Host, _facts: object, _path: str) -> bool:
        return conn.name not in world.unmounted

    def number(_path: str) -> int:
        return 0 if world.at in world.unmounted else 1 + (world.at in world.other_storage)

    def same(conn: Host, _facts: object, path: str, _known: object, *, acts: bool) -> Shown:
        same = (conn.name in world.other_storage) == (world.at in world.other_storage)
        return Shown(same, "" if same else f"is not the same there: another directory on {conn.name}")

    def agent_answers(xml: str) -> bool:
        world.log += [("serves", "", xml)] if world.now >= world.serves_at else []
        return world.now >= world.serves_at

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(fleet, "agent_connected", agent_answers))
        for name, double in (("path_on_target", has), ("identity", number), ("same_file", same)):
            stack.enter_context(mock.patch.object(fleet, name, double))
        for module in (fleet, roll, protected, drained, observe, connection, recovery, service):
            stack.enter_context(mock.patch.object(module, "libvirt", BINDING))
        for module in (fleet, service):
            stack.enter_context(mock.patch.object(module, "Host", host))
            stack.enter_context(mock.patch.object(module, "now", world.wall))
        stack.enter_context(mock.patch.object(fleet, "answers", answers))
        stack.enter_context(mock.patch.object(fleet, "serves", serves))
        stack.enter_context(mock.patch.object(service, "look", looks))
        yield


def drain(world: World, host: str, to: str) -> None:
    """A drain of another host, without a roll: its cordon, its moves with the definitions, and then, if the product's
    own reader says that nothing is about to be started there, `drained`."""
    world.volumes[host].setdefault(CORDON, "drain")
    for name, dom in [one for one in world.domains[host].items() if one[1].active]:
        dom.end()
        del world.domains[host][name]
        world.domains[to][name] = Domain(world, to, name, dom.auto)
        world.domains[to][name].run()
    hosts: Any = {name: Host(world, HostConfig(name, name)) for name in world.names}
    obs = Observation({}, {})
    recovery.note_takeovers(hosts, {name: one.read(False) for name, one in hosts.items()}, host, obs)
    if not obs.inbound:
        world.log.append(("drained", host, ""))


Agent = Callable[[], "Mapping[str, str] | None"]


def recover(world: World, by: str = "b", agent: Agent | None = None, **about: Any) -> Any:
    """As the playbook: look; where it may be fenced the agent is asked, and looked once more. The last result.

    `by`: the peer that judges, after those before it that are away."""
    world.hand += 1
    about = {"run_id": f"run-{world.hand}", "policy": Policy(), "requester": "ann", **about}
    result = _judge(world, by, **about)
    if agent is not None and result["phase"] == "Unproven" and result["may_be_fenced"]:
        proof = agent()
        if proof:
            result = _judge(world, by, **about, proof=Proof.from_dict(proof))
    return result


def _judge(world: World, by: str, **about: Any) -> Any:
    configs = {name: HostConfig(name, name) for name in world.names}
    peers = [name for name in world.names if name not in (DEAD,) and name in world.power and name in world.net]

    def request(name: str, **more: Any) -> Request:
        others = [config for other, config in configs.items() if other != name]
        return Request(configs[name], others, DEAD, **about, **more)

    alive = DEAD in world.power and DEAD in world.net
    boot, running = f"boot-{world.boots}" if alive else "", any(dom.active for dom in world.domains[DEAD].values())
    views = [
        View(CONTROLLER, world.wall(), alive, text="tried", boot_id=boot, idle=alive and not running),
        *(service.seen_from(request(name)) for name in peers),
    ]
    judge_by = by if by in peers or not peers else peers[0]
    for _unused_slice in range(50):
        world.at = judge_by
        result = service.recover(request(judge_by, views=views), acts=True)
        if result["phase"] != "Recovering":
            return result
    raise AssertionError("it never comes to an end")


def agent(world: World, how: str = "") -> Agent:
    """A fence agent. `how`: what it does that it should not, as the lab's (tests/lab/fence.py); None: no proof."""

    def fence() -> Mapping[str, str] | None:
        if how in ("", "dies"):
            world.cut_power()
        if how not in ("", "lies"):
            return None
        world.log.append(("read as off", DEAD, how))
        return {"kind": "agent", "at": world.wall(), "by": "controller", "how": "fence_bed"}

    return fence
