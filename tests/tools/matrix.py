"""The tests on the ends of both ranges: the oldest and the newest ansible-core, modules on the oldest and the newest
Python. An interpreter that this machine does not have is named.

    matrix.py [NAME ...]     all ends, or those named

Each has a virtual environment of its own in build/matrix, which is kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "matrix"
TOOLS = ["--requirement", str(ROOT / "tests" / "requirements" / "tools.txt")]
# What the modules import on the host where they run.
MODULES = ["kubernetes >= 31.0", "jmespath >= 1.0.0", "PyYAML >= 6.0"]
UNIT = ("-n", "2", "-m", "not lab and not full", "tests/unit", "tests/lab/tests")
KUBEVIRT = ("-n", "6", "-m", "not full", "tests/kubevirt", "tests/kubesim/tests")
PIP = ("install", "--quiet", "--quiet", "--disable-pip-version-check", "--timeout", "30", "--retries", "5")


@dataclass(frozen=True)
class End:
    """`python`: the first of these that is here. `packages`: for its environment. `of_modules`: the modules alone run
    in it, the controller in build/venv."""

    python: Sequence[str]
    packages: Sequence[str]
    parts: Sequence[Sequence[str]]
    of_modules: bool = False


ENDS: Mapping[str, End] = {
    "oldest ansible-core": End(["3.11"], [*TOOLS, "ansible-core == 2.18.*"], [UNIT, KUBEVIRT]),
    "newest ansible-core": End(["3.14", "3.13"], [*TOOLS, "ansible-core"], [UNIT, KUBEVIRT]),
    # What comes next, as a pre-release; the newest, where there is none.
    "next ansible-core": End(["3.14", "3.13"], [*TOOLS, "ansible-core >= 2.22.0b1"], [UNIT, KUBEVIRT]),
    "modules on the oldest Python": End(["3.9"], MODULES, [KUBEVIRT], of_modules=True),
    "modules on the newest Python": End(["3.14"], MODULES, [KUBEVIRT], of_modules=True),
}


def interpreters() -> dict[str, str]:
    """Version -> directory, of those that are here."""
    done = subprocess.run([str(ROOT / "tests/tools/find_python"), "--all"], capture_output=True, text=True, check=True)
    found: dict[str, str] = {}
    for directory in done.stdout.split():
        for version in ("3.14", "3.13", "3.12", "3.11", "3.10", "3.9"):
            if (Path(directory) / f"python{version}").exists():
                found.setdefault(version, directory)
    return found


def environment(python: str, end: End, home: Path) -> Path:
    """Its Python, with what it needs."""
    own = home / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(home)], check=True)
    subprocess.run([str(own), "-m", "pip", *PIP, *end.packages], check=True)
    return own


def run(end: End, own: Path) -> int:
    """How many of its parts are red."""
    controller = ROOT / "build" / "venv" / "bin" / "python" if end.of_modules else own
    env = {**os.environ, "PATH": f"{controller.parent}:{os.environ['PATH']}"}
    if end.of_modules:
        env["VIRTOPS_MODULES_PYTHON"] = str(own)
    pytest = [str(controller), "-m", "pytest", "-q", "--dist", "worksteal"]
    return sum(subprocess.run([*pytest, *part], cwd=ROOT, env=env, check=False).returncode != 0 for part in end.parts)


def what_runs(own: Path) -> str:
    shown = "import platform, importlib.metadata as m; print(m.version('ansible-core'), platform.python_version())"
    bare = "import platform; print(platform.python_version())"
    for text in (shown, bare):
        done = subprocess.run([str(own), "-c", text], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip().replace(" ", " on ")
    return "?"


def main() -> int:
    wanted = sys.argv[1:] or list(ENDS)
    unknown = sorted(set(wanted) - set(ENDS))
    if unknown:
        print(f"matrix: there is no end named {unknown[0]!r}; these are: {', '.join(ENDS)}", file=sys.stderr)
        return 2
    here, red, ran, lines = interpreters(), 0, 0, []
    for name in wanted:
        end = ENDS[name]
        version = next((one for one in end.python if one in here), "")
        if not version:
            lines.append(f"{name}: not run, no Python {' or '.join(end.python)} here")
            continue
        own = environment(f"{here[version]}/python{version}", end, WORK / name.replace(" ", "-"))
        failed = run(end, own)
        ran, red = ran + 1, red + bool(failed)
        lines.append(f"{name} ({what_runs(own)}): {'red' if failed else 'green'}")
    print("\n".join(lines))
    print(f"matrix: ends={len(wanted)} ran={ran} red={red} missing={len(wanted) - ran}")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
