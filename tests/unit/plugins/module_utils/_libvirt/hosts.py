"""Three hosts as the preflight reads them, in place of a platform that can write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Node,
    Observation,
    Reservation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings, Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import check, result
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight.check import Measured, gather
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import Slot

UUID = "11111111-2222-3333-4444-55555555555{}".format
CAPS = (
    "<capabilities><host><secmodel><model>apparmor</model></secmodel><secmodel><model>dac</model>"
    "<baselabel type='kvm'>+{0}:+{0}</baselabel></secmodel></host></capabilities>"
)
POLICY = Policy(migration=MigrationSettings(tls=True))
POST_COPY = Policy(migration=MigrationSettings(post_copy=True, tls=True))
PKI = "/etc/pki/qemu"
CLOCKS = tuple(Measured(name, 0.1, tls_dir=PKI) for name in "abc")
CLOSED = (CLOCKS[0], *(Measured(name, 0.1, 0, PKI) for name in "bc"))


class Reader:
    """Has what reads, and nothing that writes: anything else is an AttributeError."""

    def __init__(self, **reads: Any) -> None:
        self.__dict__.update(reads)


class Fleet:
    """Three hosts; two VMs run on a. Tests change what stands in it."""

    def __init__(self) -> None:
        vms = {UUID(n): VM(UUID(n), f"vm{n}", "a", memory_mib=1024) for n in range(2)}
        nodes = {name: Node(name, capacity_mib=65536) for name in "abc"}
        self.obs = Observation(nodes=nodes, vms=vms)
        self.record: NodeRecord | None = None
        self.facts = {name: HostFacts(libvirt_version=9000000, hypervisor_version=7002000) for name in "abc"}
        self.configs = {name: HostConfig(name, f"qemu+tls://{name}/system", memory_mib=65536) for name in "abc"}
        self.user = 64055
        self.copied: dict[str, tuple[str, ...]] = {}
        self.reads = {name: HostNow(name) for name in "abc"}
        self.reads["a"].domains = {vm.uuid: DomainNow(vm.uuid, vm.name, State.RUNNING, 1024) for vm in vms.values()}
        self.later = dict(self.reads)
        self.elsewhere: list[str] = []
        self.xml = ""  # of each domain that is asked for it

    def vm(self, **changes: Any) -> None:
        self.obs.vms[UUID(0)] = replace(self.obs.vms[UUID(0)], **changes)

    def look(self, policy: Policy = POLICY, measured: tuple[Measured, ...] = CLOCKS) -> dict[Reason, dict[str, Any]]:
        conn = Reader(getCapabilities=lambda: CAPS.format(self.user))
        domain = Reader(XMLDesc=lambda _flags: self.xml)
        hosts = {
            name: Reader(
                name=name, conn=conn, facts=self.facts[name], config=self.configs[name], domain=lambda _uuid: domain
            )
            for name in "abc"
        }
        observer = Reader(
            copied=lambda uuid: self.copied.get(uuid, ()), reads=self.reads, read_hosts=lambda: self.later
        )
        platform: Any = Reader(
            load=lambda: self.record,
            observe=lambda _record: self.obs,
            observer=observer,
            source=hosts["a"],
            hosts=hosts,
            quorum_hosts=("b", "c", "a"),
            stale_claims=Reader(elsewhere=self.elsewhere),
        )
        own = HostConfig("a", "qemu:///system")
        request = Request(own, [self.configs["b"], self.configs["c"]], policy, Intent.DRAINED, "preflight")
        facts = gather(platform, request, measured)
        rows = result(facts, check(facts, policy), {})["findings"]
        return {Reason(row["code"]): row for row in rows}


def record(fleet: Fleet) -> None:
    fleet.record = NodeRecord("a", "r1", requester="ann", started_wall="2026-01-01T00:00:00Z")


def stale(fleet: Fleet, count: int = 2) -> None:
    """As many slots as may leave a host at once are taken, and nothing migrates."""
    fleet.reads["b"].slots = [Slot(UUID(n), "a") for n in range(count)]


def claim(fleet: Fleet) -> None:
    fleet.obs.claims[UUID(9)] = Reservation(UUID(9), "b", "a", 512)
