"""Three real hosts, of which one dies: its guests run elsewhere, once, and it starts none of them when it is back.

`make recover-demo` and `make test-fencing` are the long forms of it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from demo import plays, traces
from recover import case
from recover.fencing import on_files

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import guard
from lab import GuestSpec, Lab
from lab.names import REPO

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
    back = case.recover(lab, maintenance_move_back=True)

    assert back.code == 0 and "its definition here is removed" in back.text, back.text
    assert {"web", "fw"} <= set(traces.defined(lab.host(case.HOST))), back.text  # given back, by the policy
    lab.wait_ticking(["web", "fw", "local"])
    assert not any(case.hurt(lab).values())


def test_a_roll_recovers_a_host_that_does_not_come_back_from_its_reboot(lab: Lab) -> None:
    """Its drain stopped a VM, which runs elsewhere then. Once it is back a roll takes it again."""
    case.start(lab, [GuestSpec("batch", disks=[("shared", 8)], strategy="None", autostart=True)])
    case.protect(lab)
    tool = lab.paths.host(case.HOST) / "local-sbin" / "shutdown"
    works = tool.read_text()
    tool.write_text(works.replace("signal=HUP", "signal=TERM"))  # it goes down, and not up
    roll = {**plays.UNMEASURED, "maintenance_hosts": case.HOST, "maintenance_reboot_timeout": 20, **case.fence(lab)}
    roll |= {"drain_allow_stop": True, "maintenance_on_dead": "recover"}
    try:
        ended = plays.run(lab, "rolling_maintenance", roll)
    finally:
        tool.write_text(works)
    text = " ".join(ended.text.split())
    assert ended.code == 2 and "Its recovery (maintenance_on_dead): its VMs run elsewhere (free of" in text, ended.text
    lab.wait_ticking(["batch"])
    (where,) = lab.where()["batch"]
    assert where[0] != case.HOST

    case.power_back(lab)
    back = case.recover(lab)
    assert back.code == 0 and "its definition here is removed" in back.text, back.text
    again = plays.run(lab, "rolling_maintenance", roll)
    assert again.code == 0, again.text
    assert not case.hurt(lab)["twice"]


def test_without_the_guard_qemu_s_own_locks_keep_the_host_from_starting_it(lab: Lab, tmp_path: Path) -> None:
    shared = REPO / "build" / f"locks-{tmp_path.name}"
    shared.mkdir(parents=True)
    try:
        names = {"web0": case.HOST, "db": "host-b", "dc": "host-c"}
        on_files(lab, shared, names)
        for _time in range(2):  # the first one leaves with the peers which files to look at
            ended = plays.run(lab, "protect", {"maintenance_shared_paths": [str(shared)]})
            assert ended.code == 0, ended.text
        case.cut_power(lab, ["web0"], quietly=False)
        ended = case.recover(lab, **case.fence(lab))
        assert "web0 runs on host-" in ended.text, ended.text
        case.power_back(lab)
        back = case.recover(lab)
        assert back.code == 0 and "its definition here is removed" in back.text, back.text
        # Its autostart made a QEMU there, which gave up before a guest ran in it; that none ran twice is asked below.
        tried = lab.host(case.HOST).exec(["cat", "/var/log/libvirt/qemu/web0.log"]).stdout
        assert "Is another process using the image" in tried, tried
        lab.wait_ticking([*names])
        assert not any(case.hurt(lab).values())
    finally:
        shutil.rmtree(shared, ignore_errors=True)
