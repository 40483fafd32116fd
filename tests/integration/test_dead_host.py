# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three real hosts, of which one dies: its guests run elsewhere, once, and it starts none of them when it is back.

`make recover-demo` and `make test-fencing` are the long forms of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from demo import traces
from recover import case

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import guard
from lab import GuestSpec, Lab

NVRAM = "/var/lib/libvirt/qemu/nvram/fw_VARS.fd"
FIRMWARE = f"<loader readonly='yes' type='pflash'>/usr/share/seabios/bios-256k.bin</loader><nvram>{NVRAM}</nvram>"

pytestmark = [pytest.mark.lab, pytest.mark.full]


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    """The guard is taken away again, from which the tests after this one would have to know."""
    lab = shared(3)
    yield lab
    for host in lab.hosts.values():
        host.exec(f"rm -f {guard.HOOK} {guard.SETTINGS}")


def test_a_host_dies_and_comes_back(lab: Lab) -> None:
    lab.host(case.HOST).exec(f"mkdir -p $(dirname {NVRAM}); printf %131072s boots-from-vda > {NVRAM}")
    names = case.start(
        lab,
        [
            GuestSpec("web", disks=[("shared", 8)], autostart=True),
            GuestSpec("fw", disks=[("shared", 8)], os_xml=FIRMWARE),
            GuestSpec("local", disks=[("local", 8)], autostart=True),
        ],
    )
    case.protect(lab)
    killed = time.monotonic_ns()
    case.cut_power(lab, names, quietly=False)

    ended = case.recover(lab, **case.fence(lab))

    assert "web runs on host-" in ended.text and "local stays: DisksNotLiveMigratable" in ended.text, ended.text
    begun = case.starts(lab, killed)
    assert set(begun) == {"web", "fw"}
    assert min(stamp for found in begun.values() for stamp, _host in found) > case.event(lab, "read as off") > killed
    lab.wait_ticking(["web", "fw"])
    assert "boots-from-vda" in lab.host(begun["fw"][0][1]).exec(f"cat {NVRAM}").stdout

    case.power_back(lab)
    lab.wait_ticking(["local"])  # its host has it; web was refused to it, whose autostart is on
    back = case.recover(lab)

    assert back.code == 0 and "its definition here is removed" in back.text, back.text
    assert not {"web", "fw"} & set(traces.defined(lab.host(case.HOST)))
    assert not any(case.hurt(lab).values())
