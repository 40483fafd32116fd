"""The store: its pool, volumes, generations. Against libvirt itself: tests/integration."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, RecordError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import PlaybookEnded
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import Host, HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.copies import Copies
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.definitions import (
    Definitions,
    Written,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import LibvirtPlatform
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store import pool as pools
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store import volumes as module
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import (
    Store,
    StoreError,
    VolumeMissing,
    VolumeTorn,
    pack,
)

VM = "29994fe9-b1fd-418f-b7ea-43c360888c7c"
NO_POOL, NO_VOL, EXIST = 49, 50, 90


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code

    def get_error_code(self) -> int:
        return self.code


class Volume:
    def __init__(self, files: dict[str, bytes], name: str) -> None:
        self.files, self.name = files, name

    def upload(self, stream: Stream, *_rest: int) -> None:
        stream.volume = self

    def download(self, stream: Stream, *_rest: int) -> None:
        stream.data = self.files[self.name]

    def delete(self, _flags: int) -> None:
        if self.files.pop(self.name, None) is None:
            raise Refused(NO_VOL)


class Stream:
    volume: Any = None
    data = b""

    def send(self, data: bytes) -> int:
        part = data[:100]
        self.data += part
        return len(part)

    def recv(self, size: int) -> bytes:
        part, self.data = self.data[:size], self.data[size:]
        return part

    def finish(self) -> None:
        if self.volume is not None:
            self.volume.files[self.volume.name] = self.data

    def abort(self) -> None:
        return


class Pool:
    """A directory pool in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.active = self.starts_itself = True
        self.mode = "0700"

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802
        return f"<pool><target><permissions><mode>{self.mode}</mode></permissions></target></pool>"

    def isActive(self) -> bool:  # noqa: N802
        return self.active

    def autostart(self) -> bool:
        return self.starts_itself

    def create(self, _flags: int) -> None:
        self.active = True

    def setAutostart(self, value: int) -> None:  # noqa: N802
        self.starts_itself = bool(value)

    def listVolumes(self) -> list[str]:  # noqa: N802
        return list(self.files)

    def createXML(self, xml: str, _flags: int) -> Volume:  # noqa: N802
        assert "<mode>0600</mode>" in xml, "definitions hold passwords"
        name = xml.split("<name>")[1].split("</name>", maxsplit=1)[0]
        if name in self.files:
            raise Refused(EXIST)
        size = int(xml.split("'bytes'>")[1].split("<", maxsplit=1)[0])
        self.files[name] = b"\0" * size
        return Volume(self.files, name)

    def storageVolLookupByName(self, name: str) -> Volume:  # noqa: N802
        if name not in self.files:
            raise Refused(NO_VOL)
        return Volume(self.files, name)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    binding = SimpleNamespace(
        libvirtError=Refused,
        VIR_ERR_NO_STORAGE_POOL=NO_POOL,
        VIR_ERR_NO_STORAGE_VOL=NO_VOL,
        VIR_ERR_STORAGE_VOL_EXIST=EXIST,
        VIR_ERR_SYSTEM_ERROR=38,
        VIR_STORAGE_POOL_CREATE_WITH_BUILD=1,
    )
    for one in (module, pools):
        monkeypatch.setattr(one, "libvirt", binding)
    return Pool()


@pytest.fixture
def store(pool: Pool) -> Store:
    conn = SimpleNamespace(storagePoolLookupByName=lambda _name: pool, newStream=lambda _f: Stream())
    return Store(conn, sleep=lambda _seconds: None)


@pytest.mark.parametrize("use", [Store.names, Store.ensure])
def test_a_libvirt_without_its_storage_driver_is_named(pool: Pool, use: Callable[[Store], Any]) -> None:
    """Not as one that keeps no record: nothing could be kept there."""
    conn = SimpleNamespace(storagePoolLookupByName=lambda _name: _refuse(pools.ERR_NO_SUPPORT))
    with pytest.raises(StoreError, match="libvirt-daemon-driver-storage"):
        use(Store(conn, sleep=lambda _seconds: None))
    assert pool.files == {}


def _refuse(code: int) -> Any:
    raise Refused(code)


@pytest.mark.parametrize("asks", range(4))
def test_before_each_write_it_is_asked_whether_it_is_still_to_be_done(pool: Pool, asks: int) -> None:
    """Of a record, its next generation and what it replaces: the playbook may be killed between the two."""
    conn = SimpleNamespace(
        storagePoolLookupByName=lambda _name: pool, newStream=lambda _f: Stream(), isAlive=lambda: True
    )
    host, left = Host(HostConfig("a", "qemu:///a"), lambda _uri: conn), [asks]

    def ask() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise PlaybookEnded

    host.before_write = ask
    with pytest.raises(PlaybookEnded):
        [host.store.write_record("record", text) for text in ("old", "new", "newer")]
    assert sorted(pool.files) == [[], ["record.1"], ["record.1", "record.2"], ["record.2"]][asks]


class Undefined:
    """A host whose pool somebody has undefined. `directory`: is it still there?"""

    def __init__(self, pool: Pool, directory: bool = True) -> None:
        self.pool, self.directory, self.defined = pool, directory, False
        pool.active = False
        pool.create, pool.undefine = self.create, self.undefine  # type: ignore[method-assign]

    def storagePoolLookupByName(self, _name: str) -> Pool:  # noqa: N802
        if not self.defined:
            raise Refused(NO_POOL)
        return self.pool

    def storagePoolDefineXML(self, xml: str, _flags: int) -> Pool:  # noqa: N802
        assert "<name>virtops</name><target><path>/var/lib/libvirt/virtops</path>" in xml
        self.defined = True
        return self.pool

    def create(self, flags: int) -> None:
        """As libvirt: a pool that is not built needs its directory."""
        if not (self.directory or flags):
            raise Refused(38)
        self.pool.active = True

    def undefine(self) -> None:
        if self.pool.active:
            raise Refused(55)
        self.defined = False

    def newStream(self, _flags: int) -> Stream:  # noqa: N802
        return Stream()


def test_the_records_of_a_pool_that_was_undefined_are_found(pool: Pool) -> None:
    """A restore that did not see them said that there was nothing to restore."""
    host = Undefined(pool)
    pool.files["record.3"] = pack(b"text")
    assert Store(host, sleep=lambda _seconds: None).read_record("record") == "text"
    assert host.defined


def test_a_look_at_a_host_without_a_pool_makes_none(pool: Pool) -> None:
    host = Undefined(pool, directory=False)
    assert Store(host, sleep=lambda _seconds: None).names() == []
    assert not host.defined and not pool.active


def test_a_pool_that_another_run_makes_at_this_moment_is_no_error(pool: Pool) -> None:
    """Seen when two drains asked a target for its first claim: one said that it did not answer."""

    class Raced(Undefined):
        def storagePoolDefineXML(self, _xml: str, _flags: int) -> Pool:  # noqa: N802
            self.defined = pool.active = True  # by the other one
            raise Refused(9)

    pool.files["record.3"] = pack(b"text")
    assert Store(Raced(pool), sleep=lambda _seconds: None).read_record("record") == "text"


def test_a_look_that_was_killed_in_the_middle_costs_the_next_one_nothing(pool: Pool) -> None:
    host = Undefined(pool)
    pool.files["record.3"] = pack(b"text")
    host.defined = True  # defined, and not yet started
    assert Store(host, sleep=lambda _seconds: None).read_record("record") == "text"
    assert pool.active


def connection(pool: Pool) -> SimpleNamespace:
    return SimpleNamespace(
        storagePoolLookupByName=lambda _name: pool,
        newStream=lambda _f: Stream(),
        isAlive=lambda: True,
        getVersion=lambda: 9000000,
    )


def test_who_only_looks_starts_no_pool(pool: Pool) -> None:
    pool.active = pool.starts_itself = False
    looking = Store(connection(pool), acts=False)
    for look in (looking.names, lambda: looking.read("a"), lambda: looking.create("a")):
        with pytest.raises(StoreError):
            look()
    assert (pool.active, pool.starts_itself) == (False, False)
    pool.active = True
    assert looking.names() == []
    assert not pool.starts_itself
    pool.active = False
    Store(connection(pool)).names()
    assert (pool.active, pool.starts_itself) == (True, True)


@pytest.mark.parametrize("acts", [True, False])
@pytest.mark.parametrize("mode", ["0777", "0702", "01777"])
def test_a_pool_that_any_user_may_write_to_is_not_believed(pool: Pool, mode: str, acts: bool) -> None:
    pool.mode = mode
    with pytest.raises(StoreError, match=rf"mode {mode}\).*chmod 0700"):
        Store(connection(pool), acts=acts).names()
    pool.mode = "0711"
    assert Store(connection(pool), acts=acts).names() == []


def test_a_host_whose_pool_is_off_is_not_read_as_one_without_claims(pool: Pool) -> None:
    pool.active = False
    host = Host(HostConfig("host-b", "qemu+tls://b/system"), lambda _u: connection(pool), False)
    host._identity = "b"
    read = host.read(False)
    assert "pool-start virtops" in read.error
    assert not pool.active


def test_create_is_exclusive_and_reads_back(store: Store) -> None:
    assert store.create("a", b"one" * 200)
    assert not store.create("a", b"two")
    assert store.read("a") == b"one" * 200
    assert store.create("empty")
    assert store.read("empty") == b""
    assert store.names() == ["a", "empty"]
    assert store.delete("a")
    assert not store.delete("a")
    with pytest.raises(VolumeMissing):
        store.read("a")


def test_a_failed_upload_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_stream: Stream, _data: bytes) -> int:
        raise Refused(38)

    monkeypatch.setattr(Stream, "send", fail)
    with pytest.raises(Refused):
        store.create("a", b"x")
    assert store.names() == []


def test_generations(store: Store) -> None:
    assert store.read_record("record") is None
    assert store.write_record("record", "one") == 1
    assert store.write_record("record", "two") == 2
    assert store.write_record("copy.host-a", "other") == 1
    assert store.names() == ["copy.host-a.1", "record.2"]
    assert store.read_generation("record") == (2, "two")
    assert store.write_record("record", "three") == 3
    assert store.delete_record("record")
    assert not store.delete_record("record")
    assert store.names() == ["copy.host-a.1"]


def test_a_torn_newest_is_passed_over_where_an_older_one_is_whole(store: Store, pool: Pool) -> None:
    store.write_record("record", "one")
    pool.files["record.2"] = b"\0" * 90
    assert store.read_generation("record") == (1, "one")
    assert store.write_record("record", "two") == 3
    assert store.names() == ["record.3"]


def test_none_whole_is_an_error_and_never_no_record(store: Store, pool: Pool) -> None:
    pool.files["record.1"] = b"\0" * 90
    with pytest.raises(VolumeTorn, match=r"record\.1"):
        store.read_record("record")


def platform(store: Store, prefix: str = "") -> LibvirtPlatform:
    """A platform with that store, as a new run finds it."""
    made = LibvirtPlatform.__new__(LibvirtPlatform)
    made.source = SimpleNamespace(store=store, name="host-a")  # type: ignore[assignment]
    made._prefix, made._written = prefix, Written(made.source, prefix)
    made._definitions = Definitions(made.source, made._written, Copies("host-a", {}))
    return made


@pytest.mark.parametrize("prefix", ["", f"single.{VM}."])
def test_a_run_that_was_killed_in_its_first_write_is_carried_on(store: Store, pool: Pool, prefix: str) -> None:
    pool.files[f"{prefix}record.1"] = pool.files[f"{prefix}definitions.1"] = b"\0" * 90
    run = platform(store, prefix)
    assert run.load() is None
    assert run._definitions.to_start_from(NodeRecord("host-a", "run-1")) == {}
    assert f"{prefix}record.1" in store.names()  # reading changes nothing
    run.save(NodeRecord("host-a", "run-1"))
    run._definitions.keep(NodeRecord("host-a", "run-1"))
    assert store.names() == [f"{prefix}definitions.1", f"{prefix}record.1"]
    again = platform(store, prefix).load()
    assert again is not None
    assert again.run_id == "run-1"


@pytest.mark.parametrize("torn", [["record.2"], ["record.1", "record.2"]])
def test_a_later_torn_generation_is_never_no_record(store: Store, pool: Pool, torn: list[str]) -> None:
    pool.files.update(dict.fromkeys(torn, b"\0" * 90))
    pool.files["definitions.3"] = b"\0" * 90
    with pytest.raises(RecordError, match=r"record of host-a.*record\.2"):
        platform(store).load()
    with pytest.raises(RecordError, match=r"definitions of host-a.*no VM is moved"):
        platform(store)._definitions.to_start_from(NodeRecord("host-a", "run-1"))
    assert store.names() == ["definitions.3", *torn]


def test_a_reader_that_meets_a_writer(store: Store, pool: Pool) -> None:
    """The list is old when the volume is read: the reader looks again."""
    store.write_record("record", "one")
    lookup, done = pool.storageVolLookupByName, []

    def meanwhile(name: str) -> Volume:
        if not done:
            done.append(name)
            store.write_record("record", "two")
        return lookup(name)

    pool.storageVolLookupByName = meanwhile  # type: ignore[method-assign]
    assert store.read_record("record") == "two"
