"""The guard as libvirt runs it: a process with words, the domain on standard input, and a virsh that answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.record import Recovery, Step, Taken
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import guard
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import pack

# What each peer has stands in a folder of its name; one without a folder does not answer.
VIRSH = """#!/bin/sh
peer=$3; shift 3
cd "$(dirname "$0")/$peer" 2>/dev/null || exit 1
case $1 in
pool-list) echo virtops ;;
vol-list) ls | sed 's/$/ path/' ;;
vol-download) cp "$4" "$5" ;;
esac
"""


class World:
    """A host with the guard, and what its peers have."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, peers: int) -> None:
        self.folder, self.names = folder, [f"peer{number}" for number in range(peers)]
        (folder / "virsh").write_text(VIRSH)
        (folder / "virsh").chmod(0o755)
        monkeypatch.setattr(guard, "HOOK", str(folder / "hooks" / "guard"))
        monkeypatch.setattr(guard, "SETTINGS", str(folder / "guard.json"))
        script = guard._SCRIPT.replace("/etc/libvirt/virtops-guard.json", guard.SETTINGS)
        monkeypatch.setattr(guard, "_SCRIPT", script.replace("SECONDS = 15", "SECONDS = 0.5"))
        assert guard.install("a", [(name, name) for name in self.names], wanted=True, acts=True)

    def has(self, name: str, *records: Recovery) -> None:
        (self.folder / name).mkdir()
        for number, record in enumerate(records, start=9):
            (self.folder / name / f"recovery.a.{number}").write_bytes(pack(record.to_json().encode()))

    def start(self, uuid: str, operation: str = "prepare") -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, guard.HOOK, "web", operation, "begin", "-"],
            input=f"<domain><uuid>{uuid}</uuid></domain>",
            env={"PATH": f"{self.folder}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr


def record(step: Step) -> Recovery:
    return Recovery("a", vms={"u1": Taken("u1", "web", "peer0", step, "t")})


def test_what_was_taken_over_is_not_started_and_all_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch, peers=2)
    world.has("peer0", Recovery("a"), record(Step.RUNS))  # the newest counts, by number: 9, 10
    world.has("peer1", Recovery("a"), record(Step.RUNS))
    code, said = world.start("u1")
    assert code == 1 and "web was started on peer0 while a was down" in said
    assert world.start("u2") == (0, "")
    assert world.start("u1", "release") == (0, "")


def test_one_that_may_be_starting_is_taken_and_one_that_failed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch, peers=1)
    world.has("peer0", record(Step.STARTING))
    assert world.start("u1")[0] == 1
    (tmp_path / "peer0" / "recovery.a.10").write_bytes(pack(record(Step.FAILED).to_json().encode()))
    assert world.start("u1")[0] == 0


@pytest.mark.parametrize(("peers", "answer", "code"), [(1, 0, 1), (2, 0, 1), (2, 1, 0), (3, 1, 1), (3, 2, 0)])
def test_too_few_answers_are_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peers: int, answer: int, code: int
) -> None:
    world = World(tmp_path, monkeypatch, peers)
    for name in world.names[:answer]:
        world.has(name)
    refused, said = world.start("u1")
    assert refused == code
    assert ("Start it when they answer (virsh start web)" in said) == bool(code)


def test_a_peer_that_was_away_when_it_was_over_has_not_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch, peers=3)
    world.has("peer0", record(Step.RUNS))
    for name in ("peer1", "peer2"):
        world.has(name, Recovery("a"), Recovery("a"))
    assert [world.start("u1")[0] for _again in range(5)] == [0] * 5


def test_a_torn_record_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch, peers=1)
    world.has("peer0")
    (tmp_path / "peer0" / "recovery.a.1").write_bytes(b"virtops1 900 ")
    assert world.start("u1")[0] == 1


def test_it_is_installed_once_and_removed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch, peers=2)
    peers = [(name, name) for name in world.names]
    assert guard.installed("a") and not guard.installed("b")
    assert not guard.install("a", peers, wanted=True, acts=True)
    assert guard.install("a", [*peers, ("new", "new")], wanted=None, acts=True)
    assert "new" in json.loads(Path(guard.SETTINGS).read_text())["peers"]
    assert guard.install("a", peers, wanted=False, acts=False) and guard.installed("a")
    assert guard.install("a", peers, wanted=False, acts=True) and not guard.installed("a")
    assert not Path(guard.HOOK).exists() and not Path(guard.SETTINGS).exists()
    assert not guard.install("a", peers, wanted=None, acts=True)
