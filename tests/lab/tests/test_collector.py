"""The evidence itself, without a lab: nothing that a guest wrote is missed, nor a QEMU process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.collector import Census, Tail
from lab.guest import GuestSpec, domain_xml
from lab.names import Paths
from lab.procs import wait_for

NOW = 10**12  # of a round
# Of this process alone: the census sees all of the machine.
GUEST = f"web{os.getpid()}"


def texts(records: list[bytes]) -> list[str]:
    return [line.split(b" ", 5)[5].decode().rstrip("\n") for line in records]


@pytest.fixture
def serial(tmp_path: Path) -> Path:
    return tmp_path / "web.log"


def test_whole_lines_as_they_come_and_a_piece_after_a_while(serial: Path) -> None:
    tail = Tail(serial, "host-a", 0)
    assert tail.read(NOW) == []
    serial.write_bytes(b"T aa 1 ;\nT aa 2")
    assert texts(tail.read(NOW)) == ["=T aa 1 ;"]
    assert tail.unfinished(NOW) == []
    assert texts(tail.unfinished(NOW + 10**9)) == ["+T aa 2"]
    with serial.open("ab") as stream:
        stream.write(b" ;\n")
    assert texts(tail.read(NOW)) == ["= ;"]


def test_what_is_read_in_one_round_has_one_stamp(serial: Path) -> None:
    """However long the collector is kept from the second file."""
    there = serial.with_name("other.log")
    for path in (serial, there):
        path.write_bytes(b"T aa 1 ;\n")
    records = [line for path in (serial, there) for line in Tail(path, "host-a", 0).read(NOW)]
    assert [int(line.split(b" ", 1)[0]) for line in records] == [NOW, NOW]


def test_a_log_that_was_cut_is_read_from_its_start(serial: Path) -> None:
    tail = Tail(serial, "host-a", 0)
    serial.write_bytes(b"T aa 1 ;\nT aa 2 ;\n")
    assert len(tail.read(NOW)) == 2
    serial.write_bytes(b"T bb 1 ;\n")
    assert texts(tail.read(NOW)) == ["=T bb 1 ;"]


def test_a_log_that_was_replaced_is_read_from_its_start(serial: Path) -> None:
    tail = Tail(serial, "host-a", 0)
    serial.write_bytes(b"T aa 1 ;\n")
    assert len(tail.read(NOW)) == 1
    other = serial.with_suffix(".new")
    other.write_bytes(b"T bb 1 ;\nT bb 2 ;\n")
    other.replace(serial)
    assert len(tail.read(NOW)) == 2


def test_no_qemu_cuts_the_log_that_another_one_writes() -> None:
    xml = domain_xml(GuestSpec("web"), 1)
    assert xml.count("<log file=") == xml.count("append='on'") == 2


def test_the_census_sees_a_process_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {os.readlink("/proc/self/ns/net"): "host-a"}
    monkeypatch.setattr(Census, "_networks", lambda _self: here)
    census = Census(Paths(tmp_path))
    # What a QEMU process looks like from outside: its name and its guest's.
    words = ["/usr/bin/qemu-system-x86_64", "-c", "input()", "-name", f"guest={GUEST},debug-threads=on"]
    process = subprocess.Popen(words, executable=sys.executable, stdin=subprocess.PIPE)
    try:
        # Popen may return before the kernel shows the new command line.
        seen: list[str] = []
        assert wait_for(lambda: bool(seen.extend(mine(census)) or seen))
        assert seen == [f"{GUEST} Q there"]
        assert mine(census) == []
    finally:
        process.kill()
        process.wait()
    assert mine(census) == [f"{GUEST} Q gone"]


def mine(census: Census) -> list[str]:
    """What the census has to say of GUEST on host-a."""
    lines = [line.decode().split() for line in census.changes()]
    return [
        f"{vm} {stream} {text[1:]}"
        for _stamp, host, vm, stream, _offset, text in lines
        if (host, vm) == ("host-a", GUEST)
    ]
