# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One host of a roll: the actions that take it out of service and bring it back, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import rules, stages, table, words
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Stage

from ._progress import plain, stamped

# Runs the action of a kind, `roll`, `preflight`, `drain` or `restore`, with more options than it was given.
Act = Callable[[str, Mapping[str, Any]], dict[str, Any]]
Show = Callable[[str], None]
_HEALTH_PAUSE = 2.0  # seconds between two looks at a host that is to be healthy


def checked(act: Act, node: str, fail_on: str, retries: int) -> dict[str, Any]:
    """The preflight's result, with `not_ready`: why the host is not ready, or empty.

    `fail_on`: the list of the result that must be empty, or `nothing`. `retries`: how often it is
    read again while it has blockers of the node.
    """
    while True:
        found = act("preflight", {})
        good = not (found.get("failed") or found.get("unreachable")) and not found.get("node_blockers")
        if good or retries <= 0:
            return {**found, "not_ready": not_ready(found, node, fail_on)}
        retries -= 1
        time.sleep(_HEALTH_PAUSE)


def not_ready(found: Mapping[str, Any], node: str, fail_on: str) -> str:
    """Its blockers were shown before."""
    if "findings" not in found:
        return f"{node} is not ready: {str(found.get('msg') or '').removeprefix(f'{node} ')}"
    blocking = [] if fail_on == "nothing" else found[fail_on]
    if not blocking:
        return ""
    if len(blocking) == 1:
        return f"{node} is not ready: {blocking[0]}"
    codes = dict.fromkeys(line.split(" ")[1] for line in blocking)
    return f"{node} is not ready. See the findings above: {', '.join(codes)}"


class HostOfRoll:
    """`node`: its name in the roll. `turn`: what the record said when it had its turn: `position`, "2/7", and
    `to_come`, the hosts that are not done."""

    def __init__(
        self, act: Act, show: Show, node: str, check: bool, turn: Mapping[str, Any], has_checks: bool = False
    ) -> None:
        """`has_checks`: the user has some, which are run before VMs come back."""
        self._act, self._show, self._node, self._check = act, show, node, check
        self.turn = turn
        self._last = ["checks"] if has_checks else []

    @property
    def position(self) -> str:
        return str(self.turn.get("position", ""))

    def ranked(self, peers: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Peers that are still to come get VMs last, the next one last of all."""
        ranks = {name: rank for rank, name in enumerate(self.turn.get("to_come", ()))}
        return [{**peer, "roll_rank": ranks.get(peer["name"])} for peer in peers]

    def out(self, wanted: Mapping[str, bool], fail_on: str, reach_for: int) -> dict[str, Any]:
        """Wait for its turn, check it, drain it. `next`: what comes then, of hooks, work, reboot, checks.

        `wanted`: of the steps that a roll may leave out (work, reboot), whether this one has them.
        """
        turn = self._act("roll", {"state": "admitted", "roll_host": self._node, "reach_for": reach_for})
        kept = {"changed": bool(turn.get("changed")), "left_as": words.left_as(None), "next": []}
        if turn.get("failed") or turn.get("unreachable"):
            return {**turn, **kept}
        steps = [step for step in turn.get("steps", []) if wanted.get(step, True)]
        hosts = (turn.get("roll") or {}).get("hosts", ())
        to_come = [one["name"] for one in hosts if one["stage"] != Stage.DONE.value]
        self.turn = {"position": turn.get("position", ""), "to_come": to_come}
        kept |= {"answer": turn["answer"], "steps": steps, "turn": self.turn}
        if turn["answer"] != rules.Answer.GO.value:
            return kept
        if rules.Step.DRAIN.value not in steps:
            return {**kept, "left_as": words.left_as_before(), "next": self._last}
        found = checked(self._act, self._node, fail_on, 0)
        for line in [*found.get("blockers", ()), *found.get("cautions", ())]:
            self._show(line)
        if found["not_ready"]:
            return {**kept, "failed": True, "msg": found["not_ready"]}
        return {**kept, **self.empty(steps)}

    def empty(self, steps: list[str], hooks: bool = True) -> dict[str, Any]:
        """Drain it, and record what it comes to. `steps`: what is left of it. `hooks`: those that are
        due may still be run."""
        found = {"answer": rules.Answer.GO.value, **self._act("drain", {})}
        found["left_as"] = words.left_as(found)
        if hooks and found.get("ended") == "needs":
            return {**found, "failed": False, "next": ["hooks"], "steps": steps, "turn": self.turn}
        if found.get("failed") or found.get("unreachable"):
            return found
        stage, following = stages.next_steps(steps)
        noted = self._note(stage.value, tally=table.tally(found.get("vms") or ()))
        if noted.get("failed"):
            return {**found, **{key: noted[key] for key in ("failed", "msg", "error") if key in noted}}
        left = [one for one in steps if one not in (rules.Step.DRAIN.value, *following)]
        following += [] if stage is Stage.AT_WORK else self._last
        return {**found, "next": following, "steps": left, "turn": self.turn}

    def healthy(self, retries: int) -> dict[str, Any]:
        """Wait until it is, before anything comes back to it."""
        noted = self._note(Stage.CHECKING.value)
        if noted.get("failed"):
            return noted
        found = checked(self._act, self._node, "node_blockers", retries)
        if not found["not_ready"]:
            return {"changed": True}
        for line in found.get("node_blockers", ()):
            self._show(line)
        return {"changed": True, "failed": True, "msg": found["not_ready"]}

    def back(self, retries: int) -> dict[str, Any]:
        """Wait until it is healthy, unless the user's checks did, restore it, record that it is done."""
        found = {} if self._last else self.healthy(retries)
        if found.get("failed"):
            return found
        restored = self._act("restore", {})
        if restored.get("failed") or restored.get("unreachable"):
            return restored
        if not (self._check or restored.get("phase") == "Active"):
            return {**restored, "failed": True, "msg": "the restore was not brought to its end"}
        noted = self._note(Stage.DONE.value)
        if noted.get("failed"):
            return {**restored, **noted}
        roll = noted.get("roll")
        if roll:
            self._show(words.host_is_done(roll, self._node))
        return restored

    def _note(self, stage: str, **more: Any) -> dict[str, Any]:
        return self._act("roll", {"state": "noted", "stage": stage, "roll_host": self._node, **more})


def shown(show: Show, node: str) -> Show:
    """Prints a line of this host, with the time."""
    return lambda line: show(stamped(f"{node}  {plain(line).removeprefix(node).lstrip()}"))


__all__ = ["HostOfRoll", "checked", "not_ready", "shown"]
