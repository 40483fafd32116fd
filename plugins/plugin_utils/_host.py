"""The acts of one host, one after the other, as the core says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.host import Act, Acts

from ._controller import playbook
from ._lines import plain, stamped


def carry_out(
    acts: Acts, run: Callable[[Act], dict[str, Any]], show: Callable[[str], None], host: str
) -> dict[str, Any]:
    """Run each act, hand back what came of it, and return the result of the whole. Raises AnsibleActionFail when there
    is no playbook any more for which to do it."""
    found: dict[str, Any] | None = None
    while True:
        try:
            act = next(acts) if found is None else acts.send(found)
        except StopIteration as end:
            return dict(end.value)
        time.sleep(act.after)
        playbook()
        found = {}
        for line in act.options["lines"] if act.kind == "show" else ():
            show(stamped(f"{host}  {plain(line).removeprefix(host).lstrip()}"))
        if act.kind != "show":
            found = run(act)


__all__ = ["carry_out"]
