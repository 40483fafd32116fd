"""Plant named faults one at a time and see which test catches each.

A fault is a text in a file and what it is replaced by (faults/*.json). It is planted in a copy
of the tree; the tests named with it must go red there, and green without it. A fault that no
test catches, or whose text is not found exactly once, fails the run.

    run.py [NAME ...]     all faults, or those named
    run.py --changed      those with unit tests in what the change touches, 7 at most, new ones first
    run.py --format       write the files again, four lines for a fault
"""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import queue
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "sabotage"
TIMEOUT = 600
# Seconds, VIRTOPS_PATIENCE: with a fault planted many a test hangs until it has waited long enough
# for what must come. A short wait must call no slow machine a catch, so it is only for tests that
# took less than BRISK seconds without the fault, in the same run.
BRISK, SHORT, LONG = 4.0, 8.0, 60.0
MOST_OF_A_CHANGE = 7  # a minute's worth
TREES = (os.cpu_count() or 1) + 1
# Tests against the simulator wait for its clock most of the time: a fifth of a core each.
WAITING_TREES = 4 * (os.cpu_count() or 1)
SIMULATOR = ("tests/kubevirt/", "tests/kubesim/")
# Loading pytest's plugins takes longer than most of the tests. Only the run without a fault needs
# one, and names it (xdist): Hypothesis works without its own. Both run bare, or a test that fails
# without a plugin would count as a catch. A search looks at all, in `make test` too.
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "VIRTOPS_PLANTED": "1", "TIER": ""}


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


FILES = sorted((Path(__file__).parent / "faults").glob("*.json"))
# What and why, where, what stands there, what is planted.
FORM = (("name", "why"), ("file", "tests"), ("find",), ("replace",))


def in_form(faults: list[dict[str, Any]]) -> str:
    """The text of a file of faults: four lines for each, whatever it was typed as."""

    def line(fault: dict[str, Any], keys: tuple[str, ...]) -> str:
        return ", ".join(f'"{key}": {json.dumps(fault[key], ensure_ascii=False)}' for key in keys)

    rows = [",\n ".join(line(fault, keys) for keys in FORM) for fault in faults]
    return "[\n" + ",\n".join(f"{{{row}}}" for row in rows) + "\n]\n"


def load() -> list[Fault]:
    faults = []
    for path in FILES:
        for raw in json.loads(path.read_text(encoding="utf-8")):
            home = str(path.relative_to(ROOT))
            faults.append(Fault(**{**raw, "tests": tuple(raw["tests"]), "home": home}))
    return faults


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def base() -> str:
    """The version before the change: where the branch left origin/main; on main itself, the newest commit that is
    four hours older than the last one. So it follows from the history alone.
    """
    found = ""
    if git("branch", "--remotes", "--list", "origin/main"):
        found = git("merge-base", "HEAD", "origin/main")
    if found in ("", git("rev-parse", "HEAD")):
        newest = int(git("log", "-1", "--format=%ct"))
        found = git("rev-list", "-1", f"--before={newest - 4 * 3600}", "HEAD")
        found = found or git("rev-list", "--max-parents=0", "HEAD").splitlines()[-1]
    return found


def change(since: str) -> set[str]:
    """Files that differ from that version, whether committed or not."""
    untracked = git("ls-files", "--others", "--exclude-standard")
    return {*git("diff", "--name-only", since).splitlines(), *untracked.splitlines()}


def of_the_change(faults: list[Fault]) -> list[Fault]:
    """The faults to plant in the quick tier; the names of the others are printed."""
    since = base()
    touched = change(since)
    names = re.findall(r'^([+-]).*"name": "([^"]+)"', git("diff", since, "--", "tests/sabotage/faults"), re.MULTILINE)
    new = {name for sign, name in names if sign == "+"} - {name for sign, name in names if sign == "-"}
    fitting = [
        fault
        for fault in faults
        if {fault.file, fault.home, *(test.partition("::")[0] for test in fault.tests)} & touched
        and all(test.startswith("tests/unit/") for test in fault.tests)
    ]
    fitting.sort(key=lambda fault: fault.name not in new)
    left = [fault.name for fault in fitting[MOST_OF_A_CHANGE:]]
    if left:
        print(f"sabotage: {len(left)} more in what changed, for test-all: {' '.join(left)}")
    return fitting[:MOST_OF_A_CHANGE]


def make_tree(number: int) -> Path:
    """A copy of what git knows and does not ignore, with the collection's import path."""
    tree = WORK / f"tree{number}"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True
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
        str(tree / "plugins"), quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
    )
    return tree


def run_tests(
    tree: Path, *arguments: str, seconds: int = TIMEOUT, patience: float | None = None
) -> subprocess.CompletedProcess[str] | None:
    """None: they did not end in time, which says nothing."""
    waits = {} if patience is None else {"VIRTOPS_PATIENCE": str(patience)}
    try:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--no-header", *arguments],
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **BARE, **waits},
        )
    except subprocess.TimeoutExpired:
        return None


def named(output: str, *outcomes: str) -> list[str]:
    """The tests that pytest's summary lists with these outcomes (FAILED, ERROR)."""
    lines = [line.split(" ", 1) for line in output.splitlines()]
    return [words[1].split(" - ")[0] for words in lines if words[0] in outcomes and words[1:]]


def slow_ones(output: str) -> list[str]:
    """The tests that took BRISK seconds or more, as pytest's --durations lists them."""
    lines = [line.split(maxsplit=2) for line in output.splitlines()]
    return [words[2] for words in lines if len(words) == 3 and words[1] in ("call", "setup")]


def red_without_a_fault(tree: Path, tests: tuple[str, ...], width: int) -> tuple[str, list[str]]:
    """What is red although nothing is planted (empty: all are green), and what is slow.

    All tests share the machine here, beside other parts of the run. A test that is red among them
    has a second try by itself, and both are reported.
    """
    at_once = ["-p", "xdist.plugin", "-n", str(min(width, len(tests)))]
    timed = ["--durations=0", f"--durations-min={BRISK}"]
    crowd = run_tests(tree, *at_once, *timed, *tests, seconds=3 * TIMEOUT)
    if crowd is None:
        return f"they did not end in {3 * TIMEOUT} s", []
    slow = slow_ones(crowd.stdout)
    if crowd.returncode == 0:
        return "", slow
    red = list(dict.fromkeys(named(crowd.stdout, "FAILED", "ERROR")))
    # A file that cannot be imported among the others ends the run before its first test.
    if not red or not all("::" in one for one in red):
        return (crowd.stdout.strip() or crowd.stderr.strip())[-2000:], slow
    alone = run_tests(tree, *red)
    if alone is not None and alone.returncode == 0:
        print(f"sabotage: red among all, green alone: {' '.join(red)}", flush=True)
        return "", slow + red
    return f"{' '.join(red)}\n{alone.stdout[-6000:] if alone else ''}", slow


def patience_for(fault: Fault, slow: list[str]) -> float:
    """`slow`: with their parameters, or without, or of a file that the fault names as a whole."""
    brisk = not any(one.startswith(test) for test in fault.tests for one in slow)
    return SHORT if brisk else LONG


def plant(tree: Path, fault: Fault, patience: float) -> tuple[str, bool]:
    """Try one fault. The test that caught it, empty: none; and whether the tests ended in time."""
    path = tree / fault.file
    text = path.read_text(encoding="utf-8")
    if text.count(fault.find) != 1:
        raise SystemExit(
            f"sabotage: {fault.name}: the text to replace is found {text.count(fault.find)} times "
            f"in {fault.file}; it must be there once. Bring the fault up to date."
        )
    try:
        path.write_text(text.replace(fault.find, fault.replace), encoding="utf-8")
        done = run_tests(tree, "-x", *fault.tests, patience=patience)
    finally:
        path.write_text(text, encoding="utf-8")
    if done is None:
        return "", False
    # A broken import or a test that is not found is no catch: only a failed test is.
    failed = named(done.stdout, "FAILED")
    return (failed[0] if done.returncode and failed else ""), True


class Trees:
    """Copies of the tree, made when they are first needed."""

    def __init__(self) -> None:
        self.free: queue.Queue[Path] = queue.Queue()
        self.made = 0

    def grow(self, number: int) -> None:
        for _more in range(number - self.made):
            self.free.put(make_tree(self.made))
            self.made += 1

    def plant(self, fault: Fault, patience: float) -> tuple[str, bool]:
        tree = self.free.get()
        try:
            return plant(tree, fault, patience)
        finally:
            self.free.put(tree)


def plant_all(trees: Trees, faults: list[Fault], width: int, slow: list[str]) -> list[Fault]:
    """`width` at a time. Those that nothing caught."""
    missed = []
    trees.grow(min(width, len(faults)))
    with ThreadPoolExecutor(width) as pool:
        found = pool.map(lambda fault: trees.plant(fault, patience_for(fault, slow)), faults)
        for fault, (by, in_time) in zip(faults, found, strict=True):
            missed += [] if by else [fault]
            if by:
                print(f"{fault.name}: caught by {by} ({fault.why})", flush=True)
            elif not in_time:
                print(f"{fault.name}: its tests did not end in {TIMEOUT} s", flush=True)
    return missed


def main() -> int:
    if sys.argv[1:] == ["--format"]:
        for path in FILES:
            path.write_text(in_form(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
        return 0
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
    trees = Trees()
    trees.grow(1)
    waits = [f for f in chosen if all(test.startswith(SIMULATOR) for test in f.tests)]
    kinds = [([f for f in chosen if f not in waits], TREES), (waits, WAITING_TREES)]
    slow = []
    for faults, width in kinds:
        tests = tuple(dict.fromkeys(test for fault in faults for test in fault.tests))
        red, more = red_without_a_fault(trees.free.queue[0], tests, width) if tests else ("", [])
        slow += more
        if red:
            print(f"sabotage: the tests are red without any fault: {red}")
            return 1
    missed = [fault for faults, width in kinds for fault in plant_all(trees, faults, width, slow)]
    caught = len(chosen) - len(missed)
    for fault in missed:
        # Some tests watch a race, which a crowded machine decides otherwise: a second try alone.
        by, in_time = trees.plant(fault, LONG)
        caught += bool(by)
        how = f"caught when planted alone, by {by}" if by else "NOT CAUGHT"
        how += "" if in_time else f", its tests did not end in {TIMEOUT} s"
        print(f"{fault.name}: {how} ({fault.why})", flush=True)
    print(f"sabotage: planted={len(chosen)} caught={caught}")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
