"""Call a module of this collection. One that was ended before it answered gets words of what happened."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase

from ._lines import plain

_NOT_FOUND = 127  # the interpreter is not there: of that Ansible says more


def run_module(action: ActionBase, name: str, args: Mapping[str, Any], task_vars: Any) -> dict[str, Any]:
    """Return the module's result. `name`: without the collection. Raises AnsibleConnectionFailure."""
    called = f"virtops.maintenance.{name}"
    found = dict(action._execute_module(module_name=called, module_args=dict(args), task_vars=task_vars))
    if "module_stdout" in found:
        at = action._task.delegate_to or task_vars["inventory_hostname"]
        text = without_answer(found, f"The module {name} on {at}")
        if text:
            found["msg"] = text
            found.pop("exception", None)  # Ansible's words, which it prints too
    return found


def without_answer(result: Mapping[str, Any], subject: str) -> str:
    """Why the module gave no answer, in words; empty: it gave one, or it is not known.

    Ansible says of all of these that it found no JSON. `rc`: as the shell has it, 128 and the number of the signal.
    """
    if "module_stdout" not in result or not isinstance(result.get("rc"), int):
        return ""
    code = abs(result["rc"])
    number = code - 128 if code > 128 else code if result["rc"] < 0 else 0
    if number in {int(known) for known in signal.Signals}:
        why = " The kernel does that when the memory runs out: dmesg says so." if number == signal.SIGKILL else ""
        ended = f"{subject} was ended by {signal.Signals(number).name} before it answered.{why}"
        return f"{ended} The same command goes on from where it was."
    said = [line for key in ("module_stderr", "module_stdout") for line in str(result.get(key) or "").splitlines()]
    last = next((line.strip() for line in reversed(said) if line.strip()), "")
    if code in (0, _NOT_FOUND) or not last:
        return ""
    return plain(f"{subject} ended with exit code {code} and gave no answer. Its last words: {last}")
