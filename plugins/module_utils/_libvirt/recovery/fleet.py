"""The hosts beside the one that died: connections, what they keep of it, the record, and a start on one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..._core.claims.admission import quorum_hosts
from ..._core.model.observation import VM, Observation, Sighting
from ..._core.model.policy import PolicyError
from ..._core.model.record import RecordError
from ..._core.reasons.reason import Finding, Reason
from ..._core.recovery.record import Recovery, Step, Taken, unproven
from ..._core.recovery.takeover import Safety
from ..._core.roll.record import Roll
from ..blockers.same_files import identity, same_file
from ..blockers.shared_storage import path_on_target
from ..domain.xml import agent_connected
from ..host.connection import HostUnreachable, is_lost, keep_state, libvirt
from ..observe.host import Host, HostConfig, HostNow
from ..observe.observe import node_of
from ..observe.peers import Peers, open_peer
from ..records import protected, roll
from ..records.drained import with_drained
from ..records.protected import Kept
from ..records.recovery import RecoveryVolumes
from . import arp, nvram, volumes
from .look import Guests, answers, now, serves
from .nvram import NvramInUse

# Seconds, of each start. The host's kernel answers in milliseconds; a lost packet it would get again after 1 s.
_LAST_LOOK = 0.5


class HostAnswers(Exception):
    """The host that was taken for dead answered. Nothing more is started."""


class _Elsewhere(Exception):
    """This VM is not started on its target: the reason, empty where it runs already."""


class Fleet:
    """The hosts around one that died. `own`: the peer that this runs on; `host`: the one that died.

    `peers`: all hosts but `own`, the dead one among them; `others`: all but the dead one. Raises PolicyError where
    `host` is not among the peers.
    """

    def __init__(self, own: HostConfig, peers: Sequence[HostConfig], host: str, acts: bool) -> None:
        uris = {config.name: config.uri for config in peers}
        if host not in uris:
            raise PolicyError(f"host is {host}: expected one of peers ({', '.join(sorted(uris))})")
        self.host, self.uri, self._own = host, uris[host], own.name
        self.others: dict[str, Host] = {own.name: Host(own, acts=acts)}
        self.others |= {c.name: Host(c, open_peer, acts=acts) for c in peers if c.name != host}
        self.quorum_hosts = list(quorum_hosts(self.others))
        dead = {c.name: Host(c, open_peer, acts=acts) for c in peers if c.name == host}
        self._all = {**self.others, **dead}
        self.record = RecoveryVolumes(self.others, self.quorum_hosts, host)
        self._peers = Peers(self.others.values())
        self._lacking: dict[tuple[str, str], Finding | None] = {}
        self.is_up = False  # the host is known to be up, without its libvirtd

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_error: object) -> None:
        self.record.close()
        self._peers.close()

    def check_roll(self, run: str) -> Roll | None:
        """Check that no roll but that of `run` works on the host, and give the roll that there is. Raises RollRefused,
        RecordError."""
        return roll.check_dead(self._all, quorum_hosts(self._all), self.host, run)

    def kept(self) -> tuple[Kept | None, list[str]]:
        """(what peers keep of the host, with what a drain left there; quorum hosts that could not be read, with why).
        None: no peer has anything. A host that was not asked whether it can take the VMs takes none. Raises
        RecordError."""
        kept, unread = protected.read(self.host, [self.others[name] for name in self.quorum_hosts])
        if kept is not None:
            text = f"was not asked whether it can take the VM when {self.host} was protected"
            new = {n: (Finding(Reason.PeerUnreachable, f"{n} {text}."),) for n in self.others if n not in kept.hosts}
            kept.refuse({vm.uuid: new for vm in kept.vms})
        return with_drained(kept, self.host, self.others, self.others[self._own].facts), unread

    def missing(self, kept: Kept) -> list[VM]:
        """VMs that ran on another host when that was protected, and that no host has now. They may have come to this
        one since, which only its own `protect` would have recorded."""
        found: dict[str, VM] = {}
        for name in self.others:
            keepers = [self.others[other] for other in quorum_hosts(set(self._all) - {name}) if other in self.others]
            with suppress(RecordError):
                theirs, _unread = protected.read(name, keepers)
                ran = [vm for vm in theirs.vms if vm.active] if theirs is not None else []
                found.update({vm.uuid: _left(theirs, vm, self.host) for vm in ran})
        for vm in kept.vms:
            found.pop(vm.uuid, None)
        seen = self.observe(found).sightings if found else {}
        return [vm for uuid, vm in found.items() if uuid not in seen]

    def to_watch(self, kept: Kept, vms: Sequence[VM]) -> Guests:
        """The signs of life of these VMs that can be watched from here: their files and interfaces."""
        networks = self.others[self._own].facts.networks or {}
        return Guests(
            {vm.name: list(kept.files.get(vm.uuid, ())) for vm in vms},
            {vm.name: arp.nics(kept.definitions.get(vm.uuid, ""), networks) for vm in vms},
            kept.addresses,
        )

    def safety(self, kept: Kept, guarded: bool, stays_off: bool) -> Safety:
        """Return what keeps a VM of the dead host from running twice. `guarded`: its guard asks the quorum hosts;
        `stays_off`: the user says that it stays off. What is kept of the other hosts is read only where the dead one
        has locks at all; where it cannot be read that host has none."""
        locks, images = dict[str, str](), {self.host: kept.locked}
        for name in self.others if kept.lock or kept.locked else ():
            with suppress(RecordError):
                theirs, _unread = protected.read(name, [host for other, host in self.others.items() if other != name])
                if theirs is not None:
                    locks[name], images[name] = theirs.lock, theirs.locked
        return Safety(guarded, kept.lock, locks, stays_off, images)

    def read(self) -> dict[str, HostNow]:
        """Read all other hosts now, by name. One that does not answer has its `error`."""
        self._peers.ask()
        return self._peers.answers()

    def observe(self, uuids: Iterable[str]) -> Observation:
        """Read all other hosts, as an Observation: without VMs, and with a sighting for each host that has a domain of
        one of `uuids`."""
        reads = self.read()
        obs = Observation({name: node_of(host, reads[name]) for name, host in self.others.items()}, {})
        for uuid in uuids:
            seen = [Sighting(name, read.domains[uuid].state) for name, read in reads.items() if uuid in read.domains]
            if seen:
                obs.sightings[uuid] = seen
        return obs

    def note(self, act: Callable[[Recovery], Recovery]) -> Recovery:
        """Write the record of the recovery as `act` changes it, and give it. Raises RecordError, RollUnreadable."""
        return self.record.change(lambda old: act(old or Recovery(self.host)))

    def lacking(self, uuid: str, target: str, kept: Kept) -> Finding | None:
        """Why the target cannot take the VM now, by its volumes, with the identity that its host kept of each; None:
        it sees the same, or cannot tell. It is asked once."""
        key, files, others = (uuid, target), kept.files.get(uuid, {}), kept.volumes.get(uuid, {})
        if key not in self._lacking:
            self._lacking[key] = self._missing(target, files, others) if files or others else None
        return self._lacking[key]

    def _missing(self, target: str, files: Mapping[str, int], others: Mapping[str, Sequence[str]]) -> Finding | None:
        host = self.others[target]
        try:
            own = self.others[self._own].facts
            for source, (kind, known) in others.items():
                if text := volumes.differs(source, kind, known, own, host):
                    return Finding(Reason.DisksNotLiveMigratable, text)
            gone = [path for path in files if path_on_target(host.conn, host.facts, path) is False]
            other = [] if gone else [text for path, kept in files.items() if (text := self._other(host, path, kept))]
        except (HostUnreachable, libvirt.libvirtError) as exc:
            return Finding(Reason.PeerUnreachable, f"{target} cannot be asked for its files: {exc}")
        if gone:
            return Finding(Reason.DisksNotLiveMigratable, f"{target} does not have {', '.join(gone)} now.")
        return Finding(Reason.DisksNotLiveMigratable, f"{other[0]}.") if other else None

    def _other(self, host: Host, path: str, kept: int) -> str:
        """Why that file is not the one that the dead host had: this host compares its own with what was kept, the
        target's with its own. Empty: it is, or this host does not have it and cannot tell."""
        mine = identity(path)
        if mine and kept and mine != kept:
            return f"{path} is a different file on {self._own} than on {self.host} (number {mine}, not {kept})"
        if not mine or host.name == self._own:
            return ""
        shown = same_file(host.conn, host.facts, path, host.same_folders, acts=host.acts)
        return f"Its disk {path} {shown.why}" if shown.same is False else ""

    def bind(self, targets: Sequence[tuple[VM, str]]) -> Recovery:
        """Write down where each of them is to be started, before the first start: from then on a host that comes back
        is told so of all of them by its guard."""
        return self.note(lambda old: _bound(old, targets))

    def start(self, vm: VM, target: str, kept: Kept, known: Recovery, ask: Callable[[], None]) -> Recovery:
        """Start it on this target, unless the record has another one for it, and give the record as it then is. What
        failed is written there. `ask` raises where the playbook has ended. Raises HostAnswers, RecordError,
        RollUnreadable."""
        if known.vms[vm.uuid].target != target:
            return known
        try:
            conn = self.others[target].conn
            dom = _find(conn, vm.uuid) or self._define(vm.uuid, target, kept)
            self._still(vm, target, dom, ask)
            dom.create()
        except (HostUnreachable, libvirt.libvirtError, NvramInUse, _Elsewhere) as exc:
            # Where it is not known whether it runs there it is read again, and goes on there or not at all.
            lost = isinstance(exc, HostUnreachable) or (isinstance(exc, libvirt.libvirtError) and is_lost(exc))
            if lost or not self.withdraw(vm.uuid, target) or not str(exc):
                return known
            why = str(exc)
            return self.note(lambda old: _failed(old, vm.uuid, target, why))
        return self.settle(vm, target, known)[0]

    def _define(self, uuid: str, target: str, kept: Kept) -> Any:
        """Define it, NVRAM first: once it is defined anybody may start it."""
        host = self.others[target]
        if uuid in kept.nvram:
            nvram.put(host.conn, host.facts, uuid, *kept.nvram[uuid])
        return host.conn.defineXML(kept.definitions[uuid])

    def settle(self, vm: VM, target: str, known: Recovery) -> tuple[Recovery, str]:
        """Finish the start of a VM that runs there: its autostart if the start was ours, and the record, for the guard.
        Gives (the record, what is missing as a sentence; empty: nothing)."""
        ours = known.vms.get(vm.uuid)
        if ours is not None and vm.autostart and (ours.target == target or ours.step is Step.STARTING):
            try:
                dom = self.others[target].domain(vm.uuid)
                if not dom.autostart():
                    dom.setAutostart(1)
            except (HostUnreachable, libvirt.libvirtError) as exc:
                return known, f"Its autostart is not set there: {exc}. Run recover again."
        return self.note(lambda old: _runs(old, vm, target)), ""

    def serves(self, uuid: str, target: str) -> bool:
        """Is its guest agent connected there? True also where that cannot be read: nobody waits for it."""
        try:
            return agent_connected(self.others[target].domain(uuid).XMLDesc(0))
        except (HostUnreachable, libvirt.libvirtError, ValueError):
            return True

    def _still(self, vm: VM, target: str, dom: Any, ask: Callable[[], None]) -> None:
        """Right before the start: is the host still silent, and this still the target? The record stands by now, so a
        host that comes back after this look is told so by its guard."""
        ask()
        alive, text = (serves if self.is_up else answers)(self.uri, _LAST_LOOK)
        if alive:
            gone = self.withdraw(vm.uuid, target)
            self.note(lambda old: unproven(_without(old, vm.uuid, target) if gone else old))
            text = f"{self.host} answers again ({text}): {vm.name} was not started elsewhere. If {self.host} refused to"
            raise HostAnswers(f"{text} start it meanwhile, start it there: virsh start {vm.name}")
        found, _seen = self.record.read()
        bound = found.taken(vm.uuid) if found is not None else None
        if bound is None or bound.target != target:
            raise HostAnswers(f"another run took over {vm.name}")
        # A drain may have begun there since; or it has moved on what another run started.
        reads = self.read()
        if any(vm.uuid in read.domains and read.domains[vm.uuid].active for read in reads.values()):
            raise _Elsewhere
        if reads[target].cordoned:
            raise _Elsewhere("it has since been cordoned")

    def withdraw(self, uuid: str, target: str) -> bool:
        """Undefine it there, unless it runs, so that nobody can start it; its files stay. True: it is not defined
        there. False: it runs, or that cannot be read."""
        try:
            dom = _find(self.others[target].conn, uuid)
            if dom is not None:
                if dom.isActive():
                    return False
                dom.undefineFlags(keep_state())
        except (HostUnreachable, libvirt.libvirtError):
            return False
        return True


def _left(theirs: Kept, vm: VM, to: str) -> VM:
    """A VM of another host that may have come to `to`."""
    text = (
        f"It ran on {theirs.host} at {theirs.at}, and no host has it now. If it has since come to {to}, start it"
        f" elsewhere by hand: volume protect.{theirs.host}.N in pool virtops of {' and '.join(theirs.keepers)} has its"
        " definition."
    )
    return replace(vm, node=to, findings=(Finding(Reason.VMVanished, text),))


def _find(conn: Any, uuid: str) -> Any:
    try:
        return conn.lookupByUUIDString(uuid)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
        return None


def _bound(old: Recovery, targets: Sequence[tuple[VM, str]]) -> Recovery:
    """Write a target for each VM, with the step STARTING. One that has a target keeps it, unless its start failed."""
    for vm, target in targets:
        before = old.vms.get(vm.uuid)
        if before is None or before.step is Step.FAILED:
            tried = before.tried if before is not None else []
            old.vms[vm.uuid] = Taken(vm.uuid, vm.name, target, Step.STARTING, now(), vm.autostart, tried=tried)
    return old


def _runs(old: Recovery, vm: VM, target: str) -> Recovery:
    """Write that the VM runs on `target`, no matter who started it."""
    if vm.uuid not in old.vms or old.vms[vm.uuid].target != target:
        old.vms[vm.uuid] = Taken(vm.uuid, vm.name, target, Step.RUNS, now(), vm.autostart)
    old.vms[vm.uuid].step = Step.RUNS
    return old


def _failed(old: Recovery, uuid: str, target: str, why: str) -> Recovery:
    """Write that the start failed, and why; unless another run has got further with it."""
    entry = old.vms.get(uuid)
    if entry is not None and entry.target == target and entry.step is Step.STARTING:
        entry.step, entry.message = Step.FAILED, f"{target}: {why}"
        entry.tried = [*entry.tried, target]
    return old


def _without(old: Recovery, uuid: str, target: str) -> Recovery:
    if uuid in old.vms and old.vms[uuid].target == target:
        del old.vms[uuid]
    return old
