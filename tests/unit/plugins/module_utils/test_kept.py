"""Bytecode that a host keeps between calls: what is run is whole, of this version, and this user's alone."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils import _kept

PACKAGE = "ansible_collections.virtops.maintenance.plugins.module_utils"
PARAMS = json.dumps({"ANSIBLE_MODULE_ARGS": {}}).encode()


class Host:
    """Its directory for what lasts until a reboot, and payloads that come to it."""

    def __init__(self, tmp: Path) -> None:
        self.base = tmp / "run"
        self.base.mkdir(mode=0o755)
        self.folder = self.base / "virtops-maintenance"
        self._tmp = tmp

    def payload(self, says: str) -> str:
        path = self._tmp / f"payload-{says}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr(f"{PACKAGE.replace('.', '/')}/_probe.py", f"SAYS = {says!r}\n")
            made.writestr("sitecustomize.py", str(path))
        return str(path)

    def call(self, says: str = "one") -> str:
        """What the module says that is imported; '': it did not come from what is kept."""
        found = _kept.use(self.payload(says), PARAMS)
        package = sys.modules[PACKAGE]
        if found.startswith("no bytecode"):
            return ""
        importlib.invalidate_caches()
        sys.modules.pop(f"{PACKAGE}._probe", None)
        probe = importlib.import_module(f"{PACKAGE}._probe")
        package.__path__.pop(0)
        assert str(probe.__file__).startswith(found)
        return str(probe.SAYS)

    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(tmp_path)
    monkeypatch.setattr(_kept, "_base", lambda _params: str(made.base))
    path = list(sys.modules[PACKAGE].__path__)
    yield made
    sys.modules[PACKAGE].__path__[:] = path
    sys.modules.pop(f"{PACKAGE}._probe", None)


def test_the_second_call_compiles_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.call() == "one"
    (kept,) = host.files()
    assert kept.stat().st_mode & 0o777 == 0o600 and host.folder.stat().st_mode & 0o777 == 0o700

    def compiled(*_args: object) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(_kept, "_compiled", compiled)
    assert host.call() == "one"


@pytest.mark.parametrize("how", ["touched", "half", "empty"])
def test_what_is_not_whole_is_replaced_and_not_run(host: Host, how: str) -> None:
    host.call()
    (kept,) = host.files()
    raw = bytearray(kept.read_bytes())
    raw[len(raw) // 2] ^= 1
    kept.write_bytes({"touched": bytes(raw), "half": bytes(raw[: len(raw) // 2]), "empty": b""}[how])
    assert host.call() == "one"
    (again,) = host.files()
    assert again.name == _kept._named(again.name.partition(".")[0], again.read_bytes())


def test_after_an_update_the_old_one_is_not_run_and_goes_when_nobody_uses_it(host: Host) -> None:
    host.call("one")
    assert host.call("two") == "two" and len(host.files()) == 2
    assert host.call("one") == "one", "two controllers with two versions"
    for kept in host.files():
        os.utime(kept, (time.time() - 2 * 86400,) * 2)
    assert host.call("three") == "three" and len(host.files()) == 1


def test_the_file_of_a_call_that_compiled_at_the_same_time_stays(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytecode of the same sources may differ in a bit, and the other call still imports from its own."""
    host.call()
    (kept,) = host.files()
    monkeypatch.setattr(_kept, "_kept", lambda _folder, _key: "")
    twin = kept.with_name(_kept._named(kept.name.partition(".")[0], kept.read_bytes() + b"\0"))
    twin.write_bytes(kept.read_bytes() + b"\0")
    host.call()
    assert twin in host.files()


@pytest.mark.parametrize("what", ["open folder", "link", "open base"])
def test_where_others_can_write_nothing_is_run(host: Host, what: str) -> None:
    if what == "link":
        (host.base / "theirs").mkdir(mode=0o700)
        host.folder.symlink_to(host.base / "theirs")
    else:
        host.call()
        (host.folder if what == "open folder" else host.base).chmod(0o777)
    assert host.call() == ""


def test_a_full_disk_leaves_nothing_half(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    assert host.call() == "" and host.files() == []
    monkeypatch.undo()


def test_the_user_s_own_directory_for_modules_where_it_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    given = json.dumps({"ANSIBLE_MODULE_ARGS": {"_ansible_remote_tmp": "~/x"}}).encode()
    assert (_kept._base(given), _kept._base(PARAMS)) == (
        os.path.expanduser("~/x"),
        os.path.expanduser("~/.ansible/tmp"),
    )


def test_a_module_that_ansible_runs_keeps_its_bytecode(tmp_path: Path) -> None:
    """As a playbook runs it; what the module itself answers is of no matter here."""
    env = {**os.environ, "ANSIBLE_REMOTE_TMP": str(tmp_path), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
    ask = ["localhost", "-m", "virtops.maintenance.virt_migration_info", "-a", "node=x uri=test:///none name=vm"]
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "adhoc", *ask], env=env, capture_output=True, text=True, check=False
    )
    folder = (Path("/run") if os.geteuid() == 0 else tmp_path) / "virtops-maintenance"
    mine, name = Path(_kept.__file__).read_bytes(), f"{PACKAGE.replace('.', '/')}/_kept.py"
    kept = [path for path in folder.glob("*.zip") if zipfile.ZipFile(path).read(name) == mine]
    assert kept, done.stdout + done.stderr
