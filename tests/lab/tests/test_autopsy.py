"""What is told of a lab after a failure, without a lab."""

from __future__ import annotations

import os
from pathlib import Path

from lab import autopsy


def test_the_ends_of_what_was_written_since_and_nothing_older(tmp_path: Path) -> None:
    logs = tmp_path / "one" / "logs"
    texts = {
        "play-x/output": "TASK [drain]\nfatal: blocked\n",
        "host-a/virtops-holder.log": "over\n",
        "host-a/libvirt/libvirtd.log": "error : virArpTableGet:88\nend of file\n",
        "host-a/libvirt/qemu/web.log": "".join(f"line {number}\n" for number in range(100)),
        "host-b/libvirt/libvirtd.log": "of another test\n",
    }
    for name, text in texts.items():
        (logs / name).parent.mkdir(parents=True, exist_ok=True)
        (logs / name).write_text(text)
    os.utime(logs / "host-b/libvirt/libvirtd.log", (5, 5))
    told = autopsy.tell(tmp_path, 10.0)
    assert "load " in told.splitlines()[0]
    order = ["fatal: blocked", "\nover", "end of file", "web.log: the last of 100", "line 99"]
    assert sorted(order, key=told.index) == order
    assert "lab one is not up" in told
    for left_out in ("virArpTableGet", "line 50\n", "of another test"):
        assert left_out not in told
