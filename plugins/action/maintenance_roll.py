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
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.tally import tally, undone
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import window, words
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import own_run, playbook
from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import of_inventory
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain
from ansible_collections.virtops.maintenance.plugins.plugin_utils._report import of_task
from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll import Said, keep_alive, others_work, waits
from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll_plan import foresee
from ansible_collections.virtops.maintenance.plugins.plugin_utils._unanswered import Unanswered

# Options that only libvirt's module has, and those that both have.
_LIBVIRT = ("node", "uri", "peers", "slots_on")
_ROLL = (
    *("state", "hosts", "roll_host", "stage", "why", "targets", "tally", "moved", "recovery", "vm", "is_back"),
    "let_finish",
    *("roll_id", "requester", "reason"),
    *("settings", "max_unavailable", "max_unavailable_per", "groups", "max_failures", "count_others", "take_over"),
    *("patience", "slice", "rank", "soak", "pause_after", "until", "seconds", "objections"),
)
# Of the action alone: what a plan is made of.
_PLAN = {"looks": [], "reached": {}, "policy": {}, "must_fit": True, "plan_file": ""}
# After these the roll is over, has hosts left, or cannot be done.
_ENDS = ("ended", "aborted", "planned")
# What a roll that failed returns, beside `msg`.
_TOLD = ("changed", "answer", "ended", "error", "event", "stats", "ansible_stats")
# Seconds for which a connection that broke is tried again: a host was there a moment ago.
_REACH_FOR = {"noted": 60, "came_back": 60}
# Seconds between two tries to reach a host that may be rebooting.
_AGAIN = 5.0
# Seconds for which one call waits for the turn: while others work, and while nobody is seen to do anything.
_WAITS_LONG, _WAITS = 60, 20
# The first that is asked of the cluster
_FIRST = ("begun", "planned", "read")


class ActionModule(ActionBase):
    """Calls virt_roll or kubevirt_roll until it is final, and shows what it says.

    Decides nothing.
    """

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        args = given(self._task.args)
        kubevirt = args.pop("platform", "libvirt") == "kubevirt"
        module = f"virtops.maintenance.{'kubevirt' if kubevirt else 'virt'}_roll"
        faults = args.pop("faults", None)
        if faults:
            return {**base, "failed": True, "msg": plain(" ".join([*faults, "Nothing was done."]))}
        reach_for = args.pop("reach_for", 0) or _REACH_FOR.get(str(args.get("state")), 0)
        until = time.monotonic() + float(reach_for)
        last = args.pop("must_answer", None)  # of those that keep the record; None: no other has this record
        must_answer = None if last is None else boolean(last)
        plan = {name: args.pop(name, value) for name, value in _PLAN.items()}
        restored = given(args.pop("restored", {}))
        # How the API is reached comes from the defaults of a group, whatever the platform is.
        args = {key: value for key, value in args.items() if key in _ROLL or (key in _LIBVIRT) is not kubevirt}
        args["roll_run"] = own_run()
        vars_ = task_vars or {}
        self._report = of_task(self._templar, vars_, bool(self._task.check_mode))
        if args.get("state") == "begun" and not args.get("roll_id"):
            args["roll_id"] = secrets.token_hex(3)
        if args.get("state") == "begun":
            args |= _of_the_controller(args, plan["plan_file"])
            args["groups"] = of_inventory(args.get("max_unavailable_per"), vars_["hostvars"])

        def once(module_args: dict[str, Any], name: str = module) -> dict[str, Any]:
            return dict(self._execute_module(module_name=name, module_args=module_args, task_vars=task_vars))

        call = Unanswered(Display().display).patient(once, args.get("state") in _FIRST)
        if restored:
            args["tally"] = tally(undone(restored))
        if args.get("state") == "planned":
            args |= self._plan(plan, args, call, vars_)
        name = waits() if args.get("state") == "admitted" else ""
        try:
            result = self._until_final(call, args, until, must_answer)
        finally:
            if name:
                waits(name)
        if "silent" in result:
            return {**base, **result}
        if restored and not result.get("failed"):
            self._report.restore(str(args["roll_host"]), restored)
        begins = args.get("state") == "begun" or (args.get("state"), result.get("answer")) == (*("aborting", "go"),)
        if begins and not (result.get("failed") or self._task.check_mode):
            keep_alive(self._alone(once), args)
        return {**base, **result, **({"targets": self._targets} if args.get("state") == "planned" else {})}

    def _plan(self, plan: dict[str, Any], args: Mapping[str, Any], call: Any, variables: Any) -> dict[str, Any]:
        """The plan of the roll, shown and put into its report; what the record needs of it."""
        plan["must_fit"] = boolean(plan["must_fit"])
        plan["policy"] = given(plan["policy"])
        plan["max_failures"] = int(args.get("max_failures") or 0)
        reach = {key: value for key, value in args.items() if key not in (*_ROLL, "roll_run", "lock_namespace")}

        def read_cluster(more: dict[str, Any]) -> dict[str, Any]:
            return dict(call({**reach, **more}, "virtops.maintenance.kubevirt_fleet_info"))

        fault = self._report.fault
        found = foresee(plan, args["hosts"], read_cluster, variables["hostvars"])
        found.objections += [fault] if fault else []
        if not found.objections or self._task.check_mode:
            forks = int(context.CLIARGS["forks"])
            for line in found.lines(args["roll_id"], args["hosts"], bool(self._task.check_mode), forks):
                Display().display(plain(line))
        self._report.plan(found.plan)
        self._targets = found.targets(plan["plan_file"])
        return found.of_roll(bool(plan["plan_file"]))

    def _until_final(self, call: Any, args: dict[str, Any], until: float, must_answer: bool | None) -> dict[str, Any]:
        """`until`: by when the host has to answer. If it does not, and must not, the result is `silent`."""
        said, changed = Said(str(args.get("state"))), False
        watch: dict[str, Any] = {}
        alone: float | None = None  # since when no other worker does anything
        while True:
            asks = playbook()[1]
            if watch and args.get("state") == "admitted":
                # Who rests waits for the time alone, and not for another worker.
                works = others_work() or watch.get("rests") is not None
                alone = None if works else alone or time.monotonic()
                watch["alone_for"] = time.monotonic() - alone if alone else 0.0
                # Each call costs a start of the module, on every host that waits.
                args["slice"] = _WAITS_LONG if works else _WAITS
            try:
                result = call({**args, "watch": watch, "playbook": asks})
            except AnsibleConnectionFailure as exc:
                # A wrong password does not become right, and again and again it locks the account.
                if time.monotonic() <= until and not isinstance(exc, AnsibleAuthenticationFailure):
                    time.sleep(_AGAIN)
                    continue
                if must_answer is None:
                    raise
                if must_answer:
                    # Unreachable it would be one line of JSON for all hosts, with "{{ item }}" in it.
                    raise AnsibleActionFail(plain(words.no_keeper_answers(str(args.get("node")), str(exc)))) from None
                Display().display(plain(words.is_silent_keeper(str(args.get("node")), str(exc))))
                return {"changed": False, "silent": True}
            result["changed"] = changed = changed or bool(result.get("changed"))
            self._report.roll(result)
            if "stats" in result and args.get("state") in ("ended", "planned"):
                # As set_stats does it, without a task of its own that prints three lines.
                result["ansible_stats"] = {"data": {"maintenance_roll_stats": result["stats"]}}
            for line in result.get("lines", ()):
                Display().display(plain(line))
            if args.get("state") in _ENDS and result.get("answer") == "closed":
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
        """For a process of its own: each call makes its temporary directory and removes it."""

        def alone(args: dict[str, Any]) -> dict[str, Any]:
            self._connection._shell.tmpdir = None
            try:
                return dict(call(args))
            finally:
                self.cleanup(force=True)

        return alone


def _of_the_controller(args: dict[str, Any], plan_file: str) -> dict[str, Any]:
    """What only the controller knows: its time zone, and its files. Raises AnsibleActionFail."""
    try:
        now = datetime.now().astimezone()
        until = window.until("maintenance_until", str(args.get("until") or ""), now, datetime.astimezone)
        if not plan_file:
            return {"until": until}
        with open(plan_file, encoding="utf-8") as stream:
            plan = json.load(stream, parse_constant=_no_number)
        if not isinstance(plan, dict):
            raise ValueError(f"a plan is an object, and this is a {type(plan).__name__}")
        hosts = window.planned_order(plan, args["hosts"])
        return {"until": until, "hosts": hosts, "seconds": window.planned_seconds(plan)}
    except PolicyError as exc:
        raise AnsibleActionFail(f"{exc}. Nothing was done.") from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise AnsibleActionFail(f"maintenance_plan_file {plan_file} is no plan: {exc}. Nothing was done.") from exc


def _no_number(text: str) -> float:
    """NaN and Infinity, which Python reads though JSON has neither."""
    raise ValueError(f"{text} is no number of seconds")
