"""Act: carry out what the core decided, one function an action. Each adopts what is so already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..._core.decision.actions import ENDS, Action, Do
from ..._core.model.policy import MigrationSettings
from ..._core.model.record import Attempt, NodeRecord, RecordError
from ..._core.reasons.reason import Finding, Reason
from ..domain.metadata import is_marked, with_marks, without_marks
from ..domain.state import is_resumable
from ..host.connection import HostUnreachable, keep_state, libvirt
from ..host.errors import HolderError, HolderGone
from ..observe.host import Host, finish_arrival, write_metadata
from ..records.claims import Claims
from ..store.cordon import is_ours
from ..store.names import CORDON
from ..store.volumes import StoreError

# Of libvirt's connections and domains.
_WRITES = frozenset(
    {"create", "createXML", "defineXML", "destroy", "resume", "setAutostart", "setMetadata", "undefineFlags"}
)


class _Asking:
    """A host, its connection or a domain of it: before each call that changes something it is asked whether to."""

    def __init__(self, real: Any, ask: Callable[[], None]) -> None:
        self._real, self._ask = real, ask

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            self._ask()
        found = getattr(self._real, name)
        if name == "domain":
            return lambda uuid: _Asking(found(uuid), self._ask)
        return _Asking(found, self._ask) if name == "conn" else found


class Actor:
    """Applies actions on the source host and its peers."""

    def __init__(
        self,
        source: Host,
        peers: Mapping[str, Host],
        claims: Claims,
        send: Callable[[dict[str, Any]], None],
        definitions: Callable[[NodeRecord], Mapping[str, str]],
        wall: Callable[[], str],
        copied: Callable[[str], Sequence[str]],
    ) -> None:
        self.before_write: Callable[[], None] = lambda: None  # each single one; it raises to stop it
        hosts = {source.name: source, **peers}
        self._hosts = {name: _Asking(host, self._asks) for name, host in hosts.items()}
        self._source = self._hosts[source.name]
        self._claims = claims
        self._give = send
        self._definitions = definitions
        self._wall = wall
        self._copied = copied
        self._acts: dict[Do, Callable[[Action, NodeRecord], None]] = {
            Do.CORDON: self._cordon,
            Do.UNCORDON: self._uncordon,
            Do.MIGRATE: self._migrate,
            Do.WATCH: self._watch,
            Do.ABORT: self._abort,
            Do.RELEASE: self._release,
            Do.FINISH: self._finish,
            Do.MARK: self._mark,
            Do.UNMARK: self._unmark,
            Do.CLEAN_SOURCE: self._clean_source,
            Do.SHUTDOWN: self._shutdown,
            Do.FORCE_OFF: self._force_off,
            Do.SAVE: self._save,
            Do.UNSAVE: self._unsave,
            Do.COLD_DEFINE: self._cold_define,
            Do.COLD_UNDEFINE: self._clean_source,
            Do.COLD_START: self._cold_start,
            Do.COLD_WITHDRAW: self._cold_withdraw,
            Do.COLD_RETURN: self._cold_return,
            Do.START: self._start,
            Do.RESUME: self._resume,
            Do.AUTOSTART_OFF: self._autostart,
            Do.AUTOSTART_ON: self._autostart,
        }

    def apply(self, action: Action, record: NodeRecord) -> Finding | None:
        """Do it; None, or why it went wrong. Nothing that one VM does hurts the next one.

        FORGET is the platform's own.
        """
        try:
            if action.do in ENDS and not self._can_be_restored(action.vm, record):
                text = f"{action.name} is transient, and its definition could not be saved."
                return Finding(Reason.StopFailed, f"{text} Nothing was done.")
            self._acts[action.do](action, record)
        except HostUnreachable as exc:
            return Finding(Reason.PeerUnreachable, str(exc))
        except HolderGone as exc:
            asked = action.do is Do.SHUTDOWN and exc.sent  # no answer is no refusal: it may be carried out yet
            why = Reason.PeerUnreachable if asked else reason_of(action.do)
            return Finding(why, f"{action.do.value}: {exc}")
        except (HolderError, StoreError, RecordError) as exc:
            return Finding(reason_of(action.do), f"{action.do.value}: {exc}")
        except libvirt.libvirtError as exc:
            return Finding(reason_of(action.do), f"{action.do.value}: {exc}")
        return None

    def _asks(self) -> None:
        self.before_write()

    def _send(self, order: dict[str, Any]) -> None:
        self.before_write()
        self._give(order)

    def _can_be_restored(self, uuid: str, record: NodeRecord) -> bool:
        """A transient VM is gone when it is off, but for what was written down of it before."""
        entry = record.vms.get(uuid)
        return entry is None or entry.persistent or uuid in self._definitions(record)

    def _definition(self, action: Action, record: NodeRecord) -> str:
        """The definition of a transient VM that is off. Raises RecordError if it is not known."""
        found = self._definitions(record).get(action.vm)
        if found is None:
            raise RecordError(
                f"{action.name} is transient, and its definition is neither in the volume"
                f" definitions.N of {self._source.name} nor in a copy on a peer that can be read."
                " Start it from a definition of your own (virsh create), or see 'The definitions cannot"
                " be read' in docs/operating.md"
            )
        return found

    # The node

    def _cordon(self, action: Action, record: NodeRecord) -> None:
        # One that stands is as good. Whose it is, its content tells when it is to go.
        self._source.store.create(CORDON, record.run_id.encode())

    def _uncordon(self, action: Action, record: NodeRecord) -> None:
        if is_ours(self._source.store, record):
            self._source.store.delete(CORDON)

    # Migration

    def _migrate(self, action: Action, record: NodeRecord) -> None:
        target = self._hosts[action.target]
        self._mark(action, record)
        self._send(
            {
                **self._order("migrate", action, record),
                "target_uri": target.config.uri,
                "migrate_uri": target.config.migrate_uri,
                "claim": self._claims.name_of(action.vm),
                "settings": asdict(action.settings or MigrationSettings()),
                "priority": action.priority,
                "disks": list(self._copied(action.vm)),
                "writes": record.vms[action.vm].writes,
                "may_write": record.learnt(action.vm),
            }
        )

    def _order(self, kind: str, action: Action, record: NodeRecord) -> dict[str, Any]:
        return {
            "order": kind,
            "uuid": action.vm,
            "name": action.name,
            "attempt": action.attempt,
            "node": action.node,
            "target": action.target,
            "method": action.method.value,
            "persistent": action.persistent,
            "autostart": action.autostart,
            "memory_mib": action.memory_mib,
            "run_id": _run_of(action, record),
        }

    def _watch(self, action: Action, record: NodeRecord) -> None:
        """Without settings the migration is somebody else's: it is looked at, and no more."""
        order = self._order("watch", action, record)
        target = self._hosts.get(action.target)
        order["target_uri"] = target.config.uri if target else ""
        order["migrate_uri"] = target.config.migrate_uri if target else ""
        order["disks"] = list(self._copied(action.vm))
        order["settings"] = None if action.settings is None else asdict(action.settings)
        self._send(order)

    def _abort(self, action: Action, record: NodeRecord) -> None:
        """Abort only that attempt if it is ours. An adopted one stands for whatever is under way."""
        order = self._order("abort", action, record)
        attempt = _attempt_of(action, record)
        if attempt is not None and attempt.adopted:
            order["run_id"] = ""
        self._send(order)

    def _release(self, action: Action, record: NodeRecord) -> None:
        self._claims.release(action)

    def _mark(self, action: Action, record: NodeRecord) -> None:
        facts = {"run": record.run_id, "by": record.requester, "reason": record.reason, "at": self._wall()}
        dom = self._source.domain(action.vm)
        write_metadata(dom, lambda text: with_marks(text, self._source.name, facts))

    def _finish(self, action: Action, record: NodeRecord) -> None:
        dom = self._hosts[action.target].domain(action.vm)
        entry = record.vms[action.vm]
        if entry.persistent and not dom.isPersistent():
            self._define(action.target, dom)
        last = {"source": action.node, "target": action.target}
        last.update({"run": record.run_id, "at": self._wall()})
        finish_arrival(dom, entry.autostart, last)

    def _unmark(self, action: Action, record: NodeRecord) -> None:
        dom = self._source.domain(action.vm)
        write_metadata(dom, lambda text: without_marks(text) if is_marked(text) else None)

    def _clean_source(self, action: Action, record: NodeRecord) -> None:
        """Remove the definition here. Only of a domain that is off here and defined there."""
        there = self._hosts[action.target].domain(action.vm)  # raises when it is not there
        dom = self._source.domain(action.vm)
        if not there.isPersistent():
            # A move that was cut off before its end: there it would be gone once it is off.
            self._define(action.target, there)
        if not dom.isActive():
            # Of one that moved while it was off, what is saved here is its state.
            dom.undefineFlags(keep_state(ran_elsewhere=action.do is Do.CLEAN_SOURCE))

    def _define(self, where: str, dom: Any) -> None:
        """Make it persistent there, and do not believe it before it is read."""
        xml = dom.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        if not self._hosts[where].conn.defineXML(xml).isPersistent():
            raise StoreError(f"{dom.name()} could not be defined on {where}")

    # Stopping

    def _autostart(self, action: Action, record: NodeRecord) -> None:
        self._source.domain(action.vm).setAutostart(1 if action.do is Do.AUTOSTART_ON else 0)

    def _shutdown(self, action: Action, record: NodeRecord) -> None:
        """Shut down through the holder: a call to the guest's agent waits for the guest."""
        if self._source.domain(action.vm).isActive():
            self._send({"order": "shutdown", "uuid": action.vm, "name": action.name})

    def _force_off(self, action: Action, record: NodeRecord) -> None:
        dom = self._source.domain(action.vm)
        if dom.isActive():
            dom.destroy()

    def _save(self, action: Action, record: NodeRecord) -> None:
        """Save through the holder: that takes as long as the memory is large, and a slice does not wait."""
        if self._source.domain(action.vm).isActive():
            self._send({"order": "save", "uuid": action.vm, "name": action.name})

    def _unsave(self, action: Action, record: NodeRecord) -> None:
        self._send({"order": "unsave", "uuid": action.vm, "name": action.name})

    # Cold migration: define there, remove here, start there. Never without a definition.

    def _cold_define(self, action: Action, record: NodeRecord) -> None:
        dom = self._source.domain(action.vm)
        xml = dom.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        self._hosts[action.target].conn.defineXML(xml)

    def _cold_start(self, action: Action, record: NodeRecord) -> None:
        target = self._hosts[action.target]
        entry = record.vms[action.vm]
        if not entry.persistent:
            target.conn.createXML(self._definition(action, record), 0)
            return
        dom = target.domain(action.vm)
        if not dom.isActive():
            dom.create()
        dom.setAutostart(1 if entry.autostart else 0)

    def _cold_withdraw(self, action: Action, record: NodeRecord) -> None:
        here = self._source.domain(action.vm)  # raises when it is not here
        if not here.isPersistent():
            raise StoreError(f"{here.name()} is not defined on {self._source.name}")
        dom = self._hosts[action.target].domain(action.vm)
        if not dom.isActive():
            dom.undefineFlags(keep_state())

    def _cold_return(self, action: Action, record: NodeRecord) -> None:
        """Back: defined here first, and read so. Then it may go there (COLD_WITHDRAW)."""
        dom = self._hosts[action.target].domain(action.vm)
        if not dom.isActive():
            self._define(self._source.name, dom)

    def _start(self, action: Action, record: NodeRecord) -> None:
        """Start what was stopped for the maintenance; a managed save is restored by it."""
        entry = record.vms[action.vm]
        if not entry.persistent:
            self._source.conn.createXML(self._definition(action, record), 0)
            return
        dom = self._source.domain(action.vm)
        if not dom.isActive():
            dom.create()
        dom.setAutostart(1 if entry.autostart else 0)

    def _resume(self, action: Action, record: NodeRecord) -> None:
        dom = self._source.domain(action.vm)
        if is_resumable(*dom.state()):
            dom.resume()


def _run_of(action: Action, record: NodeRecord) -> str:
    """The run that made the attempt, which may be an earlier one than that which asks now.

    Numbers of attempts begin anew with each record; with the run they are told apart.
    """
    attempt = _attempt_of(action, record)
    return record.run_id if attempt is None else attempt.run_id


def _attempt_of(action: Action, record: NodeRecord) -> Attempt | None:
    entry = record.vms.get(action.vm)
    attempts = entry.attempts if entry is not None else []
    return next((a for a in attempts if a.number == action.attempt), None)


def reason_of(do: Do) -> Reason:
    """The reason for an act that libvirt has refused, where the error itself tells none."""
    if do in (Do.START, Do.COLD_START):
        return Reason.CannotStart
    cold = (Do.COLD_DEFINE, Do.COLD_UNDEFINE, Do.COLD_WITHDRAW, Do.COLD_RETURN)
    if do in (Do.SHUTDOWN, Do.FORCE_OFF, Do.SAVE, Do.UNSAVE, Do.AUTOSTART_OFF, *cold):
        return Reason.StopFailed
    return Reason.StateNotLiveMigratable if do is Do.RESUME else Reason.MigrationFailed
