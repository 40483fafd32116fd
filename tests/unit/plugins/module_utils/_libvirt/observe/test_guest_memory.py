"""What a guest has touched, from the kernel's list of QEMU's mappings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.guest_memory import touched_mib

CODE = "7f0000000000-7f0040000000 rwxp 00000000 00:00 0\nSize: 1048576 kB\nRss: 65536 kB\n"
RAM = """7f1000000000-7f1010000000 rw-p 00000000 00:00 0
Size:             262144 kB
Rss:              143361 kB
Pss:              143361 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr mr mw
"""
HUGE = RAM.replace("143361", "0").replace("Private_Hugetlb:       0", "Private_Hugetlb:  262144")


@pytest.mark.parametrize(
    ("smaps", "memory", "touched"),
    [
        (CODE + RAM, 256, 141),
        (RAM + CODE, 256, 141),
        (CODE + HUGE, 256, 256),
        (CODE + RAM, 512, 0),  # no mapping of that size: in several parts, or unplugged
        (RAM + RAM, 256, 0),  # which of them is it?
        ("", 256, 0),
    ],
)
def test_the_mapping_of_the_guest_counts(tmp_path: Path, smaps: str, memory: int, touched: int) -> None:
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "smaps").write_text(smaps, encoding="utf-8")
    (tmp_path / "web.pid").write_text("77", encoding="ascii")
    assert touched_mib("web", memory, tmp_path, tmp_path) == touched


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    assert touched_mib("web", 256, tmp_path, tmp_path) == 0
    (tmp_path / "web.pid").write_text("none", encoding="ascii")
    assert touched_mib("web", 256, tmp_path, tmp_path) == 0
