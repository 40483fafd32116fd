"""The guest's own look at its memory (guest/init.c), compiled and run here, without a lab."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import image

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="the guest's program needs gcc on Linux, x86_64",
)

# Each word is read once in 32 passes over 256 pages, 64 of them a tick: in 128 ticks.
PROGRAM = f"""
#define main guest_main
#include "{image.SOURCE}"
#undef main
int main(int count, char **words)
{{
    long flip = atol(words[3]);
    tty = 1;
    seed = 12345;
    memory_start(atol(words[1]), atol(words[2]));
    for (seq = 1; seq <= 400; seq++) {{
        if (seq == flip)
            memory_damage();
        memory_dirty(16);
        memory_verify();
    }}
    dprintf(1, "passes=%zu errors=%lu\\n", fill_passes + region_pass, memory_errors);
    return count != 4;
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guest")
    source, out = folder / "memory.c", folder / "memory"
    source.write_text(PROGRAM)
    words = ["-O2", "-Wall", "-Wno-unused-function", "-pthread"]
    subprocess.run(["gcc", *words, "-o", out, source], check=True, timeout=60)
    return out


def _life(program: Path, *words: int) -> list[str]:
    """What it says in 400 ticks. `words`: MiB only read, MiB rewritten, the tick of the damage."""
    done = subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def test_memory_that_is_whole_is_called_whole(program: Path) -> None:
    assert _life(program, 1, 1, 0) == ["passes=125 errors=0"]


@pytest.mark.parametrize(("fill", "region", "page"), [(1, 0, "fill-page-128"), (0, 1, "region-page-128")])
def test_one_wrong_word_is_found(program: Path, fill: int, region: int, page: str) -> None:
    said = _life(program, fill, region, 200)
    assert f" err {page} 1" in said[0]
    assert said[-1].split("errors=")[1] != "0"
