# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plant named faults one at a time and see which test catches each.

A fault is a text in a file and what it is replaced by (faults/*.json). It is planted in a copy
of the tree; the tests named with it must go red there, and green without it. A fault that no
test catches, or whose text is not found exactly once, fails the run.

    run.py [NAME ...]     all faults, or those named
    run.py --changed      those with unit tests in what the change touches, 40 at most
"""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import queue
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "sabotage"
TIMEOUT = 600
MOST_OF_A_CHANGE = 40  # a minute's worth
# More than there are cores, within reason: many of the tests wait for a server's clock.
TREES = (os.cpu_count() or 1) + 1
# Loading pytest's plugins takes longer than most of the tests. Only the run without a fault needs
# one, and names it (xdist): Hypothesis works without its own. Both run bare, or a test that fails
# without a plugin would count as a catch.
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@dataclass(frozen=True)
class Fault:
    """`tests`: pytest node ids, at least one of which must fail."""

    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    why: str
    home: str  # the file that describes it


def load() -> list[Fault]:
    faults = []
    for path in sorted((Path(__file__).parent / "faults").glob("*.json")):
        for raw in json.loads(path.read_text(encoding="utf-8")):
            home = str(path.relative_to(ROOT))
            faults.append(Fault(**{**raw, "tests": tuple(raw["tests"]), "home": home}))
    return faults


def git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def change() -> set[str]:
    """Files that differ from the version before the change, whether committed or not.

    That version: where the branch left origin/main; on main itself, the newest commit that is
    four hours older than the last one. So it follows from the history alone.
    """
    base = ""
    if git("branch", "--remotes", "--list", "origin/main"):
        base = git("merge-base", "HEAD", "origin/main")
    if base in ("", git("rev-parse", "HEAD")):
        newest = int(git("log", "-1", "--format=%ct"))
        base = git("rev-list", "-1", f"--before={newest - 4 * 3600}", "HEAD")
        base = base or git("rev-list", "--max-parents=0", "HEAD").splitlines()[-1]
    untracked = git("ls-files", "--others", "--exclude-standard")
    return {*git("diff", "--name-only", base).splitlines(), *untracked.splitlines()}


def of_the_change(faults: list[Fault]) -> list[Fault]:
    """The faults to plant in the quick tier; the names of the others are printed."""
    touched = change()
    fitting = [
        fault
        for fault in faults
        if {fault.file, fault.home, *(test.partition("::")[0] for test in fault.tests)} & touched
        and all(test.startswith("tests/unit/") for test in fault.tests)
    ]
    left = [fault.name for fault in fitting[MOST_OF_A_CHANGE:]]
    if left:
        print(f"sabotage: {len(left)} more in what changed, for test-all: {' '.join(left)}")
    return fitting[:MOST_OF_A_CHANGE]


def make_tree(number: int) -> Path:
    """A copy of what git knows and does not ignore, with the collection's import path."""
    tree = WORK / f"tree{number}"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    link = tree / "build" / "collections" / "ansible_collections" / "virtops"
    link.mkdir(parents=True)
    (link / "maintenance").symlink_to("../../../..")
    # Compiled once: a fault's own file is told by its hash and compiled anew in each run.
    compileall.compile_dir(
        str(tree / "plugins"),
        quiet=1,
        invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
    )
    return tree


def run_tests(
    tree: Path, *arguments: str, seconds: int = TIMEOUT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", *arguments],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **BARE},
    )


def named(output: str, *outcomes: str) -> list[str]:
    """The tests that pytest's summary lists with these outcomes (FAILED, ERROR)."""
    lines = [line.split(" ", 1) for line in output.splitlines()]
    return [words[1].split(" - ")[0] for words in lines if words[0] in outcomes and words[1:]]


def red_without_a_fault(tree: Path, tests: tuple[str, ...]) -> str:
    """What is red although nothing is planted; empty: all are green.

    All tests share the machine here, beside other parts of the run. A test that is red among them
    has a second try by itself, and both are reported.
    """
    crowd = run_tests(tree, "-p", "xdist.plugin", "-n", str(TREES), *tests, seconds=3 * TIMEOUT)
    if crowd.returncode == 0:
        return ""
    red = list(dict.fromkeys(named(crowd.stdout, "FAILED", "ERROR")))
    if not red:
        return (crowd.stdout.strip() or crowd.stderr.strip())[-2000:]
    alone = run_tests(tree, *red)
    if alone.returncode == 0:
        print(f"sabotage: red among all, green alone: {' '.join(red)}", flush=True)
        return ""
    return f"{' '.join(red)}\n{alone.stdout[-6000:]}"


def plant(tree: Path, fault: Fault) -> str:
    """Try one fault. Empty: not caught; else the test that caught it."""
    path = tree / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.find) != 1:
        raise SystemExit(
            f"sabotage: {fault.name}: the text to replace is found {text.count(fault.find)} times "
            f"in {fault.file}; it must be there once. Bring the fault up to date."
        )
    try:
        path.write_text(text.replace(fault.find, fault.replace), encoding="utf-8")
        done = run_tests(tree, "-x", *fault.tests)
    finally:
        path.write_text(text, encoding="utf-8")
    # A broken import or a test that is not found is no catch: only a failed test is.
    failed = named(done.stdout, "FAILED")
    return failed[0] if done.returncode and failed else ""


def main() -> int:
    if sys.argv[1:] == ["--changed"]:
        chosen = of_the_change(load())
        if not chosen:
            print("sabotage: planted=0 caught=0 (the change touches no unit-tested fault)")
            return 0
    else:
        chosen = [f for f in load() if not sys.argv[1:] or f.name in sys.argv[1:]]
    names = [f.name for f in chosen]
    if len(set(names)) != len(names) or not chosen:
        raise SystemExit("sabotage: two faults have one name, or none was found")
    trees: queue.Queue[Path] = queue.Queue()
    for number in range(TREES):
        trees.put(make_tree(number))

    def work(fault: Fault) -> str:
        tree = trees.get()
        try:
            return plant(tree, fault)
        finally:
            trees.put(tree)

    every = tuple(dict.fromkeys(test for fault in chosen for test in fault.tests))
    if red := red_without_a_fault(trees.queue[0], every):
        print(f"sabotage: the tests are red without any fault: {red}")
        return 1
    missed = []
    with ThreadPoolExecutor(TREES) as pool:
        for fault, by in zip(chosen, pool.map(work, chosen), strict=True):
            missed += [] if by else [fault]
            if by:
                print(f"{fault.name}: caught by {by} ({fault.why})", flush=True)
    caught = len(chosen) - len(missed)
    for fault in missed:
        # Some tests watch a race, which a crowded machine decides otherwise: a second try alone.
        by = plant(trees.queue[0], fault)
        caught += bool(by)
        how = f"caught when planted alone, by {by}" if by else "NOT CAUGHT"
        print(f"{fault.name}: {how} ({fault.why})", flush=True)
    print(f"sabotage: planted={len(chosen)} caught={caught}")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
