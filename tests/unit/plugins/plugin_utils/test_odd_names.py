"""Whatever a VM is called: its name is neither a second line nor an order to the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.plugin_utils import _slices
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain, plain_findings
from ansible_collections.virtops.maintenance.plugins.plugin_utils._progress import Progress, summary, unanswered

HARMLESS = (
    '-x \'q" {{ lookup("pipe", "id") }} {% raw %} $(id) `id` %s {0}',
    "n" * 200,
    "büro 東京 \u0645 \u00a0 \U0001f600",
    "back\\slash",
)
FORGED = {
    "web\nhost-a  Drained": "web\\nhost-a  Drained",
    "web\r\x1b[2Kgone": "web\\r\\x1b[2Kgone",
    "web\x07\x9b31m\x00": "web\\x07\\x9b31m\\x00",
    "web\u2028\u202etxt\u200b": "web\\u2028\\u202etxt\\u200b",
    "web\udc80": "web\\udc80",
}


def vm(name: str, **changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "uuid": "u1",
        "name": name,
        "verdict": "blocked",
        "phase": "Pending",
        "target": "",
        "mode": "",
        "reason": "PinnedByUser",
        "message": f"VM {name} stays.",
        "remedy": "",
        "at": "host-a",
        "duration": 0.0,
        "outage_ms": None,
    }
    return row | changed


def result(name: str, **changed: Any) -> dict[str, Any]:
    return {
        "node": "host-a",
        "phase": "Blocked",
        "changed": True,
        "ended": "final",
        "vms": [vm(name)],
        "counts": {"pending": 0, "total": 1},
        "findings": [],
        "run_id": "r",
        **changed,
    }


@pytest.mark.parametrize("name", HARMLESS)
def test_what_harms_no_terminal_is_shown_as_it_is(name: str) -> None:
    assert plain(name) == name


@pytest.mark.parametrize(("name", "shown"), FORGED.items())
def test_what_a_terminal_would_obey_is_written_out(name: str, shown: str) -> None:
    assert plain(name) == shown
    plain(name).encode("utf-8")


@pytest.mark.parametrize("name", [*HARMLESS, *FORGED])
def test_one_vm_is_one_line_of_progress(name: str) -> None:
    lines: list[str] = []
    Progress(lines.append, lambda: 0.0).update(result(name))
    (line,) = lines
    assert plain(line) == line and line[9:].startswith(f"host-a 0/1  {plain(name)} blocked, PinnedByUser: ")


@pytest.mark.parametrize("name", [*HARMLESS, *FORGED])
def test_one_vm_is_one_line_of_the_message(name: str) -> None:
    _head, line = summary(result(name), "Drained").split("\n")
    assert plain(line) == line and line.startswith(f"{plain(name)} (blocked, on host-a): ")
    needs = [{"name": name, "hook": "before", "tasks": "out.yml"}]
    text = unanswered(result(name, needs=needs), "Drained")
    _head, line, _what_to_do = text.split("\n")
    assert line == f"{plain(name)}: hook before: out.yml"


@pytest.mark.parametrize("name", [*HARMLESS, *FORGED])
def test_check_mode_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Display:
        def display(self, text: str) -> None:
            shown.append(text)

        def warning(self, text: str) -> None:
            shown.append(text)

    monkeypatch.setattr(_slices, "Display", Display)
    acts = [{"vm": name, "do": "shutdown", "target": ""}]
    found = result(name, planned=acts, predicted_duration=1.0)
    _slices.run_slices(lambda _args: found, {"run_id": "r"}, {"drained": "Drained"}, True)
    assert f"{plain(name)}  would be shut down" in shown
    assert all(plain(line) == line for line in shown), shown


# A diff is lines; no platform has VMs with a line end in their names.
@pytest.mark.parametrize("name", [n for n in (*HARMLESS, *FORGED) if "\n" not in n])
@pytest.mark.parametrize("check", [True, False])
def test_the_diff_too(name: str, check: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible prints it as it gets it."""
    lines = {"before": f"VM {name}: running on a\n", "after": f"VM {name}: running on b\n"}
    found = result(name, diff=lines, planned=[], predicted_duration=1.0)
    ended = _slices.run_slices(lambda _args: found, {"run_id": "r"}, {"drained": "Drained"}, check)
    assert ended["diff"] == {
        "before": f"VM {plain(name)}: running on a\n",
        "after": f"VM {plain(name)}: running on b\n",
    }


@pytest.mark.parametrize("name", [*HARMLESS, *FORGED])
def test_a_finding_of_the_preflight_is_one_line(name: str) -> None:
    found = {"findings": [{"subject": name}], "blockers": [f"X VM {name}: no"], "cautions": []}
    shown = plain_findings(found)
    assert shown == {**found, "blockers": [f"X VM {plain(name)}: no"]}
    assert plain_findings({"failed": True, "msg": "no"}) == {"failed": True, "msg": "no"}
