"""Preflight: does memory go over the wire in the clear, and where it shall not, can it? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..decision.strategy import Choice, Way
from ..reasons.reason import Reason
from .facts import Facts, HostSeen
from .found import Found, listed

# QEMU's own names, of either end.
SERVER = ("ca-cert.pem", "server-cert.pem", "server-key.pem")
CLIENT = ("client-cert.pem", "client-key.pem")


def tls_findings(facts: Facts, choices: Mapping[str, Choice]) -> Iterator[Found]:
    """Check encryption for the VMs that migrate. On KubeVirt one setting decides for all."""
    moving = {u: c for u, c in choices.items() if c.way is Way.MIGRATE}
    if not facts.platform.traits.asks_hosts:
        if moving and facts.cluster.in_the_clear:
            yield Found(Reason.MigrationInTheClear, "KubeVirt", facts.cluster.in_the_clear)
        return
    clear = [facts.observation.vms[u].name for u, c in moving.items() if not c.migration.tls]
    if clear:
        yield Found(Reason.MigrationInTheClear, f"node {facts.node}", f"VMs: {listed(clear)}.")
    if len(clear) < len(moving):
        yield from _certificates(facts)


def _certificates(facts: Facts) -> Iterator[Found]:
    """A target without its own is one target less; a source without its own sends nothing."""
    hosts = {host.name: host for host in facts.hosts}
    targets = [hosts[name] for name in facts.targets if name in hosts]
    bad = {host.name: text for host in targets if (text := _lacks(host, SERVER))}
    for name, text in bad.items():
        yield Found(Reason.QEMUCertificatesMissing, f"host {name}", text, soft=len(bad) < len(targets))
    own = hosts.get(facts.node)
    asked = any(host.tls is None or host.tls.verify for host in targets)
    text = _lacks(own, (SERVER[0], *(CLIENT if asked else ()))) if own else ""
    if text:
        yield Found(Reason.QEMUCertificatesMissing, f"host {facts.node}", text)
    dark = sorted(h.name for h in (*targets, *([own] if own else [])) if h.tls is None)
    if dark:
        text = f"Whether QEMU has certificates on {listed(dark)}."
        yield Found(Reason.NotChecked, f"node {facts.node}", text)


def _lacks(host: HostSeen, files: tuple[str, ...]) -> str:
    missing = [name for name in files if host.tls is not None and name in host.tls.missing]
    return f"Not in {host.tls.folder}: {', '.join(missing)}." if host.tls and missing else ""
