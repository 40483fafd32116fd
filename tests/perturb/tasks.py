"""The tasks of hooks: which were run, and what is wrong with their order.

A pair is of one VM and of the host whose drain has opened it. The contract is docs/policy.md, "Hooks": at least once.
What was run and is not written down yet may be run again; what is written down may not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perturb.watch import ACTIVE, Watch

# What is done with a VM that nobody may do before its `before` was run.
_TOUCHES = ("migrate", "shutdown", "save", "force_off", "cold_define", "mark", "autostart_off")
_STARTS = ("start", "cold_start")


@dataclass
class Pair:
    """`open`: until the answer of an `after` is in the record. `ran`: was its `before` run? `due`: an `after`. `cut`:
    has a run ended that may have written down that it asks, and never came to ask? `answered`: what the record has."""

    open: bool = False
    ran: bool = False
    due: bool = False
    cut: bool = False
    answered: str = ""


@dataclass
class Tasks:
    watch: Watch = field(init=False)
    hooked: set[str] = field(default_factory=set)  # VMs that have them
    pairs: dict[tuple[str, str], Pair] = field(default_factory=dict)

    def _of(self, node: str, uuid: str) -> Pair:
        return self.pairs.setdefault((node, uuid), Pair())

    def _wrong(self, text: str) -> None:
        self.watch.out_of_order.add(text)

    def look(self, node: str, words: Sequence[str]) -> None:
        """At each act: was the `before` of its VM run? One that a restore starts is to be followed by an `after`."""
        if words[0] != "write":
            return
        domain = self.watch.fleet.machines[node].domains.get(words[-1])
        if domain is not None and domain.spec.document.get("web"):
            self.hooked.add(words[-1])
        if words[-1] not in self.hooked:
            return
        pair = self._of(node, words[-1])
        if words[1] in _TOUCHES and not pair.ran and domain is not None and domain.state.value in ACTIVE:
            self._wrong(f"{words[1]} of {words[-1]} on {node} before its hook `before`")
        if words[1] in _STARTS:
            pair.open, pair.due, pair.answered = True, True, ""

    def ask(self, needs: Sequence[Mapping[str, str]]) -> None:
        for need in needs:
            self._of(need["node"], need["uuid"]).open |= need["hook"] == "before"

    def run(self, need: Mapping[str, str]) -> None:
        """They are run to their end."""
        pair, what = self._of(need["node"], need["uuid"]), f"`{need['hook']}` of {need['uuid']} on {need['node']}"
        if pair.answered == need["hook"]:
            self._wrong(f"{what} is run again, and its answer is in the record")
        if need["hook"] == "before":
            pair.ran = pair.due = True
            return
        if not (pair.open or pair.cut):
            self._wrong(f"{what} is run without a `before`")
        pair.due = False

    def written(self, answers: Sequence[Mapping[str, str]]) -> None:
        """The answers are in the record."""
        for need in answers:
            pair = self._of(need["node"], need["uuid"])
            pair.answered = need["hook"]
            if need["hook"] == "after":
                pair.open = pair.ran = pair.cut = False

    def at_word(self, said: Mapping[str, Any]) -> list[str]:
        """Which pairs are open when a command says its word, and nothing says why."""
        if said["phase"] in ("Killed", "Failed", "Superseded"):
            for uuid in self.watch.names:
                self._of(said["node"], uuid).cut = True
        if said["phase"] not in ("Drained", "Active", "Blocked") or said.get("checked"):
            return []
        given = {uuid for uuid, row in said["vms"].items() if row["reason"]}
        open_ones = [u for (node, u), pair in self.pairs.items() if node == said["node"] and pair.due]
        return [f"{said['phase']}, and the `after` of {uuid} was not run" for uuid in open_ones if uuid not in given]
