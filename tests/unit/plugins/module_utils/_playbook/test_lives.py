"""Does the playbook live for which something is done?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import PlaybookEnded, RollTakenOver
from ansible_collections.virtops.maintenance.plugins.module_utils._playbook import lives


@pytest.fixture
def playbook() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_as_long_as_it_lives_there_is_nothing_to_say(playbook: subprocess.Popen[bytes]) -> None:
    lives.check(lives.told(playbook.pid))
    lives.check("")  # nobody said for whom it works: the module was called by itself


def test_of_one_that_was_killed_nothing_more_is_done(playbook: subprocess.Popen[bytes]) -> None:
    """Not of one either that nobody has waited for yet, nor where its number is another's by now."""
    told = lives.told(playbook.pid)
    playbook.kill()
    os.waitid(os.P_PID, playbook.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(PlaybookEnded, match=f"process {playbook.pid}. ended"):
        lives.check(told)
    playbook.wait()
    with pytest.raises(RollTakenOver):  # as one whose roll is another's, in all that looks for that
        lives.check(told)
    pid, begun, where = lives.told(os.getpid()).split(" ")
    with pytest.raises(PlaybookEnded):
        lives.check(f"{pid} {int(begun) - 1} {where}")


def test_a_lock_is_nobodys_once_both_have_ended_that_had_it(playbook: subprocess.Popen[bytes]) -> None:
    told = lives.told(playbook.pid)
    pid, begun, where = lives.told(os.getpid()).split(" ")
    ended = f"{pid} {int(begun) - 1} {where}"
    assert not lives.have_ended(f"{told}, {ended}")
    playbook.kill()
    playbook.wait()
    assert lives.noted(told) == f"{told}, {lives.told(os.getpid())}"
    assert not lives.have_ended(lives.noted(told)), "its module lives"
    assert lives.have_ended(f"{told}, {ended}")
    assert not lives.have_ended(f"{told}, {pid} {begun} another/pid:[1]"), "on another machine"
    assert (lives.noted(""), lives.have_ended("")) == ("", False)


def test_what_cannot_be_seen_from_here_is_not_taken_for_dead(
    playbook: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = lives.told(playbook.pid)
    playbook.kill()
    playbook.wait()
    monkeypatch.setattr(lives, "machine", lambda: "another/pid:[1]")  # a host, or a container
    lives.check(told)
    monkeypatch.undo()
    (tmp_path / "self").mkdir()

    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(lives, "PROC", tmp_path)  # another user's, where /proc hides those
    monkeypatch.setattr(lives.os, "kill", refused)
    monkeypatch.setattr(lives, "machine", lambda: told.split(" ")[2])
    lives.check(told)


def test_a_module_that_nobody_reads_any_more_writes_nothing(playbook: subprocess.Popen[bytes]) -> None:
    """On another machine that is all that it sees of a playbook that was killed: sshd has closed its pipe."""
    program = (
        "import sys\n"
        f"from {lives.__name__} import check\n"
        "check('1 1 another/pid:[1]')\n"
        "print('writes', flush=True)\n"
        "input()\n"
        "try:\n"
        "    check('1 1 another/pid:[1]')\n"
        "except Exception as exc:\n"
        "    print(exc, file=sys.stderr)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe, env=env) as module:
        assert module.stdout.readline() == b"writes\n"
        module.stdout.close()
        module.stdin.write(b"\n")
        module.stdin.close()
        assert b"The connection that started this was closed" in module.stderr.read()


IN_C = "ctypes.CDLL(None).system(b'kill -TERM $PPID; exec sleep 20 >/dev/null')"


@pytest.mark.parametrize("waits", ["signal.raise_signal(signal.SIGTERM)", IN_C])
def test_a_module_that_is_told_to_end_cleans_up(waits: str) -> None:
    """Also one that waits in C for a host that says nothing does not wait for that."""
    program = (
        "import ctypes, signal, sys\n"
        f"from {lives.__name__} import end_cleanly\n"
        f"sys.modules['{lives.__name__}']._END_WITHIN = 0.2\n"
        "end_cleanly()\n"
        "try:\n"
        f"    {waits}\n"
        "finally:\n"
        "    print('cleaned up', flush=True)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environ, timeout=50, check=False
    )
    assert ended.returncode == 143
    assert (ended.stdout == b"cleaned up\n") is (waits != IN_C)


@pytest.mark.parametrize(
    "signalled", ["os.fork() or signal.raise_signal(signal.SIGTERM)", "signal.raise_signal(signal.SIGUSR1)"]
)
def test_a_signal_to_a_process_that_it_forked_or_another_one_ends_nothing(signalled: str) -> None:
    program = (
        "import os, signal, sys, time\n"
        f"from {lives.__name__} import end_cleanly\n"
        f"sys.modules['{lives.__name__}']._END_WITHIN = 0\n"
        "end_cleanly()\n"
        "signal.signal(signal.SIGUSR1, lambda *_all: None)\n"
        "me = os.getpid()\n"
        "try:\n"
        f"    {signalled}\n"
        "finally:\n"
        "    if os.getpid() != me:\n"
        "        os._exit(0)\n"
        "time.sleep(1)\n"
        "print('goes on', flush=True)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environ, timeout=50, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, b"goes on\n")
