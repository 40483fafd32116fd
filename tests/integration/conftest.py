"""The lab that tests share: three hosts, brought up once and emptied after each file of tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from demo import report, traces

from lab import Lab, inventory, own_lab


@pytest.fixture(scope="session")
def _three() -> Iterator[str]:
    with own_lab("shared", 3) as made:
        yield made.paths.name
        totals = report.check(made.paths.raw, set())["totals"]
        assert not {key: totals[key] for key in report.HURT if totals[key]}


@pytest.fixture(scope="module")
def shared(_three: str) -> Iterator[Callable[[int], Lab]]:
    """A function: the shared lab, whole, as if it had only so many hosts."""

    def of(hosts: int) -> Lab:
        lab = Lab.up(_three)
        for name in list(lab.hosts)[hosts:]:
            del lab.hosts[name]
        inventory.write(lab.paths, list(lab.hosts.values()))
        return lab

    yield of
    lab = Lab.up(_three)
    for host in lab.hosts.values():
        lab.unshape(host)
        lab.let_go(host)
        for name in traces.defined(host):
            lab.remove_guest(name)
        # As on a host that the collection never saw.
        host.exec("rm -rf /var/lib/libvirt/virtops/* /var/lib/libvirt/images/* /root/patched")
        for pool in host.virsh("pool-list", "--name").split():
            host.virsh("pool-refresh", pool)
