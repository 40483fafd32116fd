"""Definitions that are damaged, and copies that no peer takes: no VM's only definition is lost."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    RecordError,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import copies, definitions
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import act, platform
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import LibvirtPlatform
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import (
    Store,
    VolumeMissing,
    pack,
    unpack,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

NOISE = b"\7" * 90


class Volumes(Store):
    """A store whose pool is in memory. `full`: nothing can be made in it."""

    def __init__(self) -> None:
        super().__init__(None, sleep=lambda _seconds: None)
        self.files: dict[str, bytes] = {}
        self.full = False

    def names(self) -> list[str]:
        return sorted(self.files)

    def create(self, name: str, data: bytes = b"") -> bool:
        if self.full:
            raise fakes.LibvirtError("no space left on device")
        return self.files.setdefault(name, raw := pack(data)) is raw

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise VolumeMissing(name)
        return unpack(name, self.files[name])

    def delete(self, name: str) -> bool:
        return self.files.pop(name, None) is not None


class Host:
    """A host with its VMs: `job` is transient, all others are persistent."""

    def __init__(self, name: str) -> None:
        self.name, self.config = name, HostConfig(name, f"qemu+tls://{name}/system")
        self._store, self.gone = Volumes(), False
        self.vms: set[str] = set()
        self.started: list[str] = []
        self.flags: dict[str, int] = {}  # with which a definition was read last
        self.conn = SimpleNamespace(createXML=lambda xml, _flags: self.started.append(xml))

    @property
    def store(self) -> Volumes:
        if self.gone:
            raise HostUnreachable(self.config.uri, "no answer")
        return self._store

    @property
    def files(self) -> dict[str, bytes]:
        return self._store.files

    def domain(self, uuid: str) -> Any:
        if uuid not in self.vms:
            raise fakes.LibvirtError(uuid)

        def xml(flags: int) -> str:
            self.flags[uuid] = flags
            return f"<{uuid}/>"

        return SimpleNamespace(isActive=lambda: True, isPersistent=lambda: uuid != "job", XMLDesc=xml)


class World:
    """host-a with `web` and `job`, and the peers b, c and d."""

    def __init__(self) -> None:
        self.hosts = {name: Host(name) for name in ("host-a", "b", "c", "d")}
        self.source = self.hosts["host-a"]
        self.source.vms = {"web", "job"}
        self.record = NodeRecord("host-a", "run-1", started_wall="monday", runs=["run-1"])
        for uuid in ("web", "job"):
            self.record.vms[uuid] = VMRecord(uuid, uuid, persistent=uuid != "job")
        self.asked: list[str] = []

    def run(self) -> LibvirtPlatform:
        """As a new slice makes it."""
        own, *peers = (host.config for host in self.hosts.values())
        made = LibvirtPlatform(own, peers)
        holder: Any = SimpleNamespace(order=lambda order: self.asked.append(order["uuid"]))
        made._holder = holder
        return made

    def stop(self, run: LibvirtPlatform, *uuids: str) -> Any:
        """As the core has it: the intent stands in the record first."""
        for uuid in uuids:
            self.record.vms[uuid].stop_way = "shutdown"
        return run.apply([Action(Do.SHUTDOWN, "host-a", u, u) for u in uuids], self.record)

    def start(self) -> Any:
        return self.run().apply([Action(Do.START, "host-a", "job", "job")], self.record)

    def job_is_off(self) -> None:
        assert self.stop(self.run(), "job") == {}
        self.source.vms.discard("job")

    def damage(self) -> None:
        assert "definitions.1" in self.source.files
        self.source.files["definitions.1"] = NOISE

    def written(self) -> dict[str, dict[str, bytes]]:
        return {name: dict(host.files) for name, host in self.hosts.items()}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made, binding = World(), fakes.Binding()
    for module in (act, copies, definitions, platform):
        monkeypatch.setattr(module, "libvirt", binding)
    monkeypatch.setattr(platform, "Host", lambda config, *_a, **_k: made.hosts[config.name])
    return made


def test_a_definition_is_kept_with_its_secrets_and_the_record_has_none(world: World) -> None:
    """A console's password is in the XML only if it is requested; the record is reported."""
    assert world.stop(world.run(), "job") == {}
    libvirt = definitions.libvirt
    assert world.source.flags["job"] == (libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_MIGRATABLE)
    assert world.source.flags["web"] & libvirt.VIR_DOMAIN_XML_SECURE
    assert world.record.vms["job"].definition
    assert "<job/>" not in world.record.to_json()


def test_damaged_definitions_are_taken_from_a_peer(world: World) -> None:
    world.job_is_off()
    world.damage()
    world.hosts["b"].gone = True
    assert world.start() == {}
    assert world.source.started == ["<job/>"]
    assert world.source.files["definitions.1"] == NOISE  # nothing was to be written


@pytest.mark.parametrize("left", [NOISE, b"", None], ids=["damaged", "empty", "deleted"])
def test_a_new_drain_writes_them_again_as_the_peers_have_them(world: World, left: bytes | None) -> None:
    world.job_is_off()
    world.damage()
    del world.source.files["definitions.1"]
    if left is not None:
        world.source.files["definitions.1"] = left
    assert world.stop(world.run(), "web") == {}
    for host, volume in (("host-a", "definitions.1"), ("b", "copy.host-a.2")):
        found = json.loads(world.hosts[host].store.read(volume))
        assert found.get("definitions", found) == {"job": "<job/>", "web": "<web/>"}


def test_damaged_definitions_that_no_peer_has_are_an_error_and_nothing_is_written_over(world: World) -> None:
    world.job_is_off()
    world.damage()
    del world.hosts["b"].files["copy.host-a.1"]
    world.hosts["c"].gone = True
    before, asked = world.written(), len(world.asked)
    (refused,) = world.stop(world.run(), "web").values()
    assert refused.reason is Reason.StopFailed
    for word in ("definitions.1 ", "job", "c (", "no answer", "no VM is moved or stopped"):
        assert word in refused.message
    world.hosts["c"].gone = False  # meanwhile
    (copy,) = (n for n in world.hosts["c"].files if n.startswith("copy."))
    world.hosts["c"].files[copy] = NOISE
    before["c"][copy] = NOISE
    world.run().renew_copies(world.record)
    finding = world.start()["job"]
    assert finding.reason is Reason.CannotStart
    assert "its definition is neither" in finding.message
    assert world.written() == before
    assert (len(world.asked), world.source.started) == (asked, [])


@pytest.mark.parametrize("way", ["started by hand", "volume deleted"])
def test_who_mended_it_by_hand_goes_on(world: World, way: str) -> None:
    world.job_is_off()
    world.damage()
    for name in "bcd":
        world.hosts[name].files.clear()
    assert list(world.stop(world.run(), "web")) == ["web"]
    if way == "started by hand":
        world.source.vms.add("job")
    else:
        del world.source.files["definitions.1"]
    assert world.stop(world.run(), "web") == {}


def test_a_run_that_was_killed_as_it_wrote_them_first_is_carried_on(world: World) -> None:
    """The record says already what is to be done. No copy was made, no VM touched."""
    world.source.files["definitions.1"] = NOISE
    world.record.vms["web"].attempts.append(Attempt(1, "b", "", 0.0, "boot"))
    assert world.stop(world.run(), "web", "job") == {}
    assert world.asked == ["web", "job"]
    found = json.loads(world.source.store.read("definitions.1"))
    assert found == {"job": "<job/>", "web": "<web/>"}


def test_a_vm_that_has_moved_needs_no_definition_here(world: World) -> None:
    world.job_is_off()
    world.damage()
    for name in "bcd":
        world.hosts[name].files.clear()
    world.record.vms["job"].ending, world.record.vms["job"].at = "moved", "b"
    assert world.stop(world.run(), "web") == {}


def test_the_copy_of_an_earlier_maintenance_is_not_believed(world: World) -> None:
    world.job_is_off()
    world.damage()
    world.record.started_wall = "tuesday"
    assert "definitions.1" in world.stop(world.run(), "web")["web"].message
    world.record.started_wall, world.record.runs = "monday", ["run-2"]
    assert "definitions.1" in world.stop(world.run(), "web")["web"].message


def test_of_copies_that_differ_the_one_that_was_written_here_is_taken(world: World) -> None:
    world.job_is_off()
    world.damage()
    forge(world, "b", "<job old=''/>")
    assert world.start() == {}
    assert world.source.started == ["<job/>"]


EVIL = "<domain><devices><emulator>/tmp/evil</emulator></devices></domain>"
OTHER = hashlib.sha256(EVIL.encode()).hexdigest()


def forge(world: World, name: str, xml: str) -> None:
    """A peer that lies: in its copy stands another definition, and in the record of its copy the
    digest of that one."""
    store = world.hosts[name].store
    raw = json.loads(store.read("copy.host-a.1"))
    raw["definitions"]["job"] = xml
    theirs = json.loads(raw["record"])
    theirs["vms"]["job"]["definition"] = OTHER
    raw["record"] = json.dumps(theirs)
    store.files["copy.host-a.1"] = pack(json.dumps(raw).encode())


def test_a_definition_that_a_peer_made_up_is_never_started(world: World) -> None:
    world.job_is_off()
    world.damage()
    forge(world, "b", EVIL)
    forge(world, "c", EVIL)
    message = world.start()["job"].message
    assert "its definition is neither" in message
    before = world.written()
    refused = world.stop(world.run(), "web")["web"].message
    assert "b (not what host-a wrote of job)" in refused
    assert world.written() == before
    assert world.source.started == []


@pytest.mark.parametrize("deep", ["[" * 10**5, '{"a":' * 10**5, '{"record": "x"', "[]", "7"])
def test_a_copy_that_is_no_copy_is_left_aside(world: World, deep: str) -> None:
    world.job_is_off()
    world.damage()
    world.hosts["b"].files["copy.host-a.1"] = pack(deep.encode())
    assert world.start() == {}
    assert world.source.started == ["<job/>"]


@pytest.mark.parametrize("text", ["[" * 10**5, "[]", "7", '{"job": 7}', '{"job": '])
def test_definitions_that_are_whole_and_no_definitions_are_one_error(world: World, text: str) -> None:
    world.job_is_off()
    world.source.files["definitions.1"] = pack(text.encode())
    before = world.written()
    refused = world.stop(world.run(), "web")["web"].message
    assert "definitions.N in pool virtops was not written by a run" in refused
    assert "was not written by a run" in world.start()["job"].message
    assert (world.written(), world.source.started) == (before, [])


def test_definitions_removed_by_hand_are_not_written_without_what_a_silent_peer_may_have(world: World) -> None:
    """The only copy of the transient VM is on a peer that is down: none may be replaced."""
    del world.hosts["c"], world.hosts["d"]
    world.job_is_off()
    del world.source.files["definitions.1"]
    world.hosts["b"].gone = True
    refused = world.stop(world.run(), "web")["web"]
    for word in ("definitions.1 in pool virtops is not there", "job", "b (", "no answer"):
        assert word in refused.message
    assert "definitions.1" not in world.source.files
    world.hosts["b"].gone = False
    assert world.stop(world.run(), "web") == {}
    found = json.loads(world.source.store.read("definitions.1"))
    assert found == {"job": "<job/>", "web": "<web/>"}


def test_no_definition_of_a_persistent_vm_is_required(world: World) -> None:
    """It is defined on one of the hosts at every moment: a silent peer keeps nothing of it."""
    assert world.stop(world.run(), "web") == {}
    world.source.vms.discard("web")  # its owner has moved it
    world.damage()
    for name in "bcd":
        world.hosts[name].gone = True
    world.source.vms.add("db")
    world.record.vms["db"] = VMRecord("db", "db", persistent=True)
    assert world.stop(world.run(), "db") == {}


def test_what_cannot_be_written_down_is_reported_per_vm_and_nothing_is_asked(world: World) -> None:
    """The record has the intent already. A run that died here would leave it waiting for a guest
    that nobody asked."""
    world.source.store.full = True
    run = world.run()
    world.record.vms["web"].attempts.append(Attempt(1, "b", "", 0.0, "boot"))
    actions = [
        Action(Do.MIGRATE, "host-a", "web", "web", target="b", attempt=1),
        Action(Do.SHUTDOWN, "host-a", "job", "job"),
        Action(Do.AUTOSTART_OFF, "host-a", "other", "other"),
    ]
    world.record.vms["job"].stop_way = "shutdown"
    refused = run.apply(actions, world.record)
    assert refused["web"].reason is Reason.MigrationFailed
    assert refused["job"].reason is Reason.StopFailed
    assert "no space left" in refused["web"].message
    assert "Nothing was done" in refused["job"].message
    assert world.asked == []
    assert "definitions" not in refused["other"].message  # not held up, it failed for its own reason
    world.source.store.full = False
    assert run.apply(actions[1:2], world.record) == {}
    assert world.asked == ["job"]


def test_a_transient_vm_is_not_stopped_while_no_peer_takes_a_copy(world: World) -> None:
    world.hosts["b"].gone = True
    world.hosts["c"].store.full = world.hosts["d"].store.full = True
    run = world.run()
    refused = world.stop(run, "web", "job")
    assert list(refused) == ["job"]
    assert refused["job"].reason is Reason.StopFailed
    for word in ("transient", "no answer", "no space left", "Nothing was done"):
        assert word in refused["job"].message
    assert world.asked == ["web"]
    (warning,) = run.warnings
    for word in ("host-a", "0 of 2 copies", "b (", "no answer", "c (no space left", "d ("):
        assert word in warning
    assert "Transient VMs are not stopped" in warning
    world.hosts["d"].store.full = False
    assert world.stop(run, "job") == {}
    assert world.asked == ["web", "job"]
    assert "1 of 2 copies" in run.warnings[0]
    assert "Transient" not in run.warnings[0]


@pytest.mark.parametrize(
    ("peers", "gone", "copies"),
    [("bcd", "b", ""), ("bcd", "bc", "1 of 2"), ("b", "", ""), ("b", "b", "0 of 1"), ("", "", "")],
)
def test_how_many_copies_there_are_is_told(world: World, peers: str, gone: str, copies: str) -> None:
    for name in "bcd":
        world.hosts[name].gone = name in gone
        if name not in peers:
            del world.hosts[name]
    run = world.run()
    assert run.warnings == []
    stopped = world.stop(run, "web", "job") == {}
    assert stopped is not copies.startswith("0")
    assert [copies in text for text in run.warnings] == [True] * bool(copies)
    run.forget(world.record)
    assert run.warnings == []


@pytest.mark.parametrize("volume", ["record.1", "record.2"])
def test_only_the_first_record_can_have_been_under_way(world: World, volume: str) -> None:
    """Torn and alone it was being written when its run was killed. A later one says that something was done."""
    world.source.files[volume] = NOISE
    if volume == "record.1":
        assert world.run().load() is None
        return
    with pytest.raises(RecordError, match="the record of host-a cannot be read"):
        world.run().load()
