"""Run all cases, or those that are named: a line for each, and how many were right."""

from __future__ import annotations

import importlib
import re
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
PLATFORMS = ("libvirt", "kubevirt", "by_others")
_CASE = re.compile(r"[lka](\d+)_\w+")


def cases_of(module: ModuleType, wanted: list[str]) -> list[str]:
    """Names of its cases, in the order of their numbers; of those that are wanted, if any are."""
    names = [name for name in vars(module) if _CASE.fullmatch(name)]
    chosen = [name for name in names if not wanted or name in wanted or name.partition("_")[0] in wanted]
    return sorted(chosen, key=lambda name: (name[0], int(name[1:].partition("_")[0])))


def _wrong(case: Callable[..., str | None], given: tuple[Any, ...]) -> str | None:
    """What is wrong with it. A case that fails by itself is not right either."""
    try:
        return case(*given)
    except Exception as exc:
        traceback.print_exc()
        return f"{type(exc).__name__}: {exc}"


def main(wanted: list[str]) -> int:
    count = right = 0
    for platform in PLATFORMS:
        if not (HERE / f"{platform}.py").exists():
            continue
        module = importlib.import_module(f"cases.{platform}")
        names = cases_of(module, wanted)
        if not names:
            continue
        with getattr(module, "bed", nullcontext)() as bed:
            given = () if bed is None else (bed,)
            for name in names:
                began = time.monotonic()
                wrong = _wrong(getattr(module, name), given)
                count, right = count + 1, right + (wrong is None)
                print(f"{name:28} {'right' if wrong is None else 'WRONG: ' + wrong}", end="")
                print(f" ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"cases: n={count} right={right}")
    return 0 if count and count == right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
