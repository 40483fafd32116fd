"""Before and after, for diff mode: where each VM is, and whether the node takes VMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..decision.actions import Action, Do
from ..model.observation import Observation, State
from ..model.record import NodeRecord
from ..reasons.reason import Platform

DiffLines = dict[str, str]

_NODE = {Do.CORDON: "cordoned", Do.UNCORDON: "takes VMs"}
# What an act makes of a VM: the state, and whether it is then on the act's target.
_VM = {
    Do.MIGRATE: (State.RUNNING, True),
    Do.COLD_DEFINE: (State.SHUTOFF, True),
    Do.COLD_START: (State.RUNNING, True),
    Do.START: (State.RUNNING, False),
    Do.SHUTDOWN: (State.SHUTOFF, False),
    Do.FORCE_OFF: (State.SHUTOFF, False),
    Do.SAVE: (State.SHUTOFF, False),
}


def diff_lines(obs: Observation, record: NodeRecord) -> DiffLines:
    """One line per VM of the node and of the record, and one for the node."""
    names = {uuid: entry.name for uuid, entry in record.vms.items()}
    places: dict[str, list[str]] = {uuid: [] for uuid in names}
    for uuid, vm in obs.vms.items():
        names[uuid] = vm.name
        places.setdefault(uuid, []).append(_place(vm.state, vm.node))
    for uuid in names:
        places[uuid] += [_place(s.state, s.node) for s in obs.sightings.get(uuid, []) if _counts(s.state)]
    lines = {_vm(names[uuid]): ", ".join(sorted(found)) for uuid, found in places.items() if found}
    cordoned = obs.nodes[record.node].cordoned
    lines[_node(record.node, obs.platform)] = "cordoned" if cordoned else "takes VMs"
    return lines


def predicted_lines(before: DiffLines, actions: Sequence[Action], platform: Platform) -> DiffLines:
    """The same once `actions` are done."""
    after = dict(before)
    for action in actions:
        if action.do in _NODE:
            after[_node(action.node, platform)] = _NODE[action.do]
        elif action.do in _VM:
            state, on_target = _VM[action.do]
            after[_vm(action.name)] = _place(state, action.target if on_target else action.node)
    return after


def diff(before: DiffLines, after: DiffLines) -> dict[str, str]:
    """Ansible's form: two texts."""
    return {"before": _text(before), "after": _text(after)}


def _text(lines: Mapping[str, str]) -> str:
    return "".join(f"{what}: {lines[what]}\n" for what in sorted(lines))


def _place(state: State, node: str) -> str:
    return f"{state.words} on {node}"


def _counts(state: State) -> bool:
    return state not in (State.ABSENT, State.UNKNOWN)


def _vm(name: str) -> str:
    return f"VM {name}"


def _node(name: str, platform: Platform) -> str:
    return f"{platform.traits.host} {name}"
