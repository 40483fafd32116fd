"""A cordon is removed by those who made it, and by nobody else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Node, Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import observe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.observe import Observer
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import act
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.act import Actor
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.cordon import by_others, is_ours
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import (
    VolumeMissing,
    pack,
    unpack,
)

FOREIGN = [b"", b"\0", b"by hand", pack(b"run-9"), pack(b"")]


class Cordoned:
    """A store with at most a cordon in it; `raw` as it stands on the disk."""

    def __init__(self, raw: bytes | None) -> None:
        self.raw = raw

    def read(self, name: str) -> bytes:
        if self.raw is None:
            raise VolumeMissing(name)
        return unpack(name, self.raw)

    def create(self, _name: str, data: bytes = b"") -> bool:
        if self.raw is not None:
            return False
        self.raw = pack(data)
        return True

    def delete(self, _name: str) -> bool:
        self.raw = None
        return True


def record(**more: Any) -> NodeRecord:
    return NodeRecord("host-a", "run-2", runs=["run-1", "run-2"], **more)


def uncordon(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "libvirt", SimpleNamespace(libvirtError=OSError))
    source: Any = SimpleNamespace(name="host-a", store=store)
    actor = Actor(source, {}, "", print, dict, str, list)
    assert actor.apply(Action(Do.CORDON, "host-a"), record()) is None
    assert actor.apply(Action(Do.UNCORDON, "host-a"), record(cordoned_by_us=True)) is None


@pytest.mark.parametrize("raw", FOREIGN)
def test_a_cordon_of_others_stays(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Cordoned(raw)
    uncordon(store, monkeypatch)
    assert store.raw == raw


@pytest.mark.parametrize("raw", [None, pack(b"run-1"), b"\0" * len(pack(b"run-1"))])
def test_our_cordon_goes(raw: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Cordoned(raw)
    uncordon(store, monkeypatch)
    assert store.raw is None


def test_one_that_was_being_written_is_ours_only_if_we_cordoned() -> None:
    torn: Any = Cordoned(pack(b"run-2")[:20])
    assert is_ours(torn, record(cordoned_by_us=True))
    assert not is_ours(torn, record())
    gone: Any = Cordoned(None)
    assert not is_ours(gone, record(cordoned_by_us=True))


def test_the_picture_tells_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = SimpleNamespace(libvirtError=OSError)
    monkeypatch.setattr(observe, "libvirt", binding)
    for raw, ours in ((pack(b"run-1"), True), (b"", False)):
        source: Any = SimpleNamespace(name="host-a", store=Cordoned(raw))
        node = Node("host-a", cordoned=True)
        observer = Observer(source, [], "boot", "")
        observer._whose_cordon(record(), Observation({"host-a": node}, {}))
        assert node.our_cordon is ours


@pytest.mark.parametrize(
    ("cordoned", "ours", "kept", "answer"),
    [
        (True, False, record(cordoned_by_us=True), True),
        (True, True, record(), False),
        (True, None, record(cordoned_by_us=True), False),
        (True, None, record(), True),
        (True, None, None, True),
        (False, None, None, False),
        (False, None, record(), False),
    ],
)
def test_by_others(cordoned: bool, ours: bool | None, kept: NodeRecord | None, answer: bool) -> None:
    assert by_others(Node("host-a", cordoned=cordoned, our_cordon=ours), kept) is answer
