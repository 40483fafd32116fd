"""The options of the modules that keep the record of a roll, and what each state of them does.

The platforms' modules share all of it; each gives its own store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..model.policy import PolicyError
from . import run
from .record import NOTE_PATIENCE, Clock, RollStore, Stage
from .rules import Ask, RollAnswer
from .stages import Note
from .terms import TERMS_SPEC, Terms, of_hosts

STAGES = [stage.value for stage in Stage if stage is not Stage.DRAINING]
STATES = (
    "begun",  # begin the roll, or carry an unfinished one on that has the same hosts and settings
    "planned",  # give it the order of `hosts` and `seconds` before its first host; with `objections` it is over
    "admitted",  # wait until `roll_host` may go out of service; `steps` is what is left to be done with it
    "noted",  # `roll_host` has come to `stage`
    "homeward",  # which VMs go back to where they were, once all hosts are done
    "came_back",  # what came of `vm`, whose home is `roll_host`
    "renewed",  # write now and then for as long as `slice`, so that everybody sees that the roll lives
    "ended",  # how the roll ended; one with hosts left waits for the same command
    "aborting",  # stop the roll, whoever has it; `order` is which hosts are to be given back
    "aborted",  # that has come to its end
    "read",
)
ROLL_SPEC: dict[str, Any] = {
    "hosts": {"type": "list", "elements": "str", "default": []},  # in their order; homeward: of the play
    "roll_host": {"type": "str", "default": ""},
    "stage": {"type": "str", "choices": STAGES},
    "why": {"type": "str", "default": ""},  # it failed; came_back: why `vm` is still to go back
    "now": {"type": "str", "default": ""},  # UTC, by the clock of the controller as it calls
    "targets": {"type": "list", "elements": "str", "default": []},  # of its VMs by the plan: it waits for those
    "tally": {"type": "dict", "default": {}},  # what became of its VMs, numbers
    "moved": {"type": "dict", "default": {}},  # VM -> host; by UUID, on KubeVirt namespace/name/UID
    "recovery": {"type": "dict", "default": {}},  # on_dead, fenced; and result or failure, see `reboot`
    "vm": {"type": "str", "default": ""},  # named as in `moved`
    "is_back": {"type": "bool", "default": False},
    "let_finish": {"type": "bool", "default": False},  # slices that are under way let migrations end that run
    "roll_id": {"type": "str", "default": ""},
    "roll_run": {"type": "str", "default": ""},  # which ansible-playbook asks
    "requester": {"type": "str", "default": ""},
    "reason": {"type": "str", "default": ""},
    **TERMS_SPEC,
    "take_over": {"type": "bool", "default": False},
    "objections": {"type": "list", "elements": "str", "default": []},
    "patience": {"type": "float", "default": 3600.0},  # seconds for hosts that others drain
    "slice": {"type": "int", "default": 20},  # seconds after which a call hands back
    "watch": {"type": "dict", "default": {}},  # what the call before saw
    "rank": {"type": "int", "default": 0},  # renewed: 0 writes after ten seconds in which nobody did, 1 after twenty
}
# Of the modules. The action has checked the request by ROLL_SPEC, and filled it in.
ASKED_SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": list(STATES), "required": True},
    "request": {"type": "dict", "default": {}},
}


_AT_THE_END = ("homeward", "ended", "aborted")


def answer_of(
    params: Mapping[str, Any], store: RollStore, here: Clock, boot_id: Callable[[], str], check: bool = False
) -> RollAnswer:
    """Do what `state` asks, and give the module's result. `params`: state, and all keys of ROLL_SPEC. `boot_id`: reads
    that of `roll_host`.

    Raises PolicyError for a missing or wrong option, RollRefused, RollTakenOver, and what the store
    raises.
    """
    state, host, runner = params["state"], params["roll_host"], params["roll_run"]
    until = here.now() + params["slice"]
    if state == "read" or (check and state in ("ended", "aborted")):
        return run.read(store, here.wall(), here.ended)
    if not runner:
        raise PolicyError("roll_run is missing: call the action maintenance_roll, which sets it")
    of_the_roll: dict[str, Callable[[], RollAnswer]] = {
        "begun": lambda: run.begin(store, ask(params), here, until, params["watch"], check),
        "planned": lambda: run.plan(store, runner, *_plan(params), here, check),
        "homeward": lambda: run.homeward(store, runner, params["hosts"]),
        "ended": lambda: run.end(store, runner, here),
        "renewed": lambda: run.renew(store, runner, here, until, params["rank"]),
        "aborting": lambda: run.abort(
            store,
            runner,
            params["requester"],
            here,
            check,
            params.get("playbook", ""),
            params["let_finish"],
            until,
            params["watch"],
        ),
        "aborted": lambda: run.aborted(store, runner, here),
    }
    if state in _AT_THE_END:  # hours were worked for it, and the last host may be a quorum host that has just rebooted
        return run.patiently(of_the_roll[state], here, until, params["watch"], NOTE_PATIENCE)
    if state in of_the_roll:
        return of_the_roll[state]()
    if not host:
        raise PolicyError(f"roll_host is missing: with state={state} it names the host")
    if check:
        return run.without_record()
    watch = params["watch"]
    if state == "came_back":
        went = params["vm"], params["is_back"], params["why"]
        return run.patiently(lambda: run.came_back(store, host, runner, *went, here), here, until, watch, NOTE_PATIENCE)
    if state == "admitted":
        boot = boot_id()
        patience, called = params["patience"], (params["now"], here.now())

        def step() -> RollAnswer:
            return run.turn(store, host, runner, boot, here, until, watch, patience, params["targets"], called)

        return run.patiently(step, here, until, watch, patience)
    if not params["stage"]:
        raise PolicyError("stage is missing: with state=noted it says which stage the host has reached")
    stage = Stage(params["stage"])
    boot = boot_id() if stage is Stage.REBOOTING else ""

    def note() -> RollAnswer:
        tally = {str(key): int(value) for key, value in params["tally"].items()}
        moved = {str(vm): str(host) for vm, host in params["moved"].items()}
        why, recovery = " ".join(params["why"].split()), params["recovery"]
        what = Note(stage, boot, why, tally, moved, recovery)
        return run.note(store, host, runner, what, here, until, watch, params["patience"])

    return run.patiently(note, here, until, watch, NOTE_PATIENCE)


def ask(params: Mapping[str, Any]) -> Ask:
    """The roll that is wanted. Raises PolicyError."""
    hosts = params["hosts"]
    if not hosts or len(set(hosts)) != len(hosts):
        raise PolicyError(f"hosts is {hosts}: expected at least one name, and none twice")
    return Ask(
        id=params["roll_id"],
        run=params["roll_run"],
        hosts=hosts,
        terms=Terms.of(params),
        requester=params["requester"],
        reason=params["reason"],
        take_over=params["take_over"],
        playbook=params.get("playbook", ""),
    )


def _plan(params: Mapping[str, Any]) -> tuple[list[str], dict[str, float], list[str]]:
    return params["hosts"], of_hosts("seconds", params["seconds"]), params["objections"]
