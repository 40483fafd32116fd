"""The loop of an action plugin whose module works in slices."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import words

from ._controller import playbook
from ._lines import plain, plain_diff, stamped
from ._progress import Progress, duration, predicted_lines, reached, summary, unanswered, would_not
from ._unanswered import Unanswered

Call = Callable[[dict[str, Any]], dict[str, Any]]
# A module call that fails for the connection is tried again after so many seconds: the work on
# the host goes on meanwhile, and the record there shows the next slice how far it is. Together
# two minutes: an sshd that gets no processor is back by then, and so is a switch that was reset.
PAUSES = (1.0, 5.0, 15.0, 30.0, 60.0)


def run_slices(
    call: Call, args: Mapping[str, Any], good: Mapping[str, str], check: bool, position: Callable[[], str] | None = None
) -> dict[str, Any]:
    """Call the module until it is final or needs an answer.

    `good`: wanted state -> the phase that reaches it. `position`: says where the host is in its roll; None: in none.

    Decides nothing: the phase comes from the module; another phase than the wanted one fails.
    Raises AnsibleActionFail when ansible-playbook is no longer there to take the result: each call asks, and the module
    asks before each of its writes.
    """
    display = Display()
    # A restore does not report VMs that a drain moved, only those that stay off.
    old_news = ("moved", "cold_moved", "off") if args.get("state") == "active" else ()
    planned = {vm: peer["name"] for peer in args.get("peers") or () for vm in peer.get("expects") or ()}
    progress = Progress(display.display, time.monotonic, old_news, position, planned)
    module_args = dict(args)
    module_args["run_id"] = module_args.get("run_id") or f"{int(time.time())}-{secrets.token_hex(3)}"
    changed = False
    before: str | None = None
    waiting = False
    unanswered_calls = Unanswered(display.display)
    warnings: list[str] = []  # of all slices, each one once
    while True:
        result = _reach(call, module_args, display)
        if "cursor" in result:
            module_args["cursor"] = result.pop("cursor")
        if unanswered_calls.again(result, not (position or module_args.get("begun"))):
            continue
        warned = [text for text in result.pop("warned", ()) if text not in warnings]
        warnings += warned
        if result.get("ended") == "out_of_time":  # what Ansible calls a warning it shows when the task has ended
            for text in warned:
                display.display(stamped(plain(f"{result['node']}  WARNING: {text}")))
        if warnings:
            result["warnings"] = warnings
        if result.get("failed") or result.get("unreachable") or result.get("skipped"):
            return {**result, "changed": changed or bool(result.get("changed"))}
        changed = changed or bool(result.get("changed"))
        result["changed"] = changed
        if "diff" in result:
            result["diff"] = plain_diff(result["diff"])
            before = result["diff"]["before"] if before is None else before
            result["diff"]["before"] = before
        if check:
            result.pop("old", None)
            _report_forecast(display, result, good[str(module_args.get("state") or next(iter(good)))])
            return result
        progress.update(result)
        result.pop("old", None)
        if result.get("ended") in ("final", "needs"):
            break
        waits = result.pop("waits_for", "")
        if waits and not waiting:
            display.display(stamped(plain(f"{result['node']}  {result['phase']}  {waits}")))
        waiting = bool(waits)
        module_args["begun"] = not waits or module_args.get("begun", False)  # it has not begun yet
        module_args.pop("hooks_done", None)  # they stand in the record now
    _judge(display, result, good[str(module_args.get("state") or next(iter(good)))], bool(position))
    return result


def _judge(display: Display, result: dict[str, Any], wanted: str, in_roll: bool) -> None:
    """Is it as it was wanted? That is said, or it is a failure; a roll says the first in its own words."""
    if result.get("ended") == "needs":
        # A failure: who does not know of hooks must not go on as if the host were empty.
        result.update(failed=True, msg=unanswered(result, wanted))
    elif result["phase"] != wanted:
        # What a roll does next it says itself.
        then = "" if in_roll or result.get("vm") else f"\n{words.next_of_drain(wanted == 'Active')}"
        result.update(failed=True, msg=f"{summary(result, wanted)}{then}")
    elif not in_roll and not result.get("vm"):
        display.display(stamped(plain(reached(result))))


def _report_forecast(display: Display, result: Mapping[str, Any], wanted: str) -> None:
    """Show what would be done, and a warning if the wanted state would not be reached. A forecast is no failure."""
    for line in (*predicted_lines(result), duration(result)):
        if line:
            display.display(plain(line))
    text = would_not(result, wanted)
    if text:
        display.warning(plain(text))


def _reach(call: Call, module_args: dict[str, Any], display: Display) -> dict[str, Any]:
    """One call, again if the connection fails. Raises AnsibleConnectionFailure at the end."""
    for pause in PAUSES:
        try:
            return call({**module_args, "playbook": playbook()[1]})
        except AnsibleAuthenticationFailure:
            raise  # the same password is no better the next time, and may lock the account
        except AnsibleConnectionFailure as exc:
            display.display(stamped(plain(f"The connection failed; again in {pause:.0f} s: {exc}")))
            time.sleep(pause)
    return call({**module_args, "playbook": playbook()[1]})
