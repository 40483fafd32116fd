"""One host as it is now: its domains, its cordon, the claims on it. One object a host.

The static facts (capabilities, networks ...) are read once a slice, the rest at each read.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..._core.model.constraints import Taint
from ..._core.model.observation import Job, State, is_active
from ..._core.reasons.reason import Finding
from ..blockers.same_files import Shown
from ..domain.graphics_xml import ports_in_use
from ..domain.metadata import NAMESPACE, PREFIX, group_of, is_marked, without_marks
from ..domain.state import PAUSED, PAUSED_IOERROR, is_crashed, is_idle, is_resumable, paused_by, to_job, to_state
from ..domain.untrusted import parse_xml
from ..domain.xml import most_memory_mib
from ..holder.migrate import job_stats
from ..host.connection import HostUnreachable, is_lost, libvirt, open_connection
from ..host.facts import HostFacts, read_host_facts
from ..host.names import Names
from ..store.names import CORDON, Reservation, Slot, parse_name
from ..store.volumes import Store, StoreError
from .patience import Patience


@dataclass(frozen=True)
class HostConfig:
    """A host as the inventory declares it. Memory in MiB; 0: what libvirt says it has.

    `uri`: how this host is reached from the host that is being worked on; the source's
    libvirtd dials the same one. `roll_rank`: its position in the roll. `expects`: VMs (UUIDs) of the
    host that is worked on, which the plan of the roll wants there. `shared_paths`: where the
    administrator says that every host sees the same data. `labels`, `taints`: for placement.
    `measure_seconds`: how long its VMs' dirty rates are measured; 0: not at all.
    """

    name: str
    uri: str
    memory_mib: int = 0
    reserve_mib: int = 0
    roll_rank: int | None = None
    roll_done: bool = False
    expects: frozenset[str] = frozenset()
    migrate_uri: str = ""
    shared_paths: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    measure_seconds: int = 0


@dataclass
class DomainNow:
    """A domain as one read reports it. Memory in MiB. number: its id, another one with each start.

    memory_mib: while it is active the most that it may ever have, as a claim on it says.
    """

    uuid: str
    name: str
    state: State
    memory_mib: int
    job: Job | None = None
    resumable: bool = False  # paused, and not by an error
    paused_by: str = ""  # in words
    crashed: bool = False  # off because its process failed
    resident_mib: int = 0  # memory of its process that the host really uses; 0: not known
    dirty_rate: float | None = None  # MiB/s that the guest writes, if it was measured
    number: int = -1
    ports: frozenset[int] = frozenset()  # on which its graphics listen

    @property
    def active(self) -> bool:
        return is_active(self.state)


@dataclass
class HostNow:
    """One read of one host. `error` is not empty: it could not be read, or was `not_asked`."""

    name: str
    domains: dict[str, DomainNow] = field(default_factory=dict)
    cordoned: bool = False
    reservations: list[Reservation] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    identity: str = ""
    version: tuple[int, ...] = ()  # of the hypervisor
    error: str = ""
    not_asked: bool = False
    unread: dict[str, str] = field(default_factory=dict)  # domains, why their jobs were not read


class Host:
    """A connection to one host and what is read through it. Opens itself when needed.

    `acts` False: for check mode and info, which change nothing.
    """

    def __init__(self, config: HostConfig, opener: Callable[[str], Any] = open_connection, acts: bool = True) -> None:
        self.acts = acts
        self.config = config
        self.name = config.name
        self.before_write: Callable[[], None] = lambda: None  # each single one; it raises to stop it
        self._opener = opener
        self._conn: Any = None
        self._store: Store | None = None
        self.answered = False  # once, at least
        self._facts: HostFacts | None = None
        self._lookups: Names | None = None
        self._identity = ""
        self._version: tuple[int, ...] | None = None
        self._groups: dict[str, str | None] = {}
        # By (uuid, id), so once a start: the most memory, and the ports of its graphics.
        self._starts: dict[tuple[str, int], tuple[int, frozenset[int]]] = {}
        self.cpu_cache: dict[tuple[str, ...], tuple[Finding, ...]] = {}
        self.same_folders: dict[str, Shown] = {}  # with the host that is worked on, by directory
        # Of a peer (see Peers): why it is not asked now; is one refusal enough for that; was it silent before?
        self.away = ""
        self.gives_up = self.known_silent = False
        self.patience = Patience()  # for what it is asked about VMs

    @property
    def conn(self) -> Any:
        """The connection; opened again when it was lost. Raises HostUnreachable.

        One that is away is not waited for again: `Peers` tries it in the background.
        """
        if self.away:
            raise HostUnreachable(self.config.uri, self.away)
        if self._conn is not None and not self._conn.isAlive():
            self.close()
        if self._conn is None:
            try:
                self._conn, self.answered = self.connect(), True
            except HostUnreachable as exc:
                if self.gives_up:
                    self.away = exc.why
                raise
        return self._conn

    @property
    def is_connected(self) -> bool:
        """Has it taken a connection? Opens none, and asks it nothing."""
        return self._conn is not None

    def connect(self) -> Any:
        """A new connection, for `take`. Raises HostUnreachable."""
        return self._opener(self.config.uri)

    def take(self, connection: Any) -> None:
        """It answers again. The old connection is dropped: closed, it might wait for the dead."""
        self._conn, self._store, self._lookups, self.away = connection, None, None, ""
        self._starts.clear()

    @property
    def store(self) -> Store:
        conn = self.conn
        if self._store is None:
            self._store = Store(conn, acts=self.acts, before_write=self._asks)
        return self._store

    def _asks(self) -> None:
        self.before_write()

    @property
    def facts(self) -> HostFacts:
        if self._facts is None:
            self._facts = read_host_facts(self.conn)
        return self._facts

    @property
    def lookups(self) -> Names:
        """A look-up of networks, network filters and secrets of this host by the names that VMs use. Answers are kept
        while the connection lasts."""
        conn = self.conn
        if self._lookups is None:
            self._lookups = Names(conn)
        return self._lookups

    @property
    def identity(self) -> str:
        """The UUID that libvirt has for the host. Two hosts never share one (libvirt's rule)."""
        conn = self.conn
        if not self._identity:
            self._identity = parse_xml(conn.getCapabilities()).findtext("host/uuid") or ""
        return self._identity

    @property
    def version(self) -> tuple[int, ...]:
        """The hypervisor's version; empty: libvirt does not know it."""
        if self._version is None:
            try:
                number = self.conn.getVersion()
            except libvirt.libvirtError as exc:
                if exc.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
                    raise
                number = 0
            parts = (number // 10**6, number // 1000 % 1000, number % 1000)
            self._version = parts if number else ()
        return self._version

    @property
    def capacity_mib(self) -> int:
        return self.config.memory_mib or self.facts.memory_mib

    def close(self) -> None:
        """Forget the connection; its objects with it."""
        conn, self._conn, self._store, self._lookups = self._conn, None, None, None
        if self.away:
            return
        self._starts.clear()  # after a reboot of the host its domains' ids begin at 1 again
        if conn is not None:
            with suppress(libvirt.libvirtError):
                conn.close()

    def domain(self, uuid: str) -> Any:
        """The libvirt domain. Raises libvirtError when there is none."""
        return self.conn.lookupByUUIDString(uuid)

    def read(self, with_jobs: bool) -> HostNow:
        """Everything that changes. `with_jobs`: job statistics of the active domains too."""
        now = HostNow(self.name)
        try:
            now.identity = self.identity
            now.names = self.store.names()
            self._read_claims(now)
            self._read_domains(now, with_jobs)
            now.version = self.version
            self.capacity_mib  # noqa: B018 - for who asks after this read, when the host may be away
        except HostUnreachable as exc:
            now.error = str(exc)
        except StoreError as exc:
            now.error = f"{self.config.uri}: {exc}"
        except libvirt.libvirtError as exc:
            now.error = f"{self.config.uri}: {exc}"
            self.close()
        except (ET.ParseError, ValueError) as exc:
            now.error = f"{self.config.uri}: its libvirt gives an answer that is not libvirt's: {exc}"
        return now

    def _read_claims(self, now: HostNow) -> None:
        for name in now.names:
            if name == CORDON:
                now.cordoned = True
                continue
            parsed = parse_name(name)
            if isinstance(parsed, Reservation):
                now.reservations.append(parsed)
            elif isinstance(parsed, Slot):
                now.slots.append(parsed)

    def _read_domains(self, now: HostNow, with_jobs: bool) -> None:
        wanted = libvirt.VIR_DOMAIN_STATS_STATE | libvirt.VIR_DOMAIN_STATS_BALLOON
        flags = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        for dom, stats in self.conn.getAllDomainStats(wanted, flags):
            uuid = dom.UUIDString()
            number, reason = stats.get("state.state", 0), stats.get("state.reason", 0)
            raw_job: dict[str, Any] | None = {}
            if with_jobs and dom.ID() != -1:
                raw_job = self._job(dom, uuid, now)
            if raw_job is None:
                continue
            outgoing = raw_job.get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT
            state = to_state(number, reason, incoming=not outgoing, idle=is_idle(raw_job))
            if uuid in now.unread:
                state = State.UNKNOWN  # without the job the state says too little
            plugged_in = stats.get("balloon.maximum", 0) // 1024
            most, ports = self._start_of(dom, uuid)
            job = to_job(raw_job, state)
            now.domains[uuid] = DomainNow(
                uuid,
                dom.name(),
                state,
                max(plugged_in, most),
                job,
                number=dom.ID(),
                ports=ports,
                resumable=is_resumable(number, reason),
                paused_by=_paused_by(dom, number, reason),
                crashed=is_crashed(number, reason),
                resident_mib=stats.get("balloon.rss", 0) // 1024,
            )

    @staticmethod
    def _job(dom: Any, uuid: str, now: HostNow) -> dict[str, Any] | None:
        """Its job; None: it is gone. One that cannot be read is noted."""
        try:
            return job_stats(dom)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            if is_lost(exc):
                raise
            now.unread[uuid] = f"{dom.name()}: its job cannot be read: {exc}"
            return {}

    def _start_of(self, dom: Any, uuid: str) -> tuple[int, frozenset[int]]:
        """MiB that an active domain may ever have, with its <maxMemory>, 0: not known; and the
        ports of its graphics.

        libvirt's list leaves out what can still be plugged in (seen with 9.0), and so would a
        VM shrink by arriving. Neither changes while the domain runs.
        """
        key = uuid, dom.ID()
        if key[1] == -1:
            return 0, frozenset()
        if key not in self._starts:
            try:
                xml = dom.XMLDesc(0)
                self._starts[key] = most_memory_mib(xml), ports_in_use(xml)
            except libvirt.libvirtError as exc:
                if is_lost(exc):
                    raise
                return 0, frozenset()  # it left, or cannot be read now; the next read asks again
            except ValueError:
                return 0, frozenset()
        return self._starts[key]

    def group_of(self, uuid: str) -> str | None:
        """The anti-affinity group that a domain declares. Read once a domain."""
        if uuid not in self._groups:
            self._groups[uuid] = group_of(read_metadata(self.domain(uuid)))
        return self._groups[uuid]

    def arrival(self, uuid: str) -> tuple[bool, bool, bool]:
        """(autostart, persistent, marked) of a domain on this host."""
        dom = self.domain(uuid)
        persistent = bool(dom.isPersistent())
        autostart = bool(dom.autostart()) if persistent else False
        return autostart, persistent, is_marked(read_metadata(dom))


def finish_arrival(dom: Any, autostart: bool, last: Mapping[str, str]) -> None:
    """Finish a migration of ours on its target: set the VM's autostart, and replace its marks in the metadata by `last`
    (`source` and `target`)."""
    if dom.isPersistent() and bool(dom.autostart()) != autostart:
        dom.setAutostart(1 if autostart else 0)
    if is_marked(read_metadata(dom)):
        write_metadata(dom, lambda text: without_marks(text, last))


def read_metadata(dom: Any, flags: int = 0) -> str | None:
    """Our metadata element as libvirt gives it; None: the domain has none.

    `flags` 0: the live one of a running domain.
    """
    try:
        text = dom.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, flags)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
            return None
        raise
    return str(text)


def write_metadata(dom: Any, change: Callable[[str | None], str | None], places: Sequence[int] = ()) -> None:
    """Our element as `change` makes it out of what stands there; where that is the same, and
    where it gives None, nothing is written.

    Each place from its own text: what stands only in the running domain or only in its
    persistent definition stays so. `places`: VIR_DOMAIN_AFFECT_LIVE, _CONFIG; empty: both, as
    far as there are. Set in LIVE only it is absent from the target's definition (seen).
    """
    wanted: dict[str, int] = {}
    for flag in places or _places(dom):
        text = read_metadata(dom, flag)
        new = change(text)
        if new is not None and new != text:
            wanted[new] = wanted.get(new, 0) | flag
    for new, flags in wanted.items():
        dom.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, new, PREFIX, NAMESPACE, flags)


def _places(dom: Any) -> list[int]:
    places = [libvirt.VIR_DOMAIN_AFFECT_LIVE] if dom.isActive() else []
    if dom.isPersistent():
        places.append(libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    return places


def _paused_by(dom: Any, state: int, reason: int) -> str:
    """Say in words why the domain is paused; for an I/O error with the disks and their errors (virsh domblkerror)."""
    text = paused_by(state, reason)
    if (state, reason) != (PAUSED, PAUSED_IOERROR):
        return text
    try:
        failed = dom.diskErrors(0)
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        return text
    words = {libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE: "no space"}
    disks = ", ".join(f"{disk}: {words.get(code, 'unspecified error')}" for disk, code in sorted(failed.items()))
    return f"{text} ({disks})" if disks else text
