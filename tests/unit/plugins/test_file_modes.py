"""Who can read what is written on hosts and on the controller: the table of docs/security.md, row by row."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import same_files
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import daemon, disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import slice_lock
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import guard, nvram
from ansible_collections.virtops.maintenance.plugins.plugin_utils import _plan, _report, _roll


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    """Nothing is closed by luck."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_what_is_in_run_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("by-slice", "by-holder"):
        monkeypatch.setattr(slice_lock, "RUN_DIR", str(tmp_path / name))
        if name == "by-slice":
            with slice_lock.one_at_a_time():
                pass
        else:
            os.close(daemon.take_lock(str(tmp_path / name)) or 0)
        assert mode(tmp_path / name) == 0o700
    daemon.listen(str(tmp_path / "by-holder")).close()
    assert {mode(path) for path in (tmp_path / "by-holder").iterdir()} == {0o600}


def test_the_guard_is_run_by_all_and_its_settings_are_read_by_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "HOOK", str(tmp_path / "hooks" / "guard"))
    monkeypatch.setattr(guard, "SETTINGS", str(tmp_path / "guard.json"))
    assert guard.install("host-a", [("host-b", "qemu+tls://host-b/system")], wanted=True, acts=True)
    assert (mode(guard.HOOK), mode(guard.SETTINGS)) == (0o755, 0o600)


def test_volumes_beside_those_of_vms_are_for_root() -> None:
    for xml in (nvram._VOLUME, same_files._volume_xml("token")):
        assert "<permissions><mode>0600</mode></permissions>" in xml


def test_a_copied_disk_is_as_libvirt_makes_it() -> None:
    disk = SimpleNamespace(path="/images/a.img", capacity=1, format="raw")
    assert "permissions" not in disks._volume_xml(disk)  # type: ignore[arg-type]


def test_temporary_files_of_a_roll_are_for_their_owner_alone() -> None:
    with _roll._own_files(lambda: True):
        folder = _roll.constants.DEFAULT_LOCAL_TMP
        assert "virtops-roll-" in folder and mode(folder) == 0o700


def test_what_is_left_on_the_controller_is_as_the_umask_says(tmp_path: Path) -> None:
    os.umask(0o027)
    _plan.write({}, str(tmp_path / "plan"), check=False)
    _report._replace(tmp_path / "report", "text")
    assert mode(tmp_path / "plan") == mode(tmp_path / "report") == 0o640


def test_what_came_of_a_recovery_is_for_its_owner_alone(tmp_path: Path) -> None:
    _report.Report(str(tmp_path / "new"), "").recovery("host-a", {})
    assert mode(tmp_path / "new" / "recovery-host-a.json") == 0o600
