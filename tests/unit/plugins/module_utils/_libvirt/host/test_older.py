"""What a host with an older QEMU does not tell of a VM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import DomainSpec
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import older
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts


class FakeError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__("no")
        self.get_error_code = lambda: code
        self.get_error_domain = lambda: 10


def conn(code: int = 0) -> Any:
    """A connection whose libvirt compares, or has this error."""

    def compare(*_args: Any) -> int:
        if code:
            raise FakeError(code)
        return 1

    return SimpleNamespace(compareHypervisorCPU=compare)


KNOWN = HostFacts(machines={("kvm", "x86_64"): frozenset({"pc-q35-7.2"})})


def spec(machine: str = "pc-q35-7.2", mode: str = "custom") -> DomainSpec:
    return DomainSpec("u", "t", type="kvm", arch="x86_64", machine=machine, cpu_mode=mode, cpu_xml="<cpu/>")


@pytest.mark.parametrize(
    ("one", "peer", "target", "words"),
    [
        (spec(), conn(), KNOWN, ""),
        (spec(mode=""), conn(3), KNOWN, ""),  # QEMU's default for the machine type
        (spec("pc-q35-rhel9.4.0"), conn(), KNOWN, ""),
        (spec("s390-ccw-virtio-7.2"), conn(), KNOWN, ""),
        (spec(), conn(), HostFacts(), "machine types are not known"),
        (spec("microvm"), conn(), KNOWN, "microvm has no version"),
        (spec(""), conn(), KNOWN, "has no version"),
        (spec(), conn(3), KNOWN, "does not compare the CPU custom"),
        (spec(), conn(84), KNOWN, "does not compare the CPU custom"),
        (spec(), conn(91), KNOWN, ""),  # it answers: compare_cpu says what
        (spec(mode="host-passthrough"), conn(), KNOWN, "depends on QEMU's release"),
        (spec(mode="maximum"), conn(), KNOWN, "depends on QEMU's release"),
    ],
)
def test_what_is_not_compared(
    one: DomainSpec, peer: Any, target: HostFacts, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(older, "libvirt", SimpleNamespace(libvirtError=FakeError))
    found = older.not_compared(peer, one, target)
    assert words in found
    assert bool(found) is bool(words)
