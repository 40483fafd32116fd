"""Definitions and copies: what is left should the record, or the host, be lost."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import PlaybookEnded
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import copies as module
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import definitions
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import LibvirtPlatform


class Refused(Exception):
    """libvirt's error."""


FLAGS = SimpleNamespace(
    VIR_DOMAIN_XML_SECURE=1, VIR_DOMAIN_XML_INACTIVE=2, VIR_DOMAIN_XML_MIGRATABLE=8, libvirtError=Refused
)


class Volumes:
    """A store in memory. `gone`: its host does not answer."""

    def __init__(self, gone: bool = False) -> None:
        self.gone = gone
        self.read_only = False
        self.written: list[tuple[str, Any]] = []

    def read_record(self, prefix: str) -> str | None:
        found = [text for name, text in self.written if name == prefix]
        return found[-1] if found else None

    def write_record(self, prefix: str, text: str) -> None:
        if self.gone:
            raise HostUnreachable("b", "no answer")
        self.written.append((prefix, text))

    def delete_record(self, prefix: str) -> None:
        if self.gone:
            raise HostUnreachable("b", "no answer")
        if self.read_only and self.read_record(prefix):
            raise Refused("cannot unlink file: Read-only file system")
        self.written = [one for one in self.written if one[0] != prefix]


class Host:
    """host-a: `web` is persistent, `job` is transient, and any other VM has gone."""

    name = "host-a"

    def __init__(self) -> None:
        self.store = Volumes()
        self.disk = ""  # of both VMs, as they run now
        self.locked = False

    def domain(self, uuid: str) -> Any:
        if uuid not in ("web", "job") or self.locked:
            raise Refused(uuid)
        return SimpleNamespace(
            isPersistent=lambda: uuid == "web", XMLDesc=lambda flags: f"<{uuid} {flags}/>{self.disk}"
        )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> LibvirtPlatform:
    """Peer b does not answer; c, d and e do."""
    monkeypatch.setattr(definitions, "libvirt", FLAGS)
    monkeypatch.setattr(module, "libvirt", FLAGS)
    found = LibvirtPlatform.__new__(LibvirtPlatform)
    source: Any = Host()
    peers: Any = {n: SimpleNamespace(store=Volumes(gone=n == "b")) for n in "bcde"}
    found.source, found.peers = source, peers
    found._copies = module.Copies("host-a", peers)
    anew(found)
    return found


def anew(made: Any) -> None:
    """As another slice finds it."""
    written = definitions.Written(made.source)
    made._definitions = definitions.Definitions(made.source, written, made._copies)


def record(*uuids: str, ending: str = "") -> NodeRecord:
    vms = {uuid: VMRecord(uuid, uuid, stop_way="shutdown", ending=ending) for uuid in uuids}
    return NodeRecord("host-a", "r", vms=vms)


def here(made: Any) -> list[Any]:
    """The definitions, each time that they were written on the host itself."""
    return [json.loads(t) for name, t in made.source.store.written if name == "definitions"]


def copies(made: LibvirtPlatform) -> dict[str, list[Any]]:
    stores: Any = {name: peer.store for name, peer in made.peers.items()}
    assert {n for store in stores.values() for n, _text in store.written} <= {"copy.host-a"}
    return {n: [json.loads(text) for _n, text in s.written] for n, s in stores.items()}


def test_definitions_are_kept_here_and_on_the_first_two_peers_that_answer(made: Any) -> None:
    """A transient VM as it can be started again, a persistent one as it is defined."""
    made._definitions.keep(record("web", "job", "gone"))
    known = {"web": "<web 3/>", "job": "<job 9/>"}
    assert here(made) == [known]
    found = copies(made)
    assert {n: len(one) for n, one in found.items()} == {"b": 0, "c": 1, "d": 1, "e": 0}
    assert found["c"] == found["d"]
    assert found["c"][0]["definitions"] == known
    assert set(NodeRecord.from_json(found["c"][0]["record"]).vms) == {"web", "job", "gone"}


def test_what_is_kept_is_not_written_again_and_a_new_vm_is_added(made: Any) -> None:
    made._definitions.keep(record("web"))
    made._definitions.keep(record("web"))
    assert len(copies(made)["c"]) == len(here(made)) == 1
    made._definitions.keep(record("web", "job"))
    assert [set(one["definitions"]) for one in copies(made)["c"]] == [{"web"}, {"web", "job"}]


def test_what_a_vm_has_ended_as_gets_into_the_copies(made: Any) -> None:
    made.renew_copies(record("web"))  # nothing was begun
    assert copies(made)["c"] == []
    made._definitions.keep(record("web"))
    anew(made)
    made.renew_copies(record("web", ending="stopped"))
    first, last = copies(made)["c"]
    endings = [NodeRecord.from_json(one["record"]).vms["web"].ending for one in (first, last)]
    assert endings == ["", "stopped"]
    assert first["definitions"] == last["definitions"]


class Stopped:
    """What the VMs would be started from, at each act."""

    def __init__(self, made: Any) -> None:
        self.seen: list[str | None] = []
        made.observer = SimpleNamespace(forget=lambda _uuid: None)
        made._actor = SimpleNamespace(
            apply=lambda action, record: self.seen.append(made._definitions.to_start_from(record).get(action.vm))
        )


@pytest.mark.parametrize("do", [Do.SHUTDOWN, Do.SAVE, Do.FORCE_OFF])
def test_a_transient_vm_is_started_again_as_it_was_at_its_stop(made: Any, do: Do) -> None:
    """Since its drain began it got a snapshot. Started as before, it would write to its base."""
    acts = Stopped(made)
    found = record("web", "job")
    made._definitions.keep(found)
    made.source.disk = "<disk overlay/>"
    made.apply([Action(do, "host-a", "job"), Action(do, "host-a", "web")], found)
    now = {"web": "<web 3/>", "job": "<job 9/><disk overlay/>"}
    assert acts.seen == [now["job"], now["web"]]
    assert here(made)[-1] == now
    assert copies(made)["c"][-1]["definitions"] == copies(made)["d"][-1]["definitions"] == now
    written = len(made.source.store.written)
    made.apply([Action(do, "host-a", "job")], found)  # asked again: nothing is new
    assert len(made.source.store.written) == written


def test_a_transient_vm_whose_definition_cannot_be_read_now_is_not_stopped(made: Any) -> None:
    """The one of the beginning is there, and may be of another disk."""
    acts = Stopped(made)
    found = record("web", "job")
    made._definitions.keep(found)
    made.source.locked = True
    made.apply([Action(Do.SHUTDOWN, "host-a", "job")], found)
    assert acts.seen == [None]
    made.apply([Action(Do.START, "host-a", "job")], found)  # it is off all the same, and wanted
    assert acts.seen == [None, "<job 9/>"]


def test_a_copy_that_cannot_be_removed_is_named_and_goes_the_next_time(made: Any) -> None:
    made._definitions.keep(record("web"))
    made.peers["c"].store.read_only = True
    made._copies.delete()
    assert "removed from c (cannot unlink file: Read-only file system)" in made._copies.warning
    assert "the next drain or restore of host-a removes it" in made._copies.warning
    assert {name: len(one) for name, one in copies(made).items() if one} == {"c": 1}
    made.peers["c"].store.read_only = False
    made._copies.delete()
    assert (made._copies.warning, copies(made)["c"]) == ("", [])


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_before_each_act_it_is_asked_whether_it_is_still_to_be_done(made: Any, writes: int) -> None:
    """The playbook was killed, or its roll closed: the acts that are left are not begun."""
    acts, left = Stopped(made), [writes]

    def asked() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise PlaybookEnded

    made.before_write = asked
    with pytest.raises(PlaybookEnded):
        made.apply([Action(Do.SHUTDOWN, "host-a", "job"), Action(Do.SHUTDOWN, "host-a", "web")], record("web", "job"))
    assert len(acts.seen) == max(0, writes - 1)
    for write in (lambda: made.save(record("web")), lambda: made.claim([], Limits())):
        with pytest.raises(PlaybookEnded):
            write()
