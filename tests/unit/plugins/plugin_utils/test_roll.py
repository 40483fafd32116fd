"""Which playbook this is, and whether its other workers do anything, with and without /proc."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from ansible import constants

from ansible_collections.virtops.maintenance.plugins.action import maintenance_roll
from ansible_collections.virtops.maintenance.plugins.action.maintenance_roll import ActionModule
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives
from ansible_collections.virtops.maintenance.plugins.plugin_utils import _controller, _roll


@pytest.fixture
def no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A controller that is not Linux."""
    for module in (_roll, lives):
        monkeypatch.setattr(module, "PROC", tmp_path)


def test_a_playbook_is_known_as_long_as_it_lives() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    begun = lives.started(process.pid)
    assert begun and lives.started(process.pid) == begun
    process.kill()
    process.wait()
    assert lives.started(process.pid) == ""


@pytest.mark.usefixtures("no_proc")
def test_without_proc_a_playbook_that_lives_is_no_dead_one() -> None:
    """The process beside it would end the roll at once."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert lives.started(process.pid)
    process.kill()
    process.wait()
    assert lives.started(process.pid) == ""
    assert _controller.own_run() == _controller.own_run()


@pytest.mark.parametrize(("sent", "cancelled"), [("", False), ("SIGINT", True), ("SIGTERM", True), ("SIGUSR1", False)])
def test_a_playbook_that_was_cancelled_is_dead_though_it_hangs(sent: str, cancelled: bool) -> None:
    """Its roll would look alive for as long as nobody ends it. It stops to catch the signal, as ansible-core does."""
    program = (
        "import signal, sys\n"
        "def caught(number, frame): signal.signal(number, signal.SIG_DFL)\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, caught)\n"
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "print('ready', flush=True)\n"
        "if sys.argv[1]: signal.raise_signal(signal.Signals[sys.argv[1]])\n"
        "print('hangs', flush=True)\n"
        "input()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    before = _roll._listens_to(process.pid)
    process.communicate(b"\n")
    process = subprocess.Popen([sys.executable, "-c", program, sent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert [process.stdout.readline() for _line in range(2)] == [b"ready\n", b"hangs\n"]
    assert _roll._is_cancelled(process.pid, before) is cancelled
    process.communicate(b"\n")


@pytest.mark.usefixtures("no_proc")
def test_without_proc_a_playbook_is_not_taken_for_cancelled() -> None:
    assert not _roll._is_cancelled(os.getpid(), _roll._listens_to(os.getpid()))


@pytest.mark.usefixtures("no_proc")
def test_without_proc_others_are_taken_to_work() -> None:
    """Else a host at work would be called one that was left."""
    assert _roll.others_work()


def test_a_worker_that_waits_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process stands for the playbook: its children are the workers."""
    program = (
        "import os, sys\n"
        "from ansible_collections.virtops.maintenance.plugins.plugin_utils import _roll\n"
        "_roll.waits() if sys.argv[1] == 'waits' else None\n"
        "print('ready', flush=True)\n"
        "print(_roll.others_work() if input() else '', flush=True)\n"
    )

    def worker(how: str) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [sys.executable, "-c", program, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        return started

    def asked(one: subprocess.Popen[str]) -> str:
        return one.communicate("go\n")[0].strip()

    first, second = worker("waits"), worker("waits")
    assert asked(first) == "False"
    second.communicate("\n")
    first, second = worker("waits"), worker("works")
    assert asked(first) == "True"
    second.communicate("\n")


@pytest.mark.parametrize("waits", [{"since": 5.0}, {"rests": 5.0}, {}])
def test_who_waits_for_no_worker_of_its_playbook_calls_none_left(
    monkeypatch: pytest.MonkeyPatch, waits: dict[str, float]
) -> None:
    """Two hosts wait for a drain of others. When that is over one of them begins, and in the slice of the other one it
    was called left, and failed."""
    action, asked, hours = ActionModule.__new__(ActionModule), [], itertools.count(1.0, 3600.0)
    action._state, action._report = "admitted", SimpleNamespace(roll=lambda _result: None)
    monkeypatch.setattr(maintenance_roll, "others_work", lambda: False)
    monkeypatch.setattr(maintenance_roll.time, "monotonic", lambda: next(hours))

    def call(args: dict[str, Any]) -> dict[str, Any]:
        asked.append(args["watch"].get("alone_for", 0.0))
        ended = "final" if len(asked) == 3 else "out_of_time"
        return {"ended": ended, "watch": {"since": None, "rests": None, **waits}}

    action._until_final(call, {}, 0.0, False)
    assert (asked[-1] > 0) is not bool(waits)


def test_each_call_has_the_time_of_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """By which the window of a roll ends; of slices that follow each other, too."""
    action, asked = ActionModule.__new__(ActionModule), []
    action._state, action._reach, action._module = "admitted", {}, "virt_roll"
    monkeypatch.setattr(action, "_execute", lambda _name, args: asked.append(args["request"]["now"]) or {})
    for at in (0.0, 3600.0):
        monkeypatch.setattr(maintenance_roll.time, "time", lambda at=at: at)
        action._once({"roll_host": "a", "now": ""})
    assert asked == ["1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"]


def test_a_wait_is_told_once_and_the_next_host_of_all_tells_it_again() -> None:
    """A roll would be silent for hours while the user's tasks run on another host."""
    wait = {"message": "b waits: a atWork", "waits_for": ["a"]}
    for is_next in (True, False):
        said = _roll.Said("admitted")
        told = {at: said.lines({**wait, "is_next": is_next}, float(at)) for at in range(0, 1300, 10)}
        assert [at for at, lines in told.items() if lines] == ([0, 600, 1200] if is_next else [0])
    assert [line[9:] for line in told[0]] == ["b waits: a atWork"]


def test_for_whom_else_it_waits_is_told_but_not_every_second() -> None:
    said = _roll.Said("admitted")
    told = [said.lines({"message": f"b waits for {n}", "waits_for": [n]}, 4.0 * at) for at, n in enumerate("acdef")]
    assert [bool(lines) for lines in told] == [True, False, False, False, True]


def test_of_what_is_only_noted_nothing_is_told_but_that_it_waits() -> None:
    """A quorum host waits with its reboot for another one, for an hour at most: that was silent too."""
    said = _roll.Said("noted")
    assert said.lines({"message": "a is done", "ended": "final"}, 0.0) == []
    wait = {"message": "a waits to reboot until b has rebooted", "waits_for": ["b"], "ended": "out_of_time"}
    told = {at: said.lines(wait, float(at)) for at in range(0, 1300, 10)}
    assert [at for at, lines in told.items() if lines] == [0, 600, 1200]
    assert [line[9:] for line in told[0]] == ["a waits to reboot until b has rebooted"]


@pytest.mark.parametrize("listens", [True, False])
def test_a_call_under_way_is_told_to_end_and_cleans_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listens: bool
) -> None:
    """When the playbook has ended. It was killed, with what it had written: a payload, a private key. One that does not
    listen is killed a little later."""
    monkeypatch.setattr(_roll, "_ALIVE", 0.05)
    monkeypatch.setattr(_roll, "_CLEANS_UP", 600.0 if listens else 0.1)
    key = tmp_path / "key"

    def call(_args: object) -> dict[str, str]:
        if not listens:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        key.write_text("secret")
        try:
            while True:
                time.sleep(60)
        finally:
            key.unlink()

    assert _roll._renew_once(call, {}, lambda: not key.exists()) == 0
    assert key.exists() is not listens


def test_a_call_that_hangs_is_ended_and_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As long as the playbook lives the record was renewed no more."""
    monkeypatch.setattr(_roll, "_HANGS", 0.1)
    monkeypatch.setattr(_roll, "_CLEANS_UP", 0.1)
    looks = iter(range(60))
    assert _roll._renew_once(lambda _args: time.sleep(600) or {}, {}, lambda: next(looks, None) is not None) == 0
    assert next(looks, None) is not None


class Session:
    """With a host, of the process that opened it. Its end is told to the host."""

    told: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.of = os.getpid()

    def __del__(self) -> None:
        self.told.append(self.of)


SSH_CONNECTION_CACHE: dict[str, Session] = {}


class InTheProcess:
    """A connection as paramiko's and libssh's."""

    _connected = False

    def __init__(self) -> None:
        self._shell = SimpleNamespace(tmpdir="/tmp/theirs")
        self.run()

    def run(self) -> int:
        if not self._connected:
            self.session = SSH_CONNECTION_CACHE.setdefault("host-a", Session())
            self._connected = True
        return self.session.of


def test_the_process_beside_a_roll_has_its_own_session_with_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over that of the worker it waited for an hour for an answer that came there, and the worker lost it."""
    action = ActionModule.__new__(ActionModule)
    action._connection = connection = InTheProcess()
    monkeypatch.setattr(ActionModule, "cleanup", lambda _self, **_words: None)
    pid = os.fork()
    if not pid:
        own = action._alone(lambda _args: {"of": connection.run()})({})["of"] == os.getpid()
        os._exit(0 if own and not Session.told else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert connection.run() == os.getpid()


def test_what_it_leaves_is_in_a_directory_that_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With Ansible's own, if ansible-playbook was killed. While that lives it needs it."""
    own = tmp_path / "ansible-local"
    for lives_on in (True, False):
        own.mkdir(exist_ok=True)
        monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(own))
        monkeypatch.setenv("TMPDIR", "")
        with _roll._own_files(lambda lives_on=lives_on: lives_on):
            folder = Path(os.environ["TMPDIR"])
            assert str(folder) == constants.DEFAULT_LOCAL_TMP
            (folder / "payload.zip").touch()
        assert not folder.exists() and own.exists() is lives_on
