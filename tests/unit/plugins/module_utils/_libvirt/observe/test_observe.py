"""What a host can take: declared memory less what is promised. Free memory is never asked."""

from __future__ import annotations

import importlib.util
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Job, Node, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import host as host_of
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import observe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    Host,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.observe import Observer, node_of
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.peers import Peers
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.vm import unreadable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import Reservation

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

GIB = 1024
# Full of free memory: none of what runs here has touched its own yet.
CONNECTION = SimpleNamespace(isAlive=lambda: True, getFreeMemory=lambda: 900 * 1024**3, close=lambda: None)
CONNECTION.lookupByUUIDString = lambda _uuid: SimpleNamespace(autostart=lambda: 0)


def node(read: HostNow, memory: int = 8 * GIB, reserve: int = 0) -> Node:
    config = HostConfig("b", "qemu+tls://b/system", memory_mib=memory, reserve_mib=reserve)
    return node_of(Host(config, lambda _uri: CONNECTION), read)


def test_room_is_what_was_declared_less_what_is_promised(monkeypatch) -> None:
    monkeypatch.setattr(Host, "group_of", lambda _self, _uuid: None)
    domains = {
        "u1": DomainNow("u1", "web", State.RUNNING, 2 * GIB),
        "u2": DomainNow("u2", "off", State.SHUTOFF, 4 * GIB),
        "u3": DomainNow("u3", "arriving", State.INCOMING, 1 * GIB),
    }
    claims = [Reservation("u3", 1 * GIB, "a"), Reservation("u4", 1 * GIB, "c")]
    found = node(HostNow("b", domains, reservations=claims), reserve=GIB)
    assert (found.committed_mib, found.reserved_mib, found.room_mib) == (4 * GIB, 2 * GIB, 3 * GIB)
    assert (found.inbound, found.vm_count) == (2, 2)


def test_a_group_that_could_not_be_read_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two VMs that have to be apart would come together; a moment later it can be read."""
    binding = fakes.Binding()
    error = fakes.LibvirtError("busy", binding.VIR_ERR_OPERATION_TIMEOUT)
    monkeypatch.setattr(observe, "libvirt", binding)
    monkeypatch.setattr(f"{Host.__module__}.libvirt", binding)
    answers = [error, "<vm><antiAffinityGroup>web</antiAffinityGroup></vm>"]

    def metadata(*_args: Any) -> str:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    domains = {"u1": DomainNow("u1", "web", State.RUNNING, GIB)}
    conn = SimpleNamespace(**{**vars(CONNECTION), "lookupByUUIDString": lambda _u: SimpleNamespace(metadata=metadata)})
    hosts = [Host(HostConfig(n, f"x://{n}", 8 * GIB), lambda _uri: conn) for n in "ab"]
    observer = Observer(hosts[0], hosts[1:], "boot", "")
    reads = {"a": HostNow("a"), "b": HostNow("b", domains)}
    monkeypatch.setattr(observer, "read_hosts", lambda: reads)
    first = observer.observe(None, 0.0, frozenset(), {})
    assert (first.full, first.nodes["b"].reachable) == (True, False)
    assert first.nodes["b"].message == "b: the group of web cannot be read: busy"
    second = observer.observe(None, 1.0, frozenset(), {})
    assert (second.full, second.nodes["b"].reachable) == (True, True)
    assert second.nodes["b"].group_counts == {"web": 1}
    assert observer.observe(None, 2.0, frozenset(), {}).nodes["b"].group_counts == {"web": 1}


def test_a_domain_that_left_has_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = fakes.Binding()
    monkeypatch.setattr(observe, "libvirt", binding)

    def gone(_self: Host, uuid: str) -> None:
        raise fakes.LibvirtError(uuid, binding.VIR_ERR_NO_DOMAIN)

    monkeypatch.setattr(Host, "group_of", gone)
    found = node(HostNow("b", {"u1": DomainNow("u1", "web", State.RUNNING, GIB)}))
    assert (found.reachable, found.group_counts) == (True, {})


def test_a_migration_of_others_takes_an_inbound_place(monkeypatch) -> None:
    """It has no reservation; counted by admission alone, this host would be chosen for ever."""
    monkeypatch.setattr(Host, "group_of", lambda _self, _uuid: None)
    domains = {u: DomainNow(u, u, State.INCOMING, GIB) for u in ("theirs", "ours")}
    claims = [Reservation("ours", GIB, "a"), Reservation("waits", GIB, "c")]
    assert node(HostNow("b", domains, reservations=claims)).inbound == 3


def test_what_leaves_is_counted_and_a_backup_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = {"moves": Job(), "backup": Job(outgoing=False), "held": None, "rests": None}
    domains = {u: DomainNow(u, u, State.RUNNING, GIB, job) for u, job in jobs.items()}
    source = Host(HostConfig("a", "qemu:///system", 8 * GIB), lambda _uri: CONNECTION)
    observer = Observer(source, [], "boot", "a")
    monkeypatch.setattr(observer, "read_hosts", lambda: {"a": HostNow("a", domains)})
    monkeypatch.setattr(
        observer, "_vm", lambda domain, _reads: (VM(domain.uuid, domain.name, "a", job=domain.job), True)
    )
    obs = observer.observe(None, 1.0, frozenset({"held", "moves"}), {})
    assert obs.nodes["a"].outbound == 2


def test_a_host_that_could_not_be_read_has_no_room() -> None:
    found = node(HostNow("b", error="no route to host"))
    assert (found.reachable, found.room_mib, found.message) == (False, 0, "no route to host")


def seen(monkeypatch: pytest.MonkeyPatch, code: str) -> Any:
    """A running VM as the observer sees it when reading it fails with that error."""
    binding = fakes.Binding()
    monkeypatch.setattr(observe, "libvirt", binding)

    def fail(*_args: Any) -> None:
        raise fakes.LibvirtError("cannot acquire state change lock", getattr(binding, code))

    monkeypatch.setattr(observe, "read_vm_facts", fail)
    source = Host(HostConfig("a", "qemu:///system"), lambda _uri: CONNECTION)
    observer = Observer(source, [], "boot", "")
    vm, answered = observer._vm(DomainNow("u1", "web", State.RUNNING, 2 * GIB), {})
    assert answered
    return vm


def test_a_vm_that_cannot_be_read_is_still_here(monkeypatch: pytest.MonkeyPatch) -> None:
    vm = seen(monkeypatch, "VIR_ERR_OPERATION_TIMEOUT")
    assert (vm.state, vm.name, vm.memory_mib, vm.active) == (State.RUNNING, "web", 2 * GIB, True)
    assert (vm.migratable, vm.known) == (None, False)
    assert vm.findings[0].reason is Reason.MigratableNotKnown
    assert "state change lock" in vm.findings[0].message


def test_a_read_of_this_host_that_never_ends_says_where_it_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a QEMU that hangs: libvirt has no time-out for its monitor."""
    monkeypatch.setattr(observe, "READ_FOR", 0.2)
    hangs = threading.Event()
    monkeypatch.setattr(Host, "read", lambda _self, _jobs: hangs.wait(5))
    observer = Observer(Host(HostConfig("a", "qemu:///system"), lambda _uri: CONNECTION), [], "boot", "")
    with pytest.raises(HostUnreachable, match=r"no answer about its VMs within 0.2 s. A QEMU hangs there"):
        observer.observe(None, 0.0, frozenset(), {})
    hangs.set()


def test_a_vm_that_left_between_two_reads_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch, "VIR_ERR_NO_DOMAIN") is None


class Fleet:
    """Hosts a, b, c with a VM on a. `down`: cannot be read; `mute`: do not answer for the VM."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: State = State.RUNNING) -> None:
        self.down: set[str] = set()
        self.mute: set[str] = set()
        self.facts_read = 0
        self.takes: dict[str, int] = {}
        self.machines: dict[str, str] = {}  # of those that are not what their name says
        self.arriving: list[Reservation] = []
        self.domain = DomainNow("u1", "web", state, GIB)
        monkeypatch.setattr(observe, "libvirt", fakes.Binding())
        monkeypatch.setattr(observe, "read_vm_facts", self.facts)
        hosts = [Host(HostConfig(n, f"x://{n}", GIB), lambda _uri: CONNECTION) for n in "abc"]
        for host in hosts:
            monkeypatch.setattr(host, "read", lambda _jobs, name=host.name: self.read(name))
        self.observer = Observer(hosts[0], hosts[1:], "boot", "")

    def read(self, name: str) -> HostNow:
        domains = {"u1": self.domain} if name == "a" else {}
        error = "down" if name in self.down else ""
        claims = self.arriving if name == "a" else []
        return HostNow(name, domains, reservations=claims, identity=self.machines.get(name, name), error=error)

    def facts(self, source: Host, peers: Any, domain: DomainNow, reads: Any) -> Any:
        self.facts_read += 1
        asked = {p.name for p in peers if not reads[p.name].error} - self.mute
        return replace(unreadable(source, domain, "x"), asked=frozenset(asked), takes=self.takes)

    def full(self) -> bool:
        return self.observer.observe(None, 0.0, frozenset(), {}).full


def test_a_peer_that_does_not_answer_for_a_vm_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not refused: what it would say is not known, so nothing is stopped."""
    fleet = Fleet(monkeypatch)
    fleet.mute = {"c"}
    assert not fleet.full()
    fleet.mute = set()
    assert fleet.full()
    assert fleet.full()
    assert fleet.facts_read == 2


def test_huge_pages_of_peers_are_read_where_a_vm_takes_some(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch)
    for peer in fleet.observer._peers:
        peer._facts = HostFacts(huge_pages={2048: {0: 8}})
    fleet.down = {"c"}
    for takes, seen in (({}, []), ({"hugepages of 2048 KiB": 4}, ["b"])):
        fleet.takes = takes
        fleet.observer.forget("u1")
        nodes = fleet.observer.observe(None, 0.0, frozenset(), {}).nodes.values()
        known = {node.name: node.spare["hugepages of 2048 KiB"] for node in nodes if node.spare is not None}
        assert known == dict.fromkeys(seen, 16)


def test_two_names_of_one_machine_are_told_by_both_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the target of its own VMs, or count for two. One that is down is nobody's other name."""
    fleet = Fleet(monkeypatch)
    for name, itself in (("b", "a"), ("c", "b")):
        fleet.machines = {name: itself}
        with pytest.raises(PolicyError, match=rf"{itself} and {name} are the same host \(UUID {itself}\).*host_uuid"):
            fleet.observer.observe(None, 0.0, frozenset(), {})
    fleet.machines, fleet.down = {"b": "", "c": ""}, {"b", "c"}
    assert fleet.full()


def test_a_peer_that_is_back_is_asked_for_each_vm(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch)
    fleet.down = {"c"}
    assert fleet.full()  # of those that answer
    assert fleet.full()
    assert fleet.facts_read == 1
    fleet.down = set()
    assert fleet.full()
    assert fleet.facts_read == 2


def test_what_goes_off_or_is_started_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A save's image appears as the VM goes off; what was read while it ran knows of none."""
    fleet = Fleet(monkeypatch)
    for state in (State.RUNNING, State.PAUSED, State.UNKNOWN):
        fleet.domain = replace(fleet.domain, state=state)
        fleet.full()
        assert fleet.facts_read == 1
    fleet.domain = replace(fleet.domain, state=State.SHUTOFF)
    fleet.full()
    fleet.full()
    assert fleet.facts_read == 2
    fleet.observer.forget("u1")
    fleet.domain = replace(fleet.domain, state=State.RUNNING)
    fleet.full()
    assert fleet.facts_read == 3


def test_what_is_read_of_a_vm_on_its_way_here_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who moved it gives it its autostart last of all, and then takes the claim away."""
    fleet = Fleet(monkeypatch, State.INCOMING)
    fleet.full()
    assert fleet.facts_read == 1
    fleet.domain = replace(fleet.domain, state=State.RUNNING)
    fleet.arriving = [Reservation("u1", GIB, "b")]
    fleet.full()
    assert fleet.facts_read == 2
    fleet.arriving = []
    fleet.full()
    fleet.full()
    assert fleet.facts_read == 3


def test_no_thread_outlives_the_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch)
    before = set(threading.enumerate())  # those of other tests may end at any time
    fleet.full()
    made = set(threading.enumerate()) - before
    assert made
    fleet.observer.close()
    for thread in made:
        thread.join(60)
    assert not made & set(threading.enumerate())


def test_of_a_peer_that_is_not_read_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch)
    fleet.down = {"c"}
    obs = fleet.observer.observe(None, 0.0, frozenset(), {})
    assert (obs.nodes["c"].reachable, obs.nodes["c"].message) == (False, "down")
    assert obs.sightings == {}


@pytest.mark.parametrize(("declared", "there"), [(0, False), (GIB, True)])
def test_a_peer_that_breaks_off_after_its_read_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, declared: int, there: bool
) -> None:
    """Its libvirtd is restarted: what was read of it holds, and of a VM that arrived there nothing is concluded."""
    fleet = Fleet(monkeypatch)
    monkeypatch.setattr(host_of, "libvirt", observe.libvirt)
    monkeypatch.setattr(host_of, "read_host_facts", lambda _conn: SimpleNamespace(memory_mib=GIB))
    monkeypatch.setattr(Host, "identity", "its own")
    monkeypatch.setattr(Host, "version", (1, 0, 0))
    alive = [True]

    def dial(uri: str) -> Any:
        if not alive[0]:
            raise HostUnreachable(uri, "Connection refused")
        return SimpleNamespace(isAlive=lambda: alive[0], getAllDomainStats=lambda *_flags: [], close=lambda: None)

    peer = Host(HostConfig("b", "x://b", declared), dial)
    monkeypatch.setattr(Host, "store", SimpleNamespace(names=list))
    answered = peer.read(True)
    assert not answered.error
    if there:
        answered.domains = {"u1": DomainNow("u1", "web", State.RUNNING, GIB)}
    monkeypatch.setattr(Host, "group_of", lambda _self, _uuid: None)
    alive[0] = False
    monkeypatch.setattr(peer, "read", lambda _jobs: answered)
    fleet.observer._peers = [peer]
    fleet.observer._asked = Peers([peer])
    obs = fleet.observer.observe(None, 0.0, frozenset(), {})
    assert (obs.full, obs.sightings, obs.nodes["b"].capacity_mib) == (not there, {}, GIB)


@pytest.mark.parametrize(("host", "uuid", "full"), [("b", "x", True), ("b", "u1", False)])
def test_a_job_that_a_peer_cannot_tell_matters_only_for_a_vm_of_this_host(
    monkeypatch: pytest.MonkeyPatch, host: str, uuid: str, full: bool
) -> None:
    fleet = Fleet(monkeypatch)
    whole = fleet.read

    def read(name: str) -> HostNow:
        now = whole(name)
        now.unread = {uuid: "busy"} if name == host else {}
        return now

    monkeypatch.setattr(fleet, "read", read)
    assert fleet.full() is full


def test_for_one_that_is_off_nobody_has_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch, State.SHUTOFF)
    fleet.mute = {"b", "c"}
    assert fleet.full()
