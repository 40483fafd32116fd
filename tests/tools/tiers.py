"""make tiers: for each group of tests, how many `make test` runs and how many it leaves out.

With --files a line for each file that has some of both, or none that `make test` runs.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Where a test belongs, by the first of these that fits.
GROUPS = ("tests/unit", "tests/kubesim", "tests/kubevirt", "tests/lab", "tests/integration")


class Counting:
    """A plugin of pytest that counts what was collected."""

    def __init__(self) -> None:
        self.quick: Counter[str] = Counter()
        self.full: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            tier = self.full if item.get_closest_marker("full") else self.quick
            path = str(item.path.relative_to(ROOT))
            tier[path] += 1
            lab = " (lab)" if item.get_closest_marker("lab") else ""
            tier[next(g for g in GROUPS if path.startswith(g + "/")) + lab] += 1


def main() -> int:
    counting = Counting()
    listing = io.StringIO()
    with contextlib.redirect_stdout(listing):
        code = pytest.main(["--collect-only", "-q", f"--rootdir={ROOT}"], plugins=[counting])
    if code:
        print(listing.getvalue())
    names = sorted({*counting.quick, *counting.full})
    for name in names:
        quick, full = counting.quick[name], counting.full[name]
        if not name.endswith(".py") or ("--files" in sys.argv and full):
            print(f"  {name:<60} quick {quick:5}  full only {full:5}")
    files = [name for name in names if name.endswith(".py")]
    print(
        f"tiers: quick={sum(counting.quick[name] for name in files)} "
        f"full_only={sum(counting.full[name] for name in files)}"
    )
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
