"""The files of a roll's report, on the controller: report.json, and from it report.html, junit.xml and metrics."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.accuracy import compare
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import report

from . import _metrics
from ._junit import junit
from ._page import page
from ._paths import on_controller

Doc = dict[str, Any]
_PLAN = "plan.json"


def of_task(templar: Any, variables: Mapping[str, Any], check: bool) -> Report:
    """The report that the variables of a task ask for. `check`: check mode has none."""

    def value(name: str) -> str:
        return str(templar.template(variables.get(name)) or "")

    if check:
        return Report("", "")
    return Report(value("maintenance_report"), value("maintenance_plan_file"), value("maintenance_textfile"))


class Report:
    """`folder`: where to; empty: nothing is written. `plan`: a file with the plan of the roll, or empty.
    `textfile`: where node exporter reads metrics of the roll, or empty.

    Several hosts of a roll write at the same time. What cannot be written is an error before the roll,
    and a warning later: a roll that is under way does not stop for its report.
    """

    def __init__(self, folder: str, plan: str, textfile: str = "") -> None:
        self._folder = on_controller(folder) if folder else None
        self._plan = plan
        self._textfile = on_controller(textfile) if textfile else None

    @property
    def fault(self) -> str:
        """Why it cannot be written; empty: it can, or nobody asked for it."""
        wanted = {"maintenance_report": self._folder, "maintenance_textfile": self._textfile and self._textfile.parent}
        for name, folder in wanted.items():
            try:
                if folder is not None:
                    folder.mkdir(parents=True, exist_ok=True)
                    tempfile.TemporaryFile(dir=folder).close()
            except OSError as exc:
                return f"{name} cannot be written: {exc}. Expected a path on the controller that can be written"
        return ""

    def roll(self, result: Mapping[str, Any]) -> None:
        """`result`: what the record of the roll answered."""
        roll = result.get("roll")
        if roll:
            self._write(lambda doc, now: report.with_roll(doc, roll, now))

    def plan(self, plan: Doc | None) -> None:
        """Keep `plan` as plan.json in the folder of the report, unless the user names a plan file."""
        if not self._plan:
            self._leave(_PLAN, plan)

    def recovery(self, host: str, result: Mapping[str, Any]) -> None:
        """Keep what came of the recovery of a host."""
        self._leave(f"recovery-{host}.json", result, 0o600)

    def _leave(self, name: str, doc: Any, mode: int = 0o666) -> None:
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _replace(self._folder / name, json.dumps(doc, indent=2, sort_keys=True) + "\n", mode)
        except OSError as exc:
            Display().warning(f"The report in {self._folder} could not be written: {exc}")

    def drain(self, host: str, result: Mapping[str, Any]) -> None:
        self._write(lambda doc, now: report.with_drain(doc, host, result, self._foreseen(host, result), now))

    def restore(self, host: str, result: Mapping[str, Any]) -> None:
        self._write(lambda doc, now: report.with_restore(doc, host, result, now))

    def moved_back(self, home: str, result: Mapping[str, Any]) -> None:
        self._write(lambda doc, now: report.with_moved_back(doc, home, result, now))

    def _foreseen(self, host: str, result: Mapping[str, Any]) -> list[Doc]:
        """The rows of `compare` for the VMs of that host; empty without a plan."""
        path = on_controller(self._plan) if self._plan else (self._folder or Path()) / _PLAN
        if "vms" not in result or not (self._plan or (self._folder and path.exists())):
            return []
        plan = json.loads(path.read_text(encoding="utf-8"))
        return [] if plan is None else compare(plan, host, result["vms"])

    def _write(self, change: Callable[[Doc, str], Doc]) -> None:
        if self._folder is None:
            return
        try:
            self._change(self._folder, change)
        except (OSError, ValueError, KeyError, TypeError) as exc:
            also = f" or {self._textfile}" if self._textfile else ""
            Display().warning(f"The report in {self._folder}{also} could not be written: {exc}")

    def _change(self, folder: Path, change: Callable[[Doc, str], Doc]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / ".lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            doc = change(self._read(folder), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            if doc["roll"] is None:
                return
            _replace(folder / "report.json", json.dumps(doc, indent=2, sort_keys=True) + "\n")
            _replace(folder / "report.html", page(doc))
            _replace(folder / "junit.xml", junit(doc))
            if self._textfile is not None:
                _replace(self._textfile, _metrics.text(doc))

    @staticmethod
    def _read(folder: Path) -> Doc:
        """The report in this folder; an empty one where there is none of this schema."""
        try:
            found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return report.empty()
        ours = isinstance(found, dict) and found.get("kind") == report.KIND and found.get("schema") == report.SCHEMA
        return found if ours else report.empty()


def _replace(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace atomically: a reader sees the old file or the new one. `mode`: less the umask."""
    new = path.with_name(f".{path.name}.new")
    with open(
        new, "w", encoding="utf-8", errors="backslashreplace", opener=lambda name, how: os.open(name, how, mode)
    ) as stream:
        stream.write(text)
    os.replace(new, path)
