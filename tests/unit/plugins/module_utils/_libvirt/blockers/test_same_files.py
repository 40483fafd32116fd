"""Is a directory of this host the very one that a target has? On real directories."""

from __future__ import annotations

import importlib.util
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import same_files
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.same_files import (
    LocalFiles,
    Shown,
    same_file,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import facts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import (
    LOOK_POOL,
    HostFacts,
    PoolFacts,
)

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
assert _spec is not None and _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

NO_VOLUME = 50
LATER = LocalFiles(now=lambda: time.time() + 1000.0)  # what is there rests
JUST_NOW = LocalFiles()


class Target:
    """A host whose libvirt sees `root` where this one has its directory. Its own pool, or none."""

    def __init__(self, folder: Path, root: Path, pool: bool = True) -> None:
        self.folder, self.root, self.calls = folder, root, list[str]()
        pools = {"images": PoolFacts("images", "dir", str(folder))} if pool else {}
        self.facts = HostFacts(hostname="host-b", pools=pools)

    def storagePoolLookupByName(self, _name: str) -> Target:  # noqa: N802 - libvirt's name
        return self

    def storagePoolCreateXML(self, xml: str, _flags: int) -> Target:  # noqa: N802
        assert f"<path>{self.folder}</path>" in xml
        self.calls.append("pool made")
        return self

    def destroy(self) -> None:
        self.calls.append("pool ended")

    def refresh(self, _flags: int) -> None:
        self.calls.append("refreshed")

    def storageVolLookupByName(self, name: str) -> Any:  # noqa: N802
        path = self.root / name
        if not path.exists():
            raise fakes.LibvirtError("no storage vol", NO_VOLUME)
        found = path.stat()
        seconds, rest = divmod(found.st_ctime_ns, 10**9)
        xml = (
            f"<volume><physical unit='bytes'>{found.st_size}</physical><target><timestamps>"
            f"<ctime>{seconds}.{rest:09d}</ctime></timestamps></target></volume>"
        )
        return SimpleNamespace(XMLDesc=lambda _flags: xml)

    def createXML(self, xml: str, _flags: int) -> Any:  # noqa: N802
        found = re.search("<name>(.*)</name>", xml)
        assert found is not None
        path = self.root / found[1]
        path.touch(exist_ok=False)
        self.calls.append("token made")
        return SimpleNamespace(delete=lambda _flags: path.unlink())


@pytest.fixture(autouse=True)
def binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_files, "libvirt", fakes.Binding())


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "share"
    folder.mkdir()
    (folder / "web.raw").write_bytes(b"web" * 100)
    return folder


@pytest.fixture
def other(tmp_path: Path, here: Path) -> Path:
    """A copy, with all that can be copied."""
    folder = tmp_path / "other"
    folder.mkdir()
    time.sleep(0.01)  # the clock of the file system's times is a coarse one
    (folder / "web.raw").write_bytes(b"web" * 100)
    found = (here / "web.raw").stat()
    os.utime(folder / "web.raw", ns=(found.st_atime_ns, found.st_mtime_ns))
    return folder


def ask(target: Target, *, acts: bool, local: LocalFiles = LATER, name: str = "web.raw") -> Shown:
    path = str(target.folder / name)
    return same_file(target, target.facts, path, {}, acts=acts, local=local)


@pytest.mark.parametrize("acts", [False, True])
def test_a_file_that_rests_shows_it_and_nothing_is_made(here: Path, acts: bool) -> None:
    target = Target(here, here)
    assert ask(target, acts=acts).same is True
    assert target.calls == ["refreshed"]


@pytest.mark.parametrize("acts", [False, True])
def test_a_copy_is_not_the_same_however_alike(here: Path, other: Path, acts: bool) -> None:
    shown = ask(Target(here, other), acts=acts)
    assert shown.same is False
    ctime = (here / "web.raw").stat().st_ctime_ns
    assert f"{ctime // 10**9}.{ctime % 10**9:09d}" in shown.why
    assert f"{here} is another directory on host-b" in shown.why
    assert sorted(path.name for path in other.iterdir()) == ["web.raw"]


def test_a_file_that_is_not_there_shows_that_it_is_another_one(here: Path, tmp_path: Path) -> None:
    shown = ask(Target(here, tmp_path), acts=False)
    assert shown.same is False
    assert "web.raw" in shown.why and "is not there" in shown.why


def test_where_nothing_rests_a_token_shows_it(here: Path) -> None:
    target = Target(here, here)
    assert ask(target, acts=True, local=JUST_NOW).same is True
    assert target.calls == ["refreshed", "token made"]
    assert [path.name for path in here.iterdir()] == ["web.raw"]


def test_a_token_that_is_not_seen_here_shows_that_it_is_another_one(here: Path, other: Path) -> None:
    shown = ask(Target(here, other), acts=True, local=JUST_NOW)
    assert shown.same is False
    assert "a file created there is not visible here" in shown.why
    assert [path.name for path in other.iterdir()] == ["web.raw"]


def test_beforehand_what_only_a_token_shows_is_not_known(here: Path) -> None:
    target = Target(here, here)
    assert ask(target, acts=False, local=JUST_NOW).same is None
    assert target.calls == ["refreshed"]


def test_without_a_pool_there_one_is_made_for_the_look_and_ends(here: Path) -> None:
    target = Target(here, here, pool=False)
    assert ask(target, acts=False).same is None
    assert target.calls == []
    assert ask(target, acts=True).same is True
    assert target.calls == ["pool made", "pool ended"]


def test_the_same_by_a_link_is_the_same(here: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(here)
    target = Target(here, here)
    path = str(link / "web.raw")
    assert same_file(target, target.facts, path, {}, acts=False, local=LATER).same is True


def test_what_libvirt_refuses_there_is_not_shown(here: Path, monkeypatch) -> None:
    target = Target(here, here, pool=False)

    def refuse(_xml: str, _flags: int) -> Any:
        raise fakes.LibvirtError("access denied")

    monkeypatch.setattr(target, "storagePoolCreateXML", refuse)
    shown = ask(target, acts=True)
    assert shown.same is False
    assert "access denied" in shown.why


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "was left by one that was killed"])
@pytest.mark.parametrize("listed", [True, False])
def test_the_look_of_another_drain_is_no_word_of_the_target(
    here: Path, monkeypatch: pytest.MonkeyPatch, ends: bool, listed: bool
) -> None:
    """libvirt has one pool for a directory. `listed`: the target was read just then."""
    target, others, calls = Target(here, here, pool=False), [f"{LOOK_POOL}1f"], list[str]()
    if listed:
        pool = SimpleNamespace(XMLDesc=lambda _flags: f"<pool type='dir'><name>{others[0]}</name></pool>")
        assert not facts._pools([pool])
    binding = fakes.Binding()
    monkeypatch.setattr(same_files, "libvirt", binding)

    def ends_now(_seconds: float) -> None:
        calls.append("waited")
        if ends and len(calls) == 2:
            others.clear()

    def end_theirs() -> None:
        others.clear()
        calls.append("theirs ended")

    def create(xml: str, flags: int) -> Any:
        if others:
            text = f"operation failed: Storage source conflict with pool: '{others[0]}'"
            raise fakes.LibvirtError(text, binding.VIR_ERR_OPERATION_FAILED)
        return Target.storagePoolCreateXML(target, xml, flags)

    def there(_flags: int) -> list[Any]:
        xml = f"<pool type='dir'><target><path>{here}</path></target></pool>"
        theirs = {"storageVolLookupByName": target.storageVolLookupByName, "destroy": end_theirs}
        theirs["refresh"] = target.refresh
        return [SimpleNamespace(name=lambda name=name: name, XMLDesc=lambda _flags: xml, **theirs) for name in others]

    monkeypatch.setattr(same_files, "_pause", ends_now, raising=False)
    monkeypatch.setattr(target, "storagePoolCreateXML", create)
    monkeypatch.setattr(target, "listAllStoragePools", there, raising=False)
    assert ask(target, acts=True) == Shown(True)
    assert target.calls == (["pool made", "pool ended"] if ends else ["refreshed"])
    assert ("theirs ended" in calls) is not ends


def test_each_directory_is_looked_at_once(here: Path) -> None:
    target, known = Target(here, here), dict[str, Shown]()
    for name in ("web.raw", "db.raw"):
        path = str(here / name)
        assert same_file(target, target.facts, path, known, acts=True, local=LATER).same
    assert target.calls == ["refreshed"]
