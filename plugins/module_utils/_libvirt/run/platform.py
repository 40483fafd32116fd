"""The libvirt platform: what the core's loop needs, on one host and its peers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from ..._core.decision.actions import ENDS, Action, Do
from ..._core.model.observation import Mode, Observation, Outcome
from ..._core.model.policy import Limits
from ..._core.model.record import NodeRecord, RecordError
from ..._core.reasons.reason import Finding, Reason
from ..domain.untrusted import load_json
from ..holder.client import HolderClient, ensure_holder
from ..holder.heartbeat import delete_heartbeats
from ..host.connection import HostUnreachable, libvirt
from ..host.errors import HolderSilent
from ..host.own_boot import own_boot_id
from ..host.slice_lock import is_wanted
from ..observe.holder_status import note_never, note_saves, note_silence, note_stops
from ..observe.host import Host, HostConfig
from ..observe.last_read import ReadOfFew
from ..observe.observe import Observer
from ..observe.peers import open_peer
from ..records import history
from ..records.claims import Claims
from ..records.copies import Copies
from ..records.definitions import Definitions, Written
from ..records.disk_copies import DiskCopies
from ..records.recovery import note_takeovers
from ..records.stale_claims import StaleClaims
from ..store.names import OutcomeName, alive_of, parse_name
from ..store.volumes import StoreError, VolumeMissing, VolumeTorn
from .act import Actor, reason_of

# After these a VM may be gone from here: its definition is written down before.
_LEAVES = ENDS | {Do.MIGRATE, Do.COLD_DEFINE}
# Beside the lock of the slices: peers that did not answer in the last one.
SILENT = "/run/virtops/silent-peers.json"
_CHECK_EVERY, _ASK_EVERY = 0.5, 1.0  # seconds between two looks at who waits for that lock, whether it is wanted at all


class LibvirtPlatform:
    """Implements `run/platform.Platform` for the host that the module runs on.

    Opens connections when they are needed; `close` ends them. Raises HostUnreachable when
    the host's own libvirt cannot be reached, RecordError when its record is unreadable.
    `acts` False: it is only observed, and StoreError is raised for what cannot be looked at so.
    `controller_uuid`: of the machine that Ansible runs on, which may be a VM of this host.
    `owner_note`: run and requester, as claims on other hosts report them.
    """

    before_write: Callable[[], None] = staticmethod(lambda: None)  # each time; it raises to stop it

    def __init__(
        self,
        own: HostConfig,
        peers: Sequence[HostConfig],
        only: str = "",
        acts: bool = True,
        controller_uuid: str = "",
        owner_note: Mapping[str, str] | None = None,
    ) -> None:
        self._prefix = record_prefix(only) if only else ""
        self._acts = acts
        self.source = Host(own, acts=acts)
        self.peers = {c.name: Host(c, open_peer, acts=acts) for c in peers}
        self.hosts: dict[str, Host] = {own.name: self.source, **self.peers}
        self._owner_note = dict(owner_note or {})
        self._claims = Claims(self.hosts, own.name, self._claim_owner_note, self._unreachable)
        self.quorum_hosts = self._claims.quorum_hosts
        self.boot_id = own_boot_id()
        self.observer = Observer(
            self.source,
            list(self.peers.values()),
            self.boot_id,
            self.quorum_hosts,
            controller_uuid,
            SILENT if acts else "",
        )
        self.stale_claims = StaleClaims(self.hosts, own.name, self.quorum_hosts, self.now, acts)
        self.few = ReadOfFew(self.observer, self.peers, self.quorum_hosts)
        self._written = Written(self.source, self._prefix)
        self._copies = Copies(own.name, self.peers, self._prefix)
        self.disk_copies = DiskCopies(self.source, self.peers)
        self._definitions = Definitions(self.source, self._written, self._copies)
        self._actor = Actor(
            self.source,
            self.peers,
            self._claims,
            self._send,
            self._definitions.to_start_from,
            self.wall,
            self.observer.copied,
        )
        self._holder: HolderClient | None = None
        self._asked = time.monotonic()
        self._outcomes: dict[tuple[str, int], Outcome] = {}

    def ask_before_writes(self, ask: Callable[[], None]) -> None:
        """`ask` raises to stop the next write, however many an act has."""
        self.before_write = self._actor.before_write = ask
        for host in self.hosts.values():
            host.before_write = ask

    def close(self) -> None:
        if self._holder is not None:
            self._holder.close()
            self._holder = None
        self.observer.close()
        for host in self.hosts.values():
            host.close()

    # Time

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> str:
        return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def provides(self) -> Sequence[str]:
        return self.source.facts.provides() or ()

    def wait(self, seconds: float, gather: float = 0.0) -> None:
        """Wait until the holder reports the end of a migration, or another run wants the host, or for that
        time."""
        until = time.monotonic() + seconds
        while not is_wanted():
            self._ask_in_a_wait()
            left = min(_CHECK_EVERY, max(0.0, until - time.monotonic()))
            if self._holder is None:
                time.sleep(left)
            elif self._holder.wait_for_end(left, gather):
                return
            if left < _CHECK_EVERY:
                return

    def _ask_in_a_wait(self) -> None:
        """A roll is aborted while its migrations run. A record that cannot be read is told by the next write."""
        if time.monotonic() - self._asked >= _ASK_EVERY:
            with suppress(RecordError):
                self.before_write()
            self._asked = time.monotonic()

    def is_wanted(self) -> bool:
        return is_wanted()

    # The record

    def load(self) -> NodeRecord | None:
        text = self._written.read("record")
        try:
            record = None if text is None else NodeRecord.from_json(text)
            if record is not None and record.node != self.source.name:
                raise RecordError(f"the record is that of node {record.node!r}")
        except RecordError as exc:
            where = f"volumes {self._prefix}record.* in pool virtops of {self.source.name}"
            raise RecordError(f"{exc} ({where}). Nothing was changed.") from exc
        return record

    def save(self, record: NodeRecord) -> None:
        self.before_write()
        self._written.write("record", record.to_json())

    def renew_copies(self, record: NodeRecord) -> None:
        """Write the record's copies again, where VMs have ended since they were made. Raises nothing."""
        self._definitions.renew_copies(record)

    @property
    def warnings(self) -> list[str]:
        """Warnings for people about copies of the record, claims of others, and half copies of disks. Nothing waits for
        them."""
        found = (self._copies.warning, *self.stale_claims.reported, *self.disk_copies.warnings)
        return [text for text in found if text]

    def forget(self, record: NodeRecord) -> None:
        """Remove the record, its copies and its outcomes: the maintenance is over."""
        for name in self.source.store.names():
            if self._is_outcome_of(name, record):
                self.source.store.delete(name)
        self._definitions.forget()
        self._written.delete("record")
        self._outcomes.clear()

    def _is_outcome_of(self, name: str, record: NodeRecord) -> bool:
        """Did a run of this record leave it? The host and one of its VMs may have a record each.

        What nobody can read tells nobody anything: that goes too.
        """
        parsed = parse_name(name)
        if not isinstance(parsed, OutcomeName) or parsed.vm not in record.vms:
            return False
        try:
            raw = load_json(self.source.store.read(name))
        except VolumeMissing:
            return False
        except (VolumeTorn, ValueError):
            return True
        return not isinstance(raw, dict) or raw.get("run_id") in record.runs

    # The records of single VMs

    def single_migrations(self) -> tuple[list[NodeRecord], list[NodeRecord]]:
        """Records of running (or killed) migrations, and archived ones of finished migrations.

        Raises RecordError.
        """
        store = self.source.store
        owners = {match[0] for name in store.names() if (match := _SINGLE.match(name))}
        running = []
        for prefix in sorted(owners):
            try:
                text = store.read_record(prefix)
                running += [] if text is None else [NodeRecord.from_json(text)]
            except VolumeTorn:
                continue  # being written, or nothing was done yet (see Written.read)
            except RecordError as exc:
                where = f"volumes {prefix}.* in pool virtops of {self.source.name}"
                raise RecordError(f"{exc} ({where})") from exc
        return running, history.kept_in(store)

    def keep_history(self, record: NodeRecord) -> None:
        """Archive the record of a finished migration."""
        history.keep(self.source.store, record)

    # Observe, claim, apply

    def observe(self, record: NodeRecord | None) -> Observation:
        held, silent = self._held()
        self._read_outcomes(record)
        obs = self.observer.observe(record, self.now(), held, self._outcomes)
        obs.wall = self.wall()
        holder = self._holder
        obs.held_for = holder.held_for if holder is not None else {}
        if holder is not None:
            note_saves(obs, record, holder.saves, holder.queued)
            note_never(obs, holder.never)
        note_stops(obs, record, holder.stops if holder is not None else {})
        if silent:
            note_silence(obs, self.source.name, silent)
        elif self._acts:
            self.disk_copies.check(self.observer.reads, held)
            self._forget_dead_holder()
        if not obs.not_asked:  # else whose claims they are is not known
            self.stale_claims.check(self.observer.reads, obs)
        note_takeovers(self.hosts, self.observer.reads, self.source.name, obs)
        return obs

    def release_left(self) -> None:
        """Where there is no record: remove copies and claims that are left on other hosts, unless something uses
        them."""
        held, silent = self._held()
        reads = self.observer.reads = self.observer.read_hosts()
        if silent or reads[self.source.name].error:
            return
        self._copies.delete()  # an earlier restore may not have been let
        self.stale_claims.release_own(reads, held, self._claims.release)
        self.disk_copies.check(reads, held)
        self.stale_claims.check(reads, Observation({}, {}))
        self._forget_dead_holder()

    def _forget_dead_holder(self) -> None:
        """It was killed with work, and its mark still stands: for the peers it lived a while."""
        mine = self.observer.reads[self.source.name]
        if self._holder is None and not mine.error and alive_of(mine.names):
            with suppress(HostUnreachable, StoreError, libvirt.libvirtError):
                delete_heartbeats(self.source.store)

    def _held(self) -> tuple[frozenset[str], str]:
        """(UUIDs of the VMs that the holder works on, why that is not known; empty: it is). It is not known where the
        holder is there and does not answer."""
        try:
            if self._holder is None:
                self._holder = HolderClient.connect()
        except HolderSilent as exc:
            return frozenset(), str(exc)
        if self._holder is None:
            return frozenset(), ""
        return self._holder.held(), self._holder.silent

    def _read_outcomes(self, record: NodeRecord | None) -> None:
        """After the holder's status: an outcome is written before the holder lets go.

        Only those of the record's own attempts: another record's attempt of the same number
        may have left one behind.
        """
        runs = {
            (uuid, attempt.number): attempt.run_id
            for uuid, entry in (record.vms if record else {}).items()
            for attempt in entry.attempts
        }
        for name in self.source.store.names():
            parsed = parse_name(name)
            if not isinstance(parsed, OutcomeName):
                continue
            key = (parsed.vm, parsed.attempt)
            if key in self._outcomes or key not in runs:
                continue
            try:
                raw = load_json(self.source.store.read(name))
                if isinstance(raw, dict) and raw.get("run_id") == runs[key]:
                    self._outcomes[key] = _outcome(parsed, raw)
            except (VolumeMissing, VolumeTorn, ValueError, TypeError, OverflowError):
                continue  # the holder died while writing: the outcome is lost, the VM is read

    def claim(self, wanted: Sequence[Action], limits: Limits) -> dict[str, Finding | None]:
        self.before_write()
        self.few.claimed.update(action.target for action in wanted)
        return self._claims.claim(wanted, limits)

    def _claim_owner_note(self) -> dict[str, str]:
        return {**self._owner_note, "at": self.wall()}

    def _unreachable(self) -> list[str]:
        return [name for name, r in self.observer.reads.items() if r.error and not r.not_asked]

    def apply(self, actions: Sequence[Action], record: NodeRecord) -> dict[str, Finding]:
        self.before_write()
        not_kept = self._keep_definitions(actions, record)
        wrong: dict[str, Finding] = {}
        for action in actions:
            self.before_write()
            if action.do is Do.FORGET:
                self.forget(record)
                continue
            finding = not_kept.get(action.vm) or self._stays(action, record, wrong) or self._actor.apply(action, record)
            if finding is not None:
                wrong[action.vm] = finding
            elif action.do not in (Do.CORDON, Do.RELEASE, Do.WATCH):
                self.observer.forget(action.vm)
        return wrong

    def _keep_definitions(self, actions: Sequence[Action], record: NodeRecord) -> dict[str, Finding]:
        """Write the definitions down before any VM is moved or stopped.

        UUID -> why it is neither moved nor stopped now, where they cannot be written. The record
        says already what was to be done: raised, this would leave a later run waiting for a
        guest that nobody asked to stop.
        """
        self._definitions.unread.clear()
        leaving = [action for action in actions if action.do in _LEAVES]
        if not leaving:
            return {}
        try:
            going_off = {action.vm for action in leaving if action.do in ENDS}
            self._definitions.keep(record, going_off)
        except (RecordError, StoreError, libvirt.libvirtError) as exc:
            text = f"{exc}. Nothing was done with this VM."
            return {a.vm: Finding(reason_of(a.do), f"{a.do.value}: {text}") for a in leaving}
        return {}

    def _stays(self, action: Action, record: NodeRecord, wrong: dict[str, Finding]) -> Finding | None:
        """Why it must not go off. A transient VM is then nothing but what was written down: gone with this host."""
        entry = record.vms.get(action.vm)
        if action.do not in ENDS or entry is None or entry.persistent or not self._copies.missing:
            before = wrong.get(action.vm) if action.do in ENDS else None
            return before and Finding(Reason.StopFailed, before.message)  # its autostart may be on
        peers = ", ".join(self._copies.failed)
        text = f"{action.name} is transient, and no peer took a copy of its definition: {peers}."
        return Finding(Reason.StopFailed, f"{text} Nothing was done.")

    def _send(self, order: dict[str, Any]) -> None:
        if self._holder is None:
            self._holder = ensure_holder()
        self._holder.order(order)


_SINGLE = re.compile(r"single\.[0-9a-f-]{36}\.record(?=\.)")


def record_prefix(uuid: str) -> str:
    """The prefix of the volumes of one VM's own migration; those of a host's drain have none."""
    return f"single.{uuid}."


def _outcome(name: OutcomeName, raw: Mapping[str, Any]) -> Outcome:
    finding = None
    if raw.get("reason"):
        finding = Finding(Reason(raw["reason"]), raw.get("message", ""))
    return Outcome(
        vm=name.vm,
        attempt=name.attempt,
        ok=bool(raw.get("ok")),
        finding=finding,
        target=raw.get("target", ""),
        mode=Mode(raw.get("mode") or Mode.PRE_COPY.value),
        processed=int(raw.get("processed", 0)),
        seconds=float(raw.get("seconds", 0.0)),
        downtime_ms=raw.get("downtime_ms"),
        paused=bool(raw.get("paused")),
        steps=tuple(raw.get("steps") or ()),
        writes=float(raw.get("writes") or 0.0),
        at=str(raw.get("at") or ""),
    )
