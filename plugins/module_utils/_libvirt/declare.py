"""Declare an eviction strategy in the metadata of domains, live and persistent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from .._core.model.policy import PolicyError
from .._policy.expression import Expression, ExpressionError, compile_expression, mark
from .domain.metadata import strategy_of, with_strategy
from .holder.migrate import job_stats
from .host.connection import libvirt
from .host.errors import VMNotHere
from .host.slice_lock import one_at_a_time
from .observe.host import DomainNow, Host, HostConfig, HostNow, read_metadata, write_metadata
from .observe.vm import read_vm_facts


class DeclareError(Exception):
    """A strategy could not be declared. The text names the VMs and what was written before."""


@dataclass(frozen=True)
class DeclareRequest:
    """`names`: names or UUIDs; or `when`: JMESPath. An empty `strategy` removes the declaration."""

    own: HostConfig
    strategy: str
    names: Sequence[str] = ()
    when: str | None = None
    check: bool = False


@dataclass
class Declared:
    """The declarations of one domain, and where they are to be written."""

    domain: DomainNow
    dom: Any
    live: str | None  # None: it does not run
    config: str | None  # None: it is transient

    def to_write(self, strategy: str) -> list[str]:
        wanted = (("live", self.live), ("config", self.config))
        return [place for place, now in wanted if now is not None and now != strategy]


def declare(request: DeclareRequest) -> dict[str, Any]:
    """Raises PolicyError for a wrong `when`, VMNotHere, DeclareError, HostUnreachable.

    Nothing is written before every chosen VM was found and none of them has a job.
    """
    try:
        expression = None if request.when is None else compile_expression(request.when)
    except ExpressionError as exc:
        raise PolicyError(f"when: {exc}") from exc
    host = Host(request.own)
    try:
        # A slice of a drain writes metadata too, and starts jobs.
        with nullcontext() if request.check else one_at_a_time():
            return _declare(host, request, expression)
    finally:
        host.close()


def _declare(host: Host, request: DeclareRequest, when: Expression | None) -> dict[str, Any]:
    now = host.read(True)
    if now.error:
        raise DeclareError(f"{host.name} cannot be read: {now.error}")
    chosen = _matching(host, now, when) if when else _named(now, request.names)
    found = [_read(host, domain) for domain in sorted(chosen, key=lambda d: d.name)]
    work = [(entry, entry.to_write(request.strategy)) for entry in found]
    busy = [entry.domain.name for entry, places in work if places and entry.domain.job is not None]
    if busy:
        raise DeclareError(
            f"{', '.join(busy)}: a job is under way (migration, backup, save ...), and libvirt "
            "writes no metadata until it ends. Nothing was changed; run again after that."
        )
    if not request.check:
        _write(work, request.strategy)
    return _result(host.name, work, request.strategy)


def _named(now: HostNow, names: Sequence[str]) -> list[DomainNow]:
    by_name = {key: d for d in now.domains.values() for key in (d.name, d.uuid)}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise VMNotHere(
            f"no VM {', '.join(missing)} on {now.name}: check the name (virsh list --all). Nothing was changed."
        )
    return list({by_name[name].uuid: by_name[name] for name in names}.values())


def _matching(host: Host, now: HostNow, when: Expression) -> list[DomainNow]:
    chosen, untold = [], []
    for domain in now.domains.values():
        try:
            facts = read_vm_facts(host, (), domain, {})
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                continue  # it left meanwhile
            raise DeclareError(f"when: {domain.name} cannot be read: {exc}. Nothing was changed.") from exc
        marked = mark(facts.document)
        answer = when.answer(marked)
        if answer is None:
            untold.append(f"{domain.name} ({', '.join(when.lacks(marked))})")
        elif answer:
            chosen.append(domain)
    if untold:
        raise DeclareError(
            f"when: no answer for {'; '.join(sorted(untold))}: the values in brackets are not "
            "known. Nothing was changed; give them a default with not_null()."
        )
    return chosen


def _read(host: Host, domain: DomainNow) -> Declared:
    """Read what a domain declares. Raises DeclareError."""
    try:
        return _declared(host.domain(domain.uuid), domain)
    except libvirt.libvirtError as exc:
        text = f"{domain.name} cannot be read: {exc}. Nothing was changed."
        raise DeclareError(text) from exc


def _declared(dom: Any, domain: DomainNow) -> Declared:
    live = config = None
    if dom.isActive():
        live = strategy_of(read_metadata(dom, libvirt.VIR_DOMAIN_AFFECT_LIVE))
    if dom.isPersistent():
        config = strategy_of(read_metadata(dom, libvirt.VIR_DOMAIN_AFFECT_CONFIG))
    return Declared(domain, dom, live, config)


def _write(work: Sequence[tuple[Declared, list[str]]], strategy: str) -> None:
    """Each place from its own text: what stands in only one of the two stays so."""
    done: list[str] = []
    for entry, places in work:
        for place, flag in _flags(places):
            try:
                # A write during a job waits half a minute and fails.
                if entry.dom.isActive() and job_stats(entry.dom).get("type"):
                    raise DeclareError(_stopped_at(entry, "a job has begun on it", done))
                write_metadata(entry.dom, lambda text: with_strategy(text, strategy), (flag,))
            except libvirt.libvirtError as exc:
                raise DeclareError(_stopped_at(entry, str(exc), done)) from exc
            done.append(f"{entry.domain.name} ({place})")


def _flags(places: Sequence[str]) -> Iterator[tuple[str, int]]:
    flags = {"live": libvirt.VIR_DOMAIN_AFFECT_LIVE, "config": libvirt.VIR_DOMAIN_AFFECT_CONFIG}
    return ((place, flags[place]) for place in places)


def _stopped_at(entry: Declared, why: str, done: Sequence[str]) -> str:
    return f"{entry.domain.name}: {why}. Changed before: {', '.join(done) or 'nothing'}."


def _result(node: str, work: Sequence[tuple[Declared, list[str]]], strategy: str) -> dict[str, Any]:
    rows = []
    before, after = "", ""
    for entry, places in work:
        rows.append(
            {
                "name": entry.domain.name,
                "uuid": entry.domain.uuid,
                "live": entry.live,
                "config": entry.config,
                "written": places,
            }
        )
        for place, now in (("live", entry.live), ("config", entry.config)):
            if now is not None:
                before += f"VM {entry.domain.name} ({place}): {now or 'declares none'}\n"
                after += f"VM {entry.domain.name} ({place}): {strategy or 'declares none'}\n"
    return {
        "node": node,
        "changed": any(row["written"] for row in rows),
        "vms": rows,
        "diff": {"before": before, "after": after},
    }
