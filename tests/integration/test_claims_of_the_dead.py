"""What a drain holds on other hosts when it dies, and who counts the slots while a host is off.

The drain of host-c is killed with its holder. What stands is read with virsh on the hosts.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from cancel import ways
from demo import plays, report, traces
from integration.held import held
from integration.on_host import PACKAGE, on

from lab import GuestSpec, Lab, own_lab
from lab.procs import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.full]

GUESTS = [GuestSpec(name, memory_mib=192, fill_mib=96) for name in ("web-1", "web-2")]
NAMES = [guest.name for guest in GUESTS]
CLAIMS = f"""
from {PACKAGE}.records.claims import Claims
from {PACKAGE}.observe.host import Host, HostConfig
from {PACKAGE.replace("_libvirt", "_core")}.decision.actions import Action, Do
from {PACKAGE.replace("_libvirt", "_core")}.model.policy import Limits
hosts = {{name: Host(HostConfig(name, uri, 4096)) for name, uri in uris.items()}}
claims = Claims(hosts, own, owner_note=lambda: {{"run": "r"}}, unreachable=lambda: away)
wanted = [Action(Do.MIGRATE, own, uuid, "vm", target, memory_mib=64) for uuid in uuids]
"""
CLAIM = f"""{CLAIMS}
answers = claims.claim(wanted, Limits(1, 9, 9))
result = {{uuid: why and why.message for uuid, why in answers.items()}}
"""
GIVE_BACK = f"{CLAIMS}result = [claims.release(action) for action in wanted]"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with own_lab("claims", 3) as made:
        for guest in GUESTS:
            made.run("host-c", guest)
        made.wait_ticking(NAMES)
        yield made


def text_of(ended: plays.Ended) -> str:
    return " ".join(ended.text.split())


def die(lab: Lab) -> None:
    """Drain host-c; when both VMs move, kill playbook, module and holder, and end the migrations
    that libvirtd would carry on."""
    source = lab.host("host-c")
    variables = {"maintenance_hosts": "host-c", "maintenance_requester": "ann@ctl"}
    with held(lab, "host-c", NAMES, lambda: plays.Play(lab, "drain", variables)) as play:
        play.kill()
        _kill(ways.modules(source))  # it may be between two slices, then there is none
        _kill(ways.holders(source))
        for name in NAMES:
            source.virsh("domjobabort", name, check=False)
    assert wait_for(lambda: not _holds(lab))


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _holds(lab: Lab) -> list[str]:
    """Domains on the targets that still receive."""
    return [name for host in ("host-a", "host-b") for name in traces.running(lab.host(host))]


def test_a_restore_removes_what_its_host_holds_when_the_record_is_gone(lab: Lab) -> None:
    """Somebody removed the record by hand: nothing says any more which VMs the claims are of."""
    die(lab)
    source = lab.host("host-c")
    assert len([place for place in traces.claims(lab) if ":slot." in place]) == 3 * len(NAMES)
    for name in traces.volumes(source):
        if name.startswith(("record.", "cordon")):
            source.virsh("vol-delete", name, "--pool", traces.POOL)
    ended = plays.run(lab, "restore", {"maintenance_hosts": "host-c"})
    assert ended.code == 0, ended.text
    for name in NAMES:
        whose = rf"on host-[ab] for {name} from host-c \(run \S+ of ann@ctl since \S+\): host-c has"
        assert re.search(whose, text_of(ended)), ended.text
    assert traces.claims(lab) == []
    assert traces.running(source) == NAMES


def test_the_drain_of_the_target_names_and_removes_what_a_dead_drain_holds_there(lab: Lab) -> None:
    die(lab)
    left = traces.claims(lab)
    targets = {place.split(":")[0] for place in left if ":resv." in place}
    assert len([place for place in left if ":slot." in place]) == 3 * len(NAMES)
    target = min(targets)
    ended = plays.run(lab, "drain", {"maintenance_hosts": target})
    assert ended.code == 0, ended.text
    assert ended.last["phase"] == "Drained"
    said = text_of(ended)
    for name in NAMES:
        whose = rf"Removed the reservation on host-[ab] for {name} from host-c \(run \S+ of ann@ctl since"
        assert re.search(whose, said), ended.text
    assert traces.claims(lab) == []
    assert traces.running(lab.host("host-c")) == NAMES
    # The drain that had died is carried on, and is not hurt by what was removed.
    assert plays.run(lab, "restore", {"maintenance_hosts": target}).code == 0
    again = plays.run(lab, "drain", {"maintenance_hosts": "host-c"})
    assert again.code == 0, again.text
    assert traces.running(lab.host("host-c")) == []
    assert traces.claims(lab) == traces.marked(lab) == []
    assert plays.run(lab, "restore", {"maintenance_hosts": "host-c"}).code == 0
    # Here, not at the end: the next test switches a host off, with the VM that it has by then.
    assert not any(report.check(lab.paths.raw, set())["totals"][key] for key in report.HURT)


def _claim(lab: Lab, own: str, code: str, number: int, away: list[str]) -> Any:
    """Claims for one VM on host-b, by the drain of `own`."""
    uris = {name: host.peer_uri for name, host in lab.hosts.items()}
    uris[own] = "qemu:///system"
    values = {"own": own, "uris": uris, "away": away, "target": "host-b"}
    return on(lab, own, code, uuids=[f"{number:08d}-1111-4111-8111-111111111111"], **values)


def test_two_drains_at_once_respect_the_limit_while_the_first_quorum_host_is_off(lab: Lab) -> None:
    """It does not answer one of them, and the other one has read that before."""
    lab.kill("host-a")
    try:
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(_claim, lab, own, CLAIM, number, away)
                for number, (own, away) in enumerate([("host-b", []), ("host-c", ["host-a"])])
            ]
            answers = [answer for job in jobs for answer in job.result().values()]
        assert answers.count(None) <= 1, answers
        assert all("in flight" in answer for answer in answers if answer), answers
        held = [name for name in traces.volumes(lab.host("host-b")) if name.startswith("slot.")]
        assert len(held) == answers.count(None)
        for number, own in enumerate(["host-b", "host-c"]):
            _claim(lab, own, GIVE_BACK, number, ["host-a"])
        # One alone gets it.
        (answer,) = _claim(lab, "host-c", CLAIM, 3, ["host-a"]).values()
        assert answer is None
        (refused,) = _claim(lab, "host-b", CLAIM, 4, ["host-a"]).values()
        assert "1 migration is in flight" in refused
        (refused,) = _claim(lab, "host-c", CLAIM, 5, ["host-a", "host-b"]).values()
        assert "a majority of them must answer" in refused
        _claim(lab, "host-c", GIVE_BACK, 3, ["host-a"])
    finally:
        lab.power_on("host-a")
    assert traces.claims(lab) == []
