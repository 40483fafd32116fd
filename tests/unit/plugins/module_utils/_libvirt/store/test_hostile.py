"""A store that lies: huge, endless, nested, misnamed. On real pools: tests/integration."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    NodeRecord,
    RecordError,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.untrusted import load_json, parse_xml
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import host
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import Host, HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import LibvirtPlatform
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store import copied_disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store import volumes as store
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import (
    CHUNK,
    LARGEST,
    LAST,
    NEWEST,
    Store,
    StoreError,
    VolumeTorn,
    pack,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.records.test_definitions import (
    Volumes,
)

VM = "29994fe9-b1fd-418f-b7ea-43c360888c7c"


class Endless:
    """A stream that never ends. `head`: what it begins with; `slow`: seconds for each part."""

    def __init__(self, head: bytes = b"", fill: bytes = b"\0", slow: float = 0.0) -> None:
        self.head, self.fill, self.slow = head, fill, slow
        self.given, self.aborted = 0, False
        self.clock = 0.0

    def recv(self, size: int) -> bytes:
        part = (self.head[self.given :] + self.fill * size)[:size]
        self.given += size
        self.clock += self.slow
        return part

    def abort(self) -> None:
        self.aborted = True

    def finish(self) -> None:
        raise AssertionError("it has no end")


def reader(stream: Any, names: list[str]) -> Store:
    volume = SimpleNamespace(download=lambda *_more: None)
    pool = SimpleNamespace(
        isActive=lambda: True,
        autostart=lambda: True,
        listVolumes=lambda: names,
        storageVolLookupByName=lambda _name: volume,
        XMLDesc=lambda _flags: "<pool/>",
    )
    conn = SimpleNamespace(storagePoolLookupByName=lambda _name: pool, newStream=lambda _flags: stream)
    return Store(conn, sleep=lambda _seconds: None)


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (store, host):
        monkeypatch.setattr(module, "libvirt", fakes.Binding())


@pytest.mark.parametrize("fill", [b"\0", b"x"])
def test_of_a_huge_volume_without_a_header_only_the_beginning_is_read(fill: bytes) -> None:
    stream = Endless(fill=fill)
    with pytest.raises(VolumeTorn):
        reader(stream, ["copy.a.1"]).read("copy.a.1")
    assert (stream.given, stream.aborted) == (CHUNK, True)


def test_what_comes_behind_the_content_is_not_read() -> None:
    stream = Endless(pack(b"content"))
    assert reader(stream, ["copy.a.1"]).read("copy.a.1") == b"content"
    assert (stream.given, stream.aborted) == (CHUNK, True)


@pytest.mark.parametrize("length", [LARGEST, 10**17, 10**40])
def test_a_header_that_promises_more_than_a_run_writes(length: int) -> None:
    stream = Endless(b"virtops1 %d %s\n" % (length, b"0" * 64))
    with pytest.raises(VolumeTorn):
        reader(stream, ["copy.a.1"]).read("copy.a.1")
    assert (stream.given, stream.aborted) == (CHUNK, True)


def test_a_volume_that_comes_too_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Endless(b"virtops1 %d %s\n" % (LARGEST // 2, b"0" * 64), slow=1.0)
    monkeypatch.setattr(time, "monotonic", lambda: stream.clock)
    with pytest.raises(VolumeTorn, match="does not end"):
        reader(stream, ["copy.a.1"]).read("copy.a.1")
    assert stream.clock <= store.LONGEST + 2


def test_of_thousands_of_generations_the_newest_are_tried() -> None:
    stream = Endless()
    with pytest.raises(VolumeTorn) as told:
        reader(stream, [f"copy.a.{n}" for n in range(1, 9000)]).read_record("copy.a")
    assert stream.given <= CHUNK * NEWEST * store.RETRIES
    assert "copy.a.8999" in str(told.value)
    assert len(str(told.value)) < 400


@pytest.mark.parametrize("number", [LAST, 10**18 - 1])
def test_a_generation_that_no_run_reaches_does_not_make_a_writer_turn_for_ever(number: int) -> None:
    volumes = Volumes()
    volumes.files = {f"record.{number}": pack(b"{}")}
    with pytest.raises(StoreError, match=rf"record\.{number} in pool virtops .* delete it"):
        volumes.write_record("record", "text")
    assert list(volumes.files) == [f"record.{number}"]


def test_a_name_that_is_taken_and_not_listed_does_not_make_a_writer_turn_for_ever() -> None:
    """A directory entry that libvirt leaves out: a link to nowhere, a socket."""
    volumes = Volumes()
    volumes.create = lambda _name, _data=b"": False  # type: ignore[method-assign]
    with pytest.raises(StoreError, match=r"record\.1 cannot be created in pool virtops"):
        volumes.write_record("record", "text")


@pytest.mark.parametrize("text", ["[" * 10**5, '{"a":' * 10**5, "", "{", "\0"])
def test_json_that_is_none_is_one_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        load_json(text)


BOMB = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]><domain><name>&y;</name></domain>'


@pytest.mark.parametrize("before", ["", " \n", "\ufeff", "<?xml version='1.0'?>", "<?a b?><!-- c\n --> <!-- d -->"])
def test_xml_with_entities_of_its_own_is_refused(before: str) -> None:
    with pytest.raises(ET.ParseError):
        parse_xml(before + BOMB)
    told = parse_xml(f"{before.strip()}<a><!-- <!DOCTYPE --><![CDATA[<!DOCTYPE a]]>&lt;&#65;</a>")
    assert told.text == "<!DOCTYPE a<A"


GOOD = NodeRecord("host-a", "r", runs=["r"], vms={VM: VMRecord(VM, "web")}).to_json()


def changed(**changes: Any) -> str:
    return json.dumps({**json.loads(GOOD), **changes})


def vm(**changes: Any) -> str:
    raw = json.loads(GOOD)
    raw["vms"][VM].update(changes)
    return json.dumps(raw)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**5,
        '{"schema":' * 10**5,
        "[]",
        "7",
        changed(schema=99),
        changed(vms=[]),
        changed(vms={VM: None}),
        changed(node=7),
        changed(requester=["a"]),
        changed(runs=[["r"]]),
        changed(cordoned_by_us="yes"),
        changed(started="soon"),
        changed(evil=True),
        vm(name={"a": 1}),
        vm(memory_mib="1"),
        vm(memory_mib=True),
        vm(attempts=[7]),
        vm(attempts=[{"number": 1}]),
        vm(uuid="another"),
        vm(tries=[]),
    ],
)
def test_a_record_that_no_run_writes_is_one_error(text: str) -> None:
    assert NodeRecord.from_json(GOOD).vms[VM].name == "web"
    with pytest.raises(RecordError):
        NodeRecord.from_json(text)


def test_the_record_of_another_host_is_not_taken_for_the_own() -> None:
    made = LibvirtPlatform.__new__(LibvirtPlatform)
    made.source = SimpleNamespace(name="host-b")  # type: ignore[assignment]
    made._written = SimpleNamespace(read=lambda _what: GOOD)  # type: ignore[assignment]
    made._prefix = ""
    with pytest.raises(RecordError, match=r"'host-a' \(volumes record\.\* .*Nothing was changed"):
        made.load()


@pytest.mark.parametrize("text", ["[" * 10**5, "{", "[]", "7"])
def test_notes_that_are_none_permit_nothing(text: str) -> None:
    volumes = Volumes()
    volumes.files = {f"made.{VM}.1": pack(text.encode())}
    assert copied_disks.read(volumes, VM) == {}


@pytest.mark.parametrize(
    "raw",
    [
        {"reason": "NoSuchReason"},
        {"mode": "teleport"},
        {"processed": "many"},
        {"seconds": [1]},
        {"processed": float("inf")},
    ],
)
def test_an_outcome_that_no_holder_writes_is_no_outcome(raw: dict[str, Any]) -> None:
    record = NodeRecord.from_json(GOOD)
    attempt = {"number": 1, "target": "b", "method": "", "started": 0.0, "boot_id": ""}
    record = NodeRecord.from_json(vm(attempts=[{**attempt, "run_id": "r"}]))
    made = LibvirtPlatform.__new__(LibvirtPlatform)
    volumes = Volumes()
    volumes.files = {f"outcome.{VM}.1": pack(json.dumps({"run_id": "r", **raw}).encode())}
    made.source = SimpleNamespace(store=volumes)  # type: ignore[assignment]
    made._outcomes = {}
    made._read_outcomes(record)
    assert made._outcomes == {}


def test_a_peer_whose_libvirt_answers_with_a_bomb_cannot_be_read() -> None:
    conn = SimpleNamespace(isAlive=lambda: True, getCapabilities=lambda: BOMB)
    read = Host(HostConfig("b", "qemu+tls://b/system"), lambda _uri: conn).read(False)
    assert "DOCTYPE" in read.error
