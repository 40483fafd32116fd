"""What real hosts answered to a preflight, in a file, and the same preflight on that file.

`take` runs virt_preflight on a host of a lab and writes down each answer of libvirt. `play` runs the
same module with the same options on those answers alone: no guest, no host, no libvirt. So each
`make test` looks at what a real libvirt says of some thirty guests. test-all runs these guests, and
compares; `make record` writes the files anew.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINDING = HERE / "binding"
MODULE = ROOT / "plugins" / "modules" / "virt_preflight.py"
# Runs a module as Ansible does.
RUN = """
import json, runpy, sys
import ansible.module_utils.basic as basic
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": json.loads(sys.argv[2])}).encode()
basic._ANSIBLE_PROFILE = "legacy"
basic.AnsibleModule.log = lambda self, msg, log_args=None: None
runpy.run_path(sys.argv[1], run_name="__main__")
"""
# They are others in each lab, as the order of a list is.
IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:[0-9a-f]{2}[:_]){5}[0-9a-f]{2}")
NUMBERS = re.compile("[0-9]+")
# The processors of the machine on which the lab runs.
PROCESSORS = re.compile(r"<(cpu|cache)>.*?</\1>")
LISTS = re.compile(r"\.(listAll|getAll)\w+\(")
NAME = re.compile(r"virDomain \S+ (\S+)\.name\(\)")


@dataclass(frozen=True)
class Recording:
    """asked: the module's options. told: its findings then. calls: what libvirt was asked, and what
    it answered, in order. constants: libvirt's."""

    asked: Mapping[str, Any]
    told: list[dict[str, Any]]
    calls: Mapping[str, list[Any]]
    constants: Mapping[str, int]

    @classmethod
    def read(cls, path: Path) -> Recording:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        """A line for each call, so that git shows what has changed."""
        told = ",\n".join(json.dumps(row, sort_keys=True) for row in self.told)
        parts = [f'"told": [\n{told}\n]']
        for name in ("asked", "constants", "calls"):
            pairs = getattr(self, name)
            rows = (f"{json.dumps(key)}: {json.dumps(pairs[key], sort_keys=True)}" for key in sorted(pairs))
            parts.append(f'"{name}": {{\n' + ",\n".join(rows) + "\n}")
        path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")

    @property
    def plain(self) -> dict[str, str]:
        """Answers without what is another one in each lab. Domains by name."""
        names = {found[1]: answers[0] for key, answers in self.calls.items() if (found := NAME.fullmatch(key))}
        plain = {}
        for key, answers in self.calls.items():
            whole = f"{key}\0{json.dumps(answers)}"
            for uuid, name in names.items():
                whole = whole.replace(uuid, name)
            asked, answer = IDS.sub("#", whole).split("\0")
            plain[asked] = "" if LISTS.search(asked) else NUMBERS.sub("#", PROCESSORS.sub("", answer))
        return plain


def differences(old: Recording, new: Recording) -> list[str]:
    """What is asked, or answered, otherwise than it was; nothing: the recording is as good as new."""
    before, now = old.plain, new.plain
    found = [f"not asked any more: {key}" for key in before.keys() - now.keys()]
    found += [f"was not asked: {key}" for key in now.keys() - before.keys()]
    both = (key for key in before.keys() & now.keys() if before[key] != now[key])
    found += [f"{key}: was {before[key]}, is {now[key]}" for key in both]
    return sorted(found)


def play(path: Path) -> list[dict[str, Any]]:
    """What the preflight finds today in what was answered then."""
    code = [sys.executable, "-c", RUN, str(MODULE), json.dumps(Recording.read(path).asked)]
    parts = (BINDING, ROOT / "build" / "collections")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, parts)), "VIRTOPS_RECORDING": str(path)}
    done = subprocess.run(code, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return list(json.loads(done.stdout.splitlines()[-1])["findings"])
