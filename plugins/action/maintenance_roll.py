# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail, AnsibleAuthenticationFailure, AnsibleConnectionFailure
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import wall
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.tally import tally, undone
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import planned, terms, words
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.options import ASKED_SPEC, ROLL_SPEC
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import clocks, own_run, own_uuid, playbook
from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import Fleet, of_inventory
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain
from ansible_collections.virtops.maintenance.plugins.plugin_utils._module import run_module
from ansible_collections.virtops.maintenance.plugins.plugin_utils._outcomes import for_later
from ansible_collections.virtops.maintenance.plugins.plugin_utils._paths import on_controller
from ansible_collections.virtops.maintenance.plugins.plugin_utils._report import of_task
from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll import (
    Said,
    connects_anew,
    keep_alive,
    others_work,
    waits,
)
from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll_plan import foresee
from ansible_collections.virtops.maintenance.plugins.plugin_utils._unanswered import Unanswered

# Of a request, beside ROLL_SPEC, for the action alone.
_OWN_SPEC: dict[str, Any] = {
    "faults": {"type": "list", "elements": "str", "default": []},  # begun: what is wrong with the variables
    "reach_for": {"type": "float", "default": 0},  # seconds for which a host is tried again that may be rebooting
    "looks": {"type": "list", "elements": "dict", "default": []},  # planned: what the preflight of each host returned
    "reached": {"type": "list", "elements": "dict", "default": []},  # planned: tries to reach them as Ansible does
    "policy": {"type": "dict", "default": {}},  # planned: options of maintenance_plan but for what is read here
    "must_fit": {"type": "bool", "default": True},  # planned: a roll that does not fit is refused
    "plan_file": {"type": "str", "default": ""},  # begun, planned: its order and times stand
    "restored": {"type": "dict", "default": {}},  # noted, given back: what the restore of the host returned
}
# Each of these is asked of one quorum host after the other, until one answers. The last one has to: then
# the task fails. Unreachable it would end the play, also where that is ignored.
_IN_TURN = ("planned", "homeward", "ended", "aborting", "aborted", "read")
# After these the roll is over, has hosts left, or cannot be done.
_ENDS = ("ended", "aborted", "planned")
# What a roll that failed returns, beside `msg`.
_TOLD = ("changed", "answer", "ended", "error", "event", "stats", "ansible_stats")
# Seconds for which a connection that broke is tried again: a host was there a moment ago.
_REACH_FOR = {"noted": 60, "came_back": 60}
# Seconds between two tries to reach a host that may be rebooting.
_AGAIN = 5.0
# Seconds for which one call waits for the turn: while nobody is seen to do anything; while others work, of the host
# whose turn is next, and of those after it.
_WAITS, _WAITS_NEXT, _WAITS_FAR = 20, 60, 240
# The first that is asked of the cluster
_FIRST = ("begun", "planned", "read")


class ActionModule(ActionBase):
    """Calls virt_roll or kubevirt_roll until it is final, and shows what it says.

    Decides nothing.
    """

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        self._vars: Mapping[str, Any] = task_vars or {}
        self._state, args, own = self._asked()
        if own["faults"]:
            return {**base, "failed": True, "msg": plain(" ".join([*own["faults"], "Nothing was done."]))}
        fleet = Fleet(self._templar, self._vars)
        self._at = self._task.delegate_to or self._vars["inventory_hostname"]
        self._module = f"{'kubevirt' if fleet.kubevirt else 'virt'}_roll"
        self._reach = fleet.reach(self._at)
        if fleet.kubevirt:
            self._reach = {key: value for key, value in given(self._task.args).items() if key not in ASKED_SPEC}
        must_answer = self._state in _IN_TURN and [self._at] == fleet.quorum_hosts()[-1:]
        self._report = of_task(self._templar, self._vars, bool(self._task.check_mode))
        args |= self._known_here(args, own)
        name = waits() if self._state == "admitted" else ""
        try:
            call = Unanswered(Display().display).patient(self._once, self._state in _FIRST)
            until = time.monotonic() + (own["reach_for"] or _REACH_FOR.get(self._state, 0))
            result = self._until_final(call, args, until, must_answer)
        finally:
            if name:
                waits(name)
        if "silent" in result:
            return {**base, **result}
        if own["restored"] and not result.get("failed"):
            self._report.restore(args["roll_host"], given(own["restored"]))
        begins = self._state == "begun" or (self._state, result.get("answer")) == ("aborting", "go")
        if begins and not (result.get("failed") or self._task.check_mode):
            keep_alive(self._alone(self._once), args)
        return {**base, **result, **({"targets": self._targets} if self._state == "planned" else {})}

    def _known_here(self, args: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """Add the parts of the request that only the controller knows. Raises AnsibleActionFail."""
        found: dict[str, Any] = {"roll_run": own_run()}
        if self._state == "begun":
            found["roll_id"] = args["roll_id"] or secrets.token_hex(3)
            found["groups"] = of_inventory(args["max_unavailable_per"], self._vars["hostvars"])
            found |= _of_the_controller(args, own["plan_file"])
        if self._state == "planned":
            found |= self._plan(args, own)
        if own["restored"]:
            found["tally"] = tally(undone(given(own["restored"])))
        return found

    def _once(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """`asked`: the request, and with it the state, if it is another one, and what the module is told of us."""
        request = {**{key: value for key, value in asked.items() if key in ROLL_SPEC}, "now": wall.of(time.time())}
        told = {"state": asked.get("state", self._state), "playbook": asked.get("playbook", "")}
        since = clocks()
        found = self._execute(self._module, {**self._reach, **told, "request": request})
        return {**found, "asked": since} if told["state"] == "noted" else found

    def _execute(self, name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        return run_module(self, name, args, self._vars)

    def _read_cluster(self, more: Mapping[str, Any]) -> dict[str, Any]:
        reach = {key: value for key, value in self._reach.items() if key != "lock_namespace"}
        read = Unanswered(Display().display).patient(self._execute, True)
        return dict(read("kubevirt_fleet_info", {**reach, "controller_uuid": own_uuid(), **more}))

    def _asked(self) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """The state; the request, filled in; and what of it is for the action alone. Raises AnsibleActionFail."""
        request = given(self._task.args.get("request") or {})
        checked = ArgumentSpecValidator({**ROLL_SPEC, **_OWN_SPEC}).validate(request)
        if checked.error_messages:
            raise AnsibleActionFail(plain(" ".join([*checked.error_messages, "Nothing was done."])))
        found = checked.validated_parameters
        own = {name: found[name] for name in _OWN_SPEC}
        return str(self._task.args.get("state")), {name: found[name] for name in ROLL_SPEC}, own

    def _plan(self, args: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """The plan of the roll, shown and put into its report; what the record needs of it."""
        plan = {**own, "policy": given(own["policy"]), "max_failures": args["max_failures"]}
        fault = self._report.fault
        found = foresee(plan, args["hosts"], self._read_cluster, self._vars["hostvars"])
        found.objections += [fault] if fault else []
        if not found.objections or self._task.check_mode:
            forks = int(context.CLIARGS["forks"])
            for line in found.lines(args["roll_id"], args["hosts"], bool(self._task.check_mode), forks):
                Display().display(plain(line))
        self._report.plan(found.plan)
        self._targets = found.targets(own["plan_file"])
        return found.of_roll(bool(own["plan_file"]))

    def _until_final(self, call: Any, args: dict[str, Any], until: float, must_answer: bool) -> dict[str, Any]:
        """`until`: by when the host has to answer. If it does not, the result of a quorum host is `silent`,
        but for the last of them."""
        said, changed = Said(self._state), False
        watch: dict[str, Any] = {}
        result: dict[str, Any] = {}
        alone: float | None = None  # since when no other worker does anything
        while True:
            asks = playbook()[1]
            if watch and self._state == "admitted":
                # Who rests waits for the time alone, and who waits for hosts of others for those: for no other worker.
                works = others_work() or any(watch.get(since) is not None for since in ("rests", "since"))
                alone = None if works else alone or time.monotonic()
                watch["alone_for"] = time.monotonic() - alone if alone else 0.0
                # Each call costs a start of the module, on every host that waits.
                far = _WAITS_NEXT if result.get("is_next") else _WAITS_FAR
                args["slice"] = far if works else _WAITS
            try:
                result = call({**args, "watch": watch, "playbook": asks})
            except AnsibleConnectionFailure as exc:
                # A wrong password does not become right, and again and again it locks the account.
                if time.monotonic() <= until and not isinstance(exc, AnsibleAuthenticationFailure):
                    time.sleep(_AGAIN)
                    continue
                if self._state not in (*_IN_TURN, "begun"):
                    raise
                if must_answer:
                    # Unreachable it would be one line of JSON for all hosts, with "{{ item }}" in it.
                    raise AnsibleActionFail(plain(words.no_quorum_host_answers(self._at, str(exc)))) from None
                Display().display(plain(words.is_silent_quorum_host(self._at, str(exc))))
                return {"changed": False, "silent": True}
            result["changed"] = changed = changed or bool(result.get("changed"))
            self._report.roll(result)
            if "stats" in result and self._state in ("ended", "planned"):
                result["ansible_stats"] = for_later("maintenance_roll_stats", result["stats"])
            for line in result.get("lines", ()):
                Display().display(plain(line))
            if self._state in _ENDS and result.get("answer") == "closed":
                message = "\n".join(map(plain, str(result["message"]).splitlines()))
                # Ansible prints a failure as JSON: in words is enough. The report and the record have the rest.
                told = {key: result[key] for key in _TOLD if key in result}
                return {**told, "failed": True, "msg": message}
            for line in said.lines(result, time.monotonic()):
                Display().display(line)
            if result.get("failed") or result.get("ended") != "out_of_time":
                return result
            watch = dict(result["watch"])

    def _alone(self, call: Any) -> Any:
        """Call the module in a process that has its own session with the host, and makes its own temporary directory
        there and removes it."""

        def alone(args: dict[str, Any]) -> dict[str, Any]:
            self._kept = connects_anew(self._connection)
            self._connection._shell.tmpdir = None
            try:
                return dict(call(args))
            finally:
                self.cleanup(force=True)

        return alone


def _of_the_controller(args: dict[str, Any], plan_file: str) -> dict[str, Any]:
    """Return what only the controller knows: its time zone, and its files. Raises AnsibleActionFail."""
    try:
        now = datetime.now().astimezone()
        until = terms.until("maintenance_until", str(args.get("until") or ""), now, datetime.astimezone)
        if not plan_file:
            return {"until": until}
        with open(on_controller(plan_file), encoding="utf-8") as stream:
            plan = json.load(stream, parse_constant=_no_number)
        if not isinstance(plan, dict):
            raise ValueError(f"expected a plan, which is an object, not a {type(plan).__name__}")
        hosts = planned.order_of(plan, args["hosts"])
        return {"until": until, "hosts": hosts, "seconds": planned.seconds_of(plan)}
    except PolicyError as exc:
        raise AnsibleActionFail(f"{exc}. Nothing was done.") from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise AnsibleActionFail(f"maintenance_plan_file {plan_file} is not a plan: {exc}. Nothing was done.") from exc


def _no_number(text: str) -> float:
    """NaN and Infinity, which Python reads though JSON has neither."""
    raise ValueError(f"{text} is not a number of seconds")
