"""The record of a recovery, on peers of the host that died. Kept as the record of a roll is (see `roll`).

A drain or restore beside it reads from there what it must not start, and what is about to be started on its host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._core.model.observation import Observation, Reservation
from ..._core.model.record import RecordError
from ..._core.reasons.reason import Finding, Reason
from ..._core.recovery.record import Recovery, Step
from ..host.connection import HostUnreachable, libvirt
from ..observe.host import Host, HostNow
from ..store.names import split_generation
from ..store.volumes import StoreError
from .roll import RECOVERY, RollVolumes

_TRIES = 5


class RecoveryVolumes(RollVolumes):
    """`quorum_hosts`: of the peers of the host; most have to take each generation."""

    load: Callable[[str], Any] = staticmethod(Recovery.from_json)

    def __init__(self, hosts: Mapping[str, Host], quorum_hosts: Sequence[str], host: str) -> None:
        super().__init__(hosts, quorum_hosts)
        self.prefix = f"{RECOVERY}.{host}"

    def change(self, act: Callable[[Recovery | None], Recovery | None]) -> Recovery | None:
        """Read the record, let `act` change it, and write what `act` gives; again where somebody else wrote meanwhile.

        Gives the record as it was written. None: `act` gave None, so nothing was written.

        Raises RecordError, RollUnreadable.
        """
        for _again in range(_TRIES):
            old, seen = self.read()
            new = act(old)  # type: ignore[arg-type]
            if new is None:
                return None
            if self.write(new, seen):  # type: ignore[arg-type]
                return new
        raise RecordError(f"{self.prefix} was changed by others {_TRIES} times during the write: run again")

    def end(self, host: str) -> None:
        """Write that the recovery is over. An empty record says so: a quorum host that is away now has an older one,
        which must not be taken for the last word when it is back. Raises what `change` raises."""
        self.change(lambda _old: Recovery(host))


def note_takeovers(hosts: Mapping[str, Host], reads: Mapping[str, HostNow], own: str, obs: Observation) -> None:
    """Note in `obs` what recoveries say, for a drain or restore of the host `own`. Raises RecordError.

    A VM of this host that was started elsewhere is kept off (`kept_off`). One that a recovery is about to start here
    becomes a reservation that does not end by waiting. `reads`: the last read of each host.

    A cordon is written before this is read, the record before the cordon is read (`fleet`): so of a drain and a
    recovery one sees the other.
    """
    for known in _newest(hosts, {name: read.names for name, read in reads.items()}):
        for taken in filter(None, map(known.taken, known.vms)):
            vm = obs.vms.get(taken.uuid)
            if vm is not None and vm.active:
                continue
            if known.host == own and vm is not None:
                text = f"{vm.name} was started on {taken.target} while {own} was down. Run the playbook recover for"
                obs.vms[taken.uuid] = replace(vm, kept_off=Finding(Reason.MayStartTwice, f"{text} {own}."))
            if taken.step is Step.STARTING and taken.target == own:
                note = f"{taken.name} is being started here by the recovery of {known.host}. Run the playbook recover"
                note = f"{note} for {known.host} again, if none is running"
                obs.inbound.append(Reservation(taken.uuid, own, known.host, 0, note, stuck=True))


def _newest(hosts: Mapping[str, Host], names: Mapping[str, Iterable[str]]) -> list[Recovery]:
    """The newest record of each dead host, among the hosts that were read. `names`: host -> its volumes. A host that
    does not answer now is passed over. Raises RecordError for a record that cannot be read."""
    found: dict[str, tuple[int, str, str]] = {}
    for name, volumes in names.items():
        for head in {split_generation(volume)[0] for volume in volumes}:
            if not head.startswith(f"{RECOVERY}."):
                continue
            try:
                one = hosts[name].store.read_generation(head)
            except (HostUnreachable, StoreError, libvirt.libvirtError):
                continue
            if one is not None:
                where = f"volume {head}.{one.number} in pool virtops of {name}"
                found[head] = max(found.get(head, (0, "", "")), (one.number, where, one.text))
    return [_load(where, text) for _number, where, text in found.values()]


def _load(where: str, text: str) -> Recovery:
    try:
        return Recovery.from_json(text)
    except RecordError as exc:
        raise RecordError(f"{exc} ({where}). Nothing was changed.") from exc
